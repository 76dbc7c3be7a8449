#include "services/scheduler/core/usage.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/mig/declared_gpus.h"
#include "libs/mig/layouts.h"
#include "libs/mig/profiles.h"

namespace capstan::scheduler {

Amounts Amounts::From(const capstan::type::v1::Resources& resources) {
  Amounts amounts;
  amounts.cpu_millis = resources.cpu_millis();
  amounts.memory_bytes = resources.memory_bytes();
  for (const auto& [name, count] : resources.accelerators()) {
    if (count != 0) amounts.accelerators[name] = count;
  }
  if (!resources.has_mig()) return amounts;
  if (const absl::optional<mig::Ask> ask = AskOf(resources.mig()); ask.has_value()) {
    const mig::DeviceModel& model = mig::DeviceModels()[ask->model];
    amounts.accelerators[mig::SliceResource(model)] = model.profiles[ask->profile].memory_slices;
    amounts.mig.AddAsk(*ask);
  } else {
    // Of a version that knows more: no Node has it.
    amounts.accelerators[absl::StrCat("mig/", resources.mig().model(), "/",
                                      resources.mig().profile())] = 1;
  }
  return amounts;
}

capstan::type::v1::Resources Amounts::ToResources() const {
  capstan::type::v1::Resources resources;
  resources.set_cpu_millis(cpu_millis);
  resources.set_memory_bytes(memory_bytes);
  for (const auto& [name, count] : accelerators) (*resources.mutable_accelerators())[name] = count;
  if (const absl::optional<mig::Ask> ask = mig.ask(); ask.has_value()) {
    const mig::DeviceModel& model = mig::DeviceModels()[ask->model];
    resources.mutable_mig()->set_model(model.name);
    resources.mutable_mig()->set_profile(model.profiles[ask->profile].name);
    resources.mutable_accelerators()->erase(mig::SliceResource(model));
  }
  return resources;
}

void Amounts::Add(const Amounts& other, int64_t times) {
  cpu_millis += times * other.cpu_millis;
  memory_bytes += times * other.memory_bytes;
  for (const auto& [name, count] : other.accelerators) {
    int64_t& mine = accelerators[name];
    mine += times * count;
    if (mine == 0) accelerators.erase(name);
  }
  mig.Add(other.mig, times);
}

Amounts AllocatableOf(const capstan::type::v1::NodeObservation& observation) {
  Amounts amounts = Amounts::From(observation.allocatable());
  for (const auto& [name, count] : observation.allocatable().accelerators()) {
    if (mig::IsSliceResource(name)) amounts.accelerators.erase(name);
  }
  std::set<int> seen;
  for (const capstan::type::v1::MigGpu& gpu : observation.mig_gpus()) {
    const int model = mig::ModelIndex(gpu.model());
    if (model < 0 || gpu.index() < 0 || gpu.index() >= mig::kMaxGpus) continue;
    if (!seen.insert(gpu.index()).second) continue;
    const mig::DeviceModel& of = mig::DeviceModels()[model];
    amounts.accelerators[mig::SliceResource(of)] += of.memory_slices;
    amounts.mig.AddGpu(gpu.index(), model);
  }
  return amounts;
}

void AddAccelerators(const capstan::type::v1::NodeObservation& observation,
                     std::set<std::string>* names) {
  for (const auto& [name, count] : observation.allocatable().accelerators()) names->insert(name);
  if (observation.mig_gpus().empty()) return;
  for (const auto& [name, count] : AllocatableOf(observation).accelerators) names->insert(name);
}

Amounts WithInstance(Amounts each, const absl::optional<MigSpot>& spot) {
  if (!spot.has_value()) return each;
  each.mig = {};
  each.mig.AddInstance(*spot);
  return each;
}

rec::MigPlace PlaceOf(const MigSpot& spot) {
  rec::MigPlace place;
  place.set_gpu(spot.gpu);
  place.set_start(StartOf(spot));
  return place;
}

absl::optional<MigSpot> SpotOf(const JobEntry& job, int rank) {
  const auto instance = MigInstanceOf(job, rank);
  return instance.has_value() ? SpotOf(*instance) : absl::nullopt;
}

absl::optional<MigSpot> SpotOf(const JobEntry& job, const rec::GangHeadRecord::Addition& addition) {
  const auto& resources = job.spec.spec().task_groups(addition.group()).resources();
  if (!resources.has_mig() || !addition.has_mig()) return absl::nullopt;
  capstan::type::v1::MigInstance instance;
  instance.set_gpu(addition.mig().gpu());
  instance.set_model(resources.mig().model());
  instance.set_profile(resources.mig().profile());
  instance.set_start(addition.mig().start());
  return SpotOf(instance);
}

Amounts AmountsOf(const JobEntry& job, int rank) {
  const int group = GroupOf(job, rank).first;
  return WithInstance(Amounts::From(job.spec.spec().task_groups(group).resources()),
                      SpotOf(job, rank));
}

Amounts AmountsOf(const JobEntry& job, const rec::GangHeadRecord::Addition& addition) {
  return WithInstance(Amounts::From(job.spec.spec().task_groups(addition.group()).resources()),
                      SpotOf(job, addition));
}

int64_t Amounts::Fits(const Amounts& each, int64_t limit) const {
  auto bound = [&limit](int64_t have, int64_t need) {
    if (need > 0) limit = std::min(limit, std::max<int64_t>(have, 0) / need);
  };
  bound(cpu_millis, each.cpu_millis);
  bound(memory_bytes, each.memory_bytes);
  for (const auto& [name, need] : each.accelerators) {
    auto it = accelerators.find(name);
    bound(it == accelerators.end() ? 0 : it->second, need);
  }
  return mig.Fits(each.mig, limit);
}

bool Amounts::AnyBelowZero() const {
  return cpu_millis < 0 || memory_bytes < 0 ||
         std::any_of(
             accelerators.begin(), accelerators.end(),
             [](const auto& entry) { return entry.second < 0; });
}

NodeUsage::Shares NodeUsage::LiveShares(const JobEntry& job) {
  Shares shares;
  const Gang& gang = *job.gang;
  int rank = 0;
  for (int g = 0; g < job.spec.spec().task_groups_size(); ++g) {
    const Amounts each = Amounts::From(job.spec.spec().task_groups(g).resources());
    const int size = SizeOf(job, g);
    for (int i = 0; i < size; ++i, ++rank) {
      if (gang.ended(rank)) continue;
      Share& share = shares[gang.node(rank)];
      if (each.mig.empty()) {
        share.amounts.Add(each);
      } else {
        share.amounts.Add(WithInstance(each, SpotOf(job, rank)));
      }
      ++share.task_count;
    }
  }
  return shares;
}

void NodeUsage::Update(const std::string& uid, const JobEntry* job) {
  Shares shares;
  if (job != nullptr && job->live()) shares = LiveShares(*job);
  const auto known = shares_.find(uid);
  if (known == shares_.end() ? shares.empty() : known->second == shares) return;
  if (known != shares_.end()) {
    for (const auto& [node, share] : known->second) {
      Entry& entry = nodes_[node];
      entry.allocated.Subtract(share.amounts);
      entry.task_count -= share.task_count;
      entry.jobs.erase(uid);
      if (entry.task_count == 0) nodes_.erase(node);
      if (keeps_changed_) changed_.insert(node);
    }
  }
  for (const auto& [node, share] : shares) {
    Entry& entry = nodes_[node];
    entry.allocated.Add(share.amounts);
    entry.task_count += share.task_count;
    entry.jobs.insert(uid);
    if (keeps_changed_) changed_.insert(node);
  }
  if (shares.empty()) {
    shares_.erase(known);
  } else {
    shares_[uid] = std::move(shares);
  }
}

const NodeUsage::Entry& NodeUsage::Get(const NodeId& node) const {
  static const Entry* const kEmpty = new Entry();
  auto it = nodes_.find(node);
  return it == nodes_.end() ? *kEmpty : it->second;
}

std::vector<std::pair<NodeId, Amounts>> NodeUsage::SharesOf(const std::string& uid) const {
  std::vector<std::pair<NodeId, Amounts>> amounts;
  auto it = shares_.find(uid);
  if (it == shares_.end()) return amounts;
  for (const auto& [node, share] : it->second) amounts.emplace_back(node, share.amounts);
  return amounts;
}

std::set<NodeId> NodeUsage::NodesOf(const std::string& uid) const {
  std::set<NodeId> nodes;
  auto it = shares_.find(uid);
  if (it == shares_.end()) return nodes;
  for (const auto& [node, share] : it->second) nodes.insert(node);
  return nodes;
}

}  // namespace capstan::scheduler
