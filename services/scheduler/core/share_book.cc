#include "services/scheduler/core/share_book.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "libs/mig/profiles.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/quota/fair_shares.h"
#include "services/scheduler/core/quota/share.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Node;
using capstan::type::v1::TaskObservation;
using rec::GangHeadRecord;

namespace {

// Kinds of waiting Task that are held against each Node; of more those that ask for least.
constexpr size_t kMaxKinds = 64;

// The other as well wherever this one fits, and may run wherever this one may.
bool AsksForNoMore(const DemandBook::Wanted& a, const DemandBook::Wanted& b) {
  if (!a.clusters.empty() && a.clusters != b.clusters) return false;
  return b.each.Fits(a.each, 1) == 1;
}

bool MayRunIn(const DemandBook::Wanted& wanted, const std::string& cluster) {
  return wanted.clusters.empty() ||
         std::binary_search(wanted.clusters.begin(), wanted.clusters.end(), cluster);
}

// Whole accelerators of the type.
int64_t CountOf(const Amounts& amounts, absl::string_view type) {
  const auto found = amounts.accelerators.find(type);
  return found == amounts.accelerators.end() ? 0 : found->second;
}

// Of those that ask for the type, the ones that ask for least: where none of them fits, no other
// does.
std::vector<const DemandBook::Wanted*> LeastOfType(const std::vector<DemandBook::Wanted>& wanted,
                                                   absl::string_view type) {
  std::vector<const DemandBook::Wanted*> asking;
  for (const DemandBook::Wanted& one : wanted) {
    if (CountOf(one.each, type) > 0) asking.push_back(&one);
  }
  const auto size = [type](const DemandBook::Wanted* one) {
    return std::make_tuple(CountOf(one->each, type), one->each.cpu_millis, one->each.memory_bytes);
  };
  std::stable_sort(asking.begin(), asking.end(),
                   [&](const auto* a, const auto* b) { return size(a) < size(b); });
  std::vector<const DemandBook::Wanted*> least;
  for (const DemandBook::Wanted* one : asking) {
    if (least.size() == kMaxKinds) break;
    const bool is_more = std::any_of(least.begin(), least.end(), [one](const auto* known) {
      return AsksForNoMore(*known, *one);
    });
    if (!is_more) least.push_back(one);
  }
  return least;
}

double DominantPart(const Resources& amounts, const Resources& fleet, int count) {
  const Share share = DominantShare(amounts, fleet, count);
  return share.infinite()
             ? 1.0
             : static_cast<double>(share.numerator()) / static_cast<double>(share.denominator());
}

bool IsPartial(const JobEntry& job) {
  const Gang& gang = *job.gang;
  const GangHeadRecord::Phase phase = gang.head.phase();
  if (phase == GangHeadRecord::PHASE_STOPPING || phase == GangHeadRecord::PHASE_ENDED) return false;
  const auto is_lacking = [](const rec::TaskRecord& task) {
    return task.state() == TaskObservation::STATE_ENDED && !Succeeded(task.end());
  };
  if (std::none_of(gang.tasks.begin(), gang.tasks.end(), is_lacking)) return false;
  std::vector<int> sizes;
  auto task = gang.tasks.begin();
  for (int g = 0; g < job.spec.spec().task_groups_size(); ++g) {
    const int size = SizeOf(job, g);
    sizes.push_back(size - static_cast<int>(std::count_if(task, task + size, is_lacking)));
    task += size;
  }
  return !HasWholeParts(job.spec.spec(), sizes);
}

}  // namespace

void ShareBook::SetQueues(const std::map<std::string, rec::QueueRecord>& queues) {
  specs_ = QueueSpecsOf(queues);
  MakeTree();
}

void ShareBook::MakeTree() {
  tree_ = QueueTree(specs_, CountedResources(specs_, accelerators_, {}));
  usage_ = TreeUsage(tree_);
  for (const auto& [uid, live] : live_) {
    const int leaf = LeafOf(tree_, live.queue);
    if (leaf >= 0) usage_.Add(leaf, ResourcesOf(tree_, live.amounts));
  }
  fair_.clear();
}

void ShareBook::LearnNames(const Amounts& amounts) {
  bool any = false;
  for (const auto& [name, count] : amounts.accelerators) {
    any = accelerators_.insert(std::string(name)).second || any;
  }
  if (any) MakeTree();
}

void ShareBook::SetJob(const std::string& uid, const JobEntry* job) {
  if (const auto known = live_.find(uid); known != live_.end()) {
    const int leaf = LeafOf(tree_, known->second.queue);
    if (leaf >= 0) usage_.Remove(leaf, ResourcesOf(tree_, known->second.amounts));
    live_.erase(known);
  }
  partial_.erase(uid);
  if (job == nullptr || !job->live()) return;
  if (IsPartial(*job)) partial_.insert(uid);
  Amounts amounts;
  int rank = 0;
  for (int g = 0; g < job->spec.spec().task_groups_size(); ++g) {
    const int size = SizeOf(*job, g);
    int64_t there = 0;
    for (int i = 0; i < size; ++i) there += job->gang->ended(rank++) ? 0 : 1;
    if (there > 0) amounts.Add(Amounts::From(job->spec.spec().task_groups(g).resources()), there);
  }
  if (amounts == Amounts()) return;
  LearnNames(amounts);
  const std::string queue(absl::StripPrefix(job->spec.spec().queue(), "queues/"));
  const int leaf = LeafOf(tree_, queue);
  if (leaf >= 0) usage_.Add(leaf, ResourcesOf(tree_, amounts));
  live_[uid] = {queue, std::move(amounts)};
}

