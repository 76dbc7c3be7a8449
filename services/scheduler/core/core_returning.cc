// Gangs that have ended to start again at once. Their room is theirs until they are placed, which
// is before anybody else is; where a Node of theirs is gone they take another one near the rest.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_round.h"
#include "services/scheduler/core/gang_sizes.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/core/time_words.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::Stop;

namespace {

void AddTo(const std::vector<MoreTasks>& more, GangPlacement* placement) {
  for (const MoreTasks& one : more) {
    const int end =
        std::accumulate(placement->sizes.begin(), placement->sizes.begin() + one.group + 1, 0);
    if (one.mig.has_value()) placement->mig.resize(placement->nodes.size());
    placement->nodes.insert(placement->nodes.begin() + end, one.count, one.node);
    if (!placement->mig.empty() || one.mig.has_value()) {
      placement->mig.insert(placement->mig.begin() + end, one.count, one.mig);
    }
    placement->sizes[one.group] += one.count;
  }
}

// Takes out the Tasks of parts of which less is left than they need.
void DropBrokenParts(const GangRequest& gang, GangPlacement* placement) {
  for (const OptionalPart& part : gang.parts) {
    const bool is_whole = std::all_of(part.groups.begin(), part.groups.end(), [&](int g) {
      return placement->sizes[g] >= gang.groups[g].least_of_part;
    });
    if (is_whole && (part.within < 0 || HasAnyOf(gang.parts[part.within], placement->sizes))) {
      continue;
    }
    for (const int g : part.groups) {
      const int begin = std::accumulate(placement->sizes.begin(), placement->sizes.begin() + g, 0);
      const int end = begin + std::exchange(placement->sizes[g], 0);
      placement->nodes.erase(placement->nodes.begin() + begin, placement->nodes.begin() + end);
      if (placement->mig.empty()) continue;
      placement->mig.erase(placement->mig.begin() + begin, placement->mig.begin() + end);
    }
  }
}

bool InSlices(const GangRequest& gang) {
  return std::any_of(gang.groups.begin(), gang.groups.end(),
                     [](const auto& group) { return !group.slices.empty(); });
}

// Whether anything around the group has to be in one domain.
bool IsBoundToDomain(const GangRequest& gang, const GangRequest::Group& group) {
  bool bound = group.topology.required() != Topology::LEVEL_UNSPECIFIED;
  for (int s = group.section; s >= 0; s = gang.sections[s].parent) {
    bound = bound || gang.sections[s].topology.required() != Topology::LEVEL_UNSPECIFIED;
  }
  return bound;
}

}  // namespace

void SchedulerCore::Return(JobEntry* job, const std::string& why) {
  if (job->state.hold()) return Enqueue(job);
  SetState(job, Job::STATE_QUEUED, kReturning, why);
  returning_[OrderOf(*job)] = now_.boot + config_.return_within;
}

void SchedulerCore::ForgetReturn(JobEntry* job) {
  returning_.erase(OrderOf(*job));
  room_changed_ = true;
  Enqueue(job);
  queue_book_.SetLive(*job);
}