void ShareBook::SetNode(const NodeId& id, const rec::NodeRecord* node, const Amounts& allocated) {
  if (const auto known = rooms_.find(id); known != rooms_.end()) {
    capacity_.Subtract(known->second.counted);
    rooms_.erase(known);
  }
  const bool takes =
      node != nullptr && node->state() == Node::STATE_ACTIVE && node->cordons().empty();
  Room room;
  // What it has lost since is in use all the same.
  room.counted.Add(allocated);
  room.counted.mig = {};
  if (takes) {
    room.free = AllocatableOf(node->observation());
    LearnNames(room.free);
    room.free.mig = {};
    room.free.Subtract(room.counted);
    room.counted.cpu_millis += std::max<int64_t>(room.free.cpu_millis, 0);
    room.counted.memory_bytes += std::max<int64_t>(room.free.memory_bytes, 0);
    for (const auto& [name, count] : room.free.accelerators) {
      if (count <= 0) continue;
      room.counted.accelerators[name] += count;
      room.any_free = room.any_free || !mig::IsSliceResource(name);
    }
    if (!room.any_free) room.free = Amounts();
  }
  if (room.counted == Amounts()) return;
  capacity_.Add(room.counted);
  rooms_.emplace(id, std::move(room));
}

void ShareBook::Compute(const std::vector<DemandBook::Wanted>& wanted) {
  std::vector<Resources> demand(tree_.size());
  const auto add = [](int64_t each, int64_t times, int64_t* sum) {
    int64_t product = 0;
    if (__builtin_mul_overflow(each, times, &product) ||
        __builtin_add_overflow(*sum, product, sum) || *sum > kMaxAmount) {
      *sum = kMaxAmount;
    }
  };
  for (int i = 1; i < tree_.size(); ++i) {
    if (tree_.leaf(i)) demand[i] = usage_.used(i);
  }
  for (const DemandBook::Wanted& one : wanted) {
    const int leaf = LeafOf(tree_, std::string(absl::StripPrefix(one.queue, "queues/")));
    if (leaf < 0) continue;
    const Resources each = ResourcesOf(tree_, one.each);
    for (int r = 0; r < tree_.resource_count(); ++r) {
      if (each[r] > 0) add(each[r], one.tasks, &demand[leaf][r]);
    }
  }
  fleet_ = ResourcesOf(tree_, capacity_);
  fair_ = ComputeFairShares(tree_, fleet_, demand).amounts;
  error_ = 0;
  for (int i = 1; i < tree_.size(); ++i) {
    if (!tree_.leaf(i)) continue;
    error_ += std::abs(DominantPart(usage_.used(i), fleet_, tree_.resource_count()) -
                       DominantPart(fair_[i], fleet_, tree_.resource_count())) /
              2;
  }
  CountFragments(wanted);
}

void ShareBook::CountFragments(const std::vector<DemandBook::Wanted>& wanted) {
  fragmented_ = 0;
  std::map<std::string, std::vector<const DemandBook::Wanted*>> asking;
  for (const std::string& name : accelerators_) {
    if (!mig::IsSliceResource(name)) asking[name] = LeastOfType(wanted, name);
  }
  for (const auto& [id, room] : rooms_) {
    if (!room.any_free) continue;
    for (const auto& [name, count] : room.free.accelerators) {
      const auto of = asking.find(std::string(name));
      if (count <= 0 || of == asking.end() || of->second.empty()) continue;
      const bool any = std::any_of(of->second.begin(), of->second.end(), [&](const auto* one) {
        return MayRunIn(*one, id.cluster) && room.free.Fits(one->each, 1) == 1;
      });
      if (!any) fragmented_ += count;
    }
  }
}

ShareBook::QueueShare ShareBook::Of(const std::string& queue) const {
  QueueShare share;
  const absl::optional<int> node = tree_.Find(queue);
  if (!node.has_value()) return share;
  const Resources& used = usage_.used(*node);
  const Resources fair = fair_.empty() ? Resources() : fair_[*node];
  for (int r = 0; r < tree_.resource_count(); ++r) {
    if (used[r] == 0 && fair[r] == 0) continue;
    share.amounts[tree_.resources().name(r)] = {used[r], fair[r]};
  }
  if (fair_.empty()) return share;
  share.dominant = DominantPart(used, fleet_, tree_.resource_count());
  share.fair_dominant = DominantPart(fair, fleet_, tree_.resource_count());
  return share;
}

}  // namespace capstan::scheduler