void SchedulerCore::KeepForReturned(RoundWork* work) {
  const auto starts_nothing = [](const Queue& queue) { return queue.hold() || queue.drain(); };
  std::map<OrderKey, BootTime> all = returning_;
  // Each makes room for those before it.
  for (auto key = all.rbegin(); key != all.rend(); ++key) {
    JobEntry* job = FindJob(std::get<2>(key->first));
    if (!queue_book_.MayComeBack(*job)) ForgetReturn(job);
  }
  all = returning_;
  for (const auto& [key, until] : all) {
    JobEntry* job = FindJob(std::get<2>(key));
    const JobSpec& spec = job->spec.spec();
    const std::string queue(absl::StripPrefix(spec.queue(), "queues/"));
    // One that grows has not lost its place, nor has one that is moved.
    const bool grows = job->gang->head.stop_reason() == Stop::REASON_GROWN;
    const bool moves = IsMoved(*job);
    if (until <= now_.boot || (!grows && !moves && queue_book_.IsOutranked(*job)) ||
        !QueueAbove(model_, queue, starts_nothing).empty()) {
      ForgetReturn(job);
      continue;
    }
    // Where it was is not kept for it: see KeepMoves.
    if (moves) continue;
    const GangRequest request = RequestOf(*job);
    // What Nodes of its have left beside what was kept of them here.
    std::map<int, Amounts> kept;
    // How many of the group's Tasks the Node still has room for.
    const auto keep = [&](const NodeId& node, int group, const Amounts& each, int count) {
      const int at = work->PositionOf(node);
      if (at < 0 || !Admits(work->standings[at].capacity, request, group)) {
        return std::make_pair(at, 0);
      }
      Amounts free = work->standings[at].capacity.free;
      free.Subtract(kept[at]);
      count = static_cast<int>(free.Fits(each, count));
      kept[at].Add(each, count);
      return std::make_pair(at, count);
    };
    Returned returned;
    returned.uid = job->uid();
    for (int rank = 0; rank < static_cast<int>(job->gang->tasks.size()); ++rank) {
      const auto [at, count] =
          keep(job->gang->node(rank), GroupOf(*job, rank).first, AmountsOf(*job, rank), 1);
      returned.places.push_back(count == 1 ? at : -1);
    }
    bool any_lost = !returned.is_whole();
    for (const auto& addition : job->gang->head.additions()) {
      const auto [at, count] = keep({job->gang->head.cluster(), addition.node()}, addition.group(),
                                    AmountsOf(*job, addition), addition.count());
      if (count > 0) {
        returned.additions.push_back({addition.group(), at, count, SpotOf(*job, addition)});
      }
      any_lost = any_lost || count < addition.count();
    }
    // Which Task is in which slice goes by rank, and those in between cannot be told from others:
    // it is placed anew.
    if (any_lost && InSlices(request)) {
      ForgetReturn(job);
      continue;
    }
    for (const auto& [at, amounts] : kept) {
      NodeStanding& standing = work->Standing(at);
      standing.capacity.free.Subtract(amounts);
      if (standing.unisolated) standing.capacity.only_submitter = request.submitter;
    }
    work->kept[job->uid()] = std::move(kept);
    work->returned.push_back(std::move(returned));
  }
}

void SchedulerCore::HoldForReturned(RoundWork* work) const {
  for (const Returned& returned : work->returned) {
    const JobEntry& job = *model_.FindJob(returned.uid);
    HeldGang& gang = work->held.emplace_back();
    gang.uid = returned.uid;
    gang.priority = job.spec.spec().priority();
    for (const auto& [at, amounts] : work->kept[returned.uid]) {
      if (amounts != Amounts()) gang.shares.emplace_back(at, amounts);
    }
    const bool has_limit = job.spec.spec().has_time_limit();
    gang.left = (has_limit ? LongestRun(job.spec.spec()) : kAssumedRun) + kPrepareAllowance;
    gang.left_is_assumed = !has_limit;
    work->victims.push_back(queue_book_.GangsOf({gang})[0]);
  }
}

absl::optional<GangPlacement> SchedulerCore::FindPlaceAgain(const JobEntry& job,
                                                            const Returned& returned,
                                                            RoundWork* work) const {
  const JobSpec& spec = job.spec.spec();
  GangRequest whole = RequestOf(job);
  const int groups = spec.task_groups_size();
  // Where the rest of it is to be, in the order of ranks.
  GangPlacement has;
  has.sizes.resize(groups);
  for (size_t rank = 0; rank < returned.places.size(); ++rank) {
    if (returned.places[rank] < 0) continue;
    has.nodes.push_back(returned.places[rank]);
    if (AsksForMig(spec)) has.mig.push_back(SpotOf(job, static_cast<int>(rank)));
    ++has.sizes[GroupOf(job, static_cast<int>(rank)).first];
  }
  const auto with = [&](const std::vector<MoreTasks>& missing) {
    absl::optional<GangPlacement> placement = has;
    AddTo(missing, &*placement);
    AddTo(returned.additions, &*placement);
    DropBrokenParts(whole, &*placement);
    if (!HasWholeParts(spec, placement->sizes)) placement.reset();
    return placement;
  };
  if (returned.is_whole()) return with({});

  // Near the rest of it, or all of it elsewhere; and rather in the kind of domain that it was in.
  GangRequest rest = whole;
  rest.clusters = {job.gang->head.cluster()};
  int least = 0;
  bool is_anchored = true;
  for (int group = 0; group < groups; ++group) {
    rest.groups[group].replicas = SizeOf(job, group);
    rest.groups[group].more = 0;
  }
  // It goes on without a part that it has lost.
  for (const OptionalPart& part : rest.parts) {
    if (HasAnyOf(part, has.sizes)) continue;
    for (const int group : part.groups) rest.groups[group].replicas = 0;
  }
  for (int group = 0; group < groups; ++group) {
    const int size = has.sizes[group];
    least += std::max(whole.groups[group].replicas - size, 0);
    whole.groups[group].more = SizeOf(job, group) - whole.groups[group].replicas;
    // With none of its Tasks left nothing says which domain it is in.
    is_anchored = is_anchored && (size > 0 || rest.groups[group].replicas == 0 ||
                                  !IsBoundToDomain(whole, whole.groups[group]));
  }
  is_anchored = is_anchored && !has.nodes.empty();
  // The narrower one first.
  std::vector<Topology::Level> levels = {LevelStoodIn(job)};
  const Topology::Level required = whole.topology.required();
  if (levels.front() != required) levels.push_back(required);
  for (const Topology::Level level : levels) {
    rest.topology.set_required(level);
    whole.topology.set_required(level);
    if (is_anchored) {
      const auto any = [](const Amounts&) { return true; };
      if (auto found = with(work->placing->Grow(rest, has, least, any))) return found;
    }
    if (auto found = work->placing->Place(whole)) return found;
  }
  return absl::nullopt;
}

Topology::Level SchedulerCore::LevelStoodIn(const JobEntry& job) const {
  const Topology& topology = job.spec.spec().topology();
  const Topology::Level preferred = topology.preferred() == Topology::LEVEL_UNSPECIFIED
                                        ? Topology::LEVEL_NVLINK_DOMAIN
                                        : topology.preferred();
  if (!IsNarrower(preferred, topology.required())) return topology.required();
  std::set<std::string> domains;
  for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
    NodeCapacity node;
    node.id = job.gang->node(static_cast<int>(rank));
    const auto known = model_.nodes.find(node.id);
    if (known == model_.nodes.end()) return topology.required();
    node.topology = NodeTopology::From(known->second.observation().labels());
    domains.insert(DomainOf(node, preferred));
  }
  const bool in_one = domains.size() == 1 && !domains.begin()->empty();
  return in_one ? preferred : topology.required();
}

bool SchedulerCore::IsHeard(const std::string& cluster) const {
  const auto session = sessions_.find(cluster);
  return session != sessions_.end() ? session->second.synced : leases_.ClusterSilent(cluster);
}

void SchedulerCore::FindPlacesForReturned(RoundWork* work) {
  for (Returned& returned : work->returned) {
    JobEntry* job = FindJob(returned.uid);
    // Its Nodes may only not have been heard of yet.
    if (!IsHeard(job->gang->head.cluster()) && !returned.is_whole()) continue;
    returned.placement = FindPlaceAgain(*job, returned, work);
    if (returned.placement.has_value()) continue;
    const auto missing = std::count(returned.places.begin(), returned.places.end(), -1);
    const BootTime until = returning_.at(OrderOf(*job));
    SetState(job, Job::STATE_QUEUED, kReturning,
             absl::StrCat(missing, " of its ", returned.places.size(),
                          " Tasks cannot be where they were, nor near the others; the room of "
                          "these is kept for it until ",
                          TimeInWords(now_.wall + (until - now_.boot))));
  }
}

void SchedulerCore::PlaceReturned(bool may_have_more, RoundWork* work) {
  for (Returned& returned : work->returned) {
    if (!returned.placement.has_value()) continue;
    JobEntry* job = FindJob(returned.uid);
    GangPlacement& placement = *returned.placement;
    for (const auto& [at, amounts] : work->kept[returned.uid]) {
      work->Capacity(at).free.Add(amounts);
      work->standings[at].capacity = work->nodes[at];
    }
    GangRequest request = RequestOf(*job);
    if (may_have_more && IsElastic(job->spec.spec())) {
      request.clusters = {work->nodes[placement.nodes.front()].id.cluster};
      const auto more = work->placing->Grow(request, placement, 1, [&](const Amounts& amounts) {
        return queue_book_.MayGrow(*job, work->capacity, amounts);
      });
      AddTo(more, &placement);
    }
    returning_.erase(OrderOf(*job));
    PlaceIn(job, request, placement, work);
    queue_book_.SetLive(*job);
    // If it went elsewhere, others learn in the next round of what was kept.
    room_changed_ = room_changed_ || !returned.is_whole();
  }
}

}  // namespace capstan::scheduler
