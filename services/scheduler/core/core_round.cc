// Rounds of placement: what a round begins with, for whom room is kept, and who is placed.
#include "services/scheduler/core/core_round.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/held_book.h"
#include "services/scheduler/core/job_spans.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/retry.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;

namespace {

// An estimate that differs by less is not written anew.
constexpr absl::Duration kEstimateStep = absl::Seconds(10);

// Shapes remembered; beyond, all are found out anew.
constexpr size_t kMaxHopeless = 4096;

// What a round costs grows with the fleet, so rounds of large fleets do not follow each other at
// once: what comes in meanwhile shares the next one.
constexpr size_t kNodesWithoutPause = 256;
constexpr absl::Duration kPausePerNode = absl::Microseconds(100);
constexpr absl::Duration kMaxPause = absl::Milliseconds(500);

absl::Duration PauseAfterRound(size_t nodes) {
  return nodes <= kNodesWithoutPause
             ? absl::ZeroDuration()
             : std::min(kPausePerNode * static_cast<int64_t>(nodes), kMaxPause);
}

}  // namespace

absl::Duration SchedulerCore::RanFor(const JobEntry& job) const {
  auto started = started_at_.find(job.uid());
  return started == started_at_.end() ? absl::ZeroDuration() : now_.boot - started->second;
}

absl::Duration SchedulerCore::MinRuntime(const JobEntry& job) const {
  return MinRuntimeOf(model_, job, config_.min_runtime);
}

std::map<std::string, std::map<int, Amounts>> SchedulerCore::KeepForReturning(
    RoundWork* work) const {
  std::map<std::string, std::map<int, Amounts>> all;
  for (const std::string& uid : held_book_.coming_back()) {
    const JobEntry& job = *model_.FindJob(uid);
    const bool shrinking = IsShrinking(job);
    const auto shares = usage_.SharesOf(uid);
    const bool any_silent = std::any_of(shares.begin(), shares.end(), [work](const auto& share) {
      const int at = work->PositionOf(share.first);
      return at < 0 || work->standings[at].silent;
    });
    // The end on a silent Node may be long in coming.
    if (any_silent) continue;
    const auto keep = [&](const NodeId& node, const Amounts& each, int count) {
      const int at = work->PositionOf(node);
      if (at < 0) return;
      // One that had done its work long before: others may be there by now.
      const int64_t fits = work->standings[at].capacity.free.Fits(each, count);
      if (fits < 1) return;
      work->Standing(at).capacity.free.Subtract(each, fits);
      all[uid][at].Add(each, fits);
    };
    for (int rank = 0; rank < static_cast<int>(job.gang->tasks.size()); ++rank) {
      if (!job.gang->ended(rank) || (shrinking && IsSpare(job, rank))) continue;
      keep(job.gang->node(rank), AmountsOf(job, rank), 1);
    }
    for (const auto& addition : job.gang->head.additions()) {
      keep({job.gang->head.cluster(), addition.node()}, AmountsOf(job, addition), addition.count());
    }
  }
  return all;
}

void SchedulerCore::Round() {
  UpdateUsage();
  if (room_changed_) ArmGrowth();
  if (waiting_jobs() == 0 && !GrowthDue()) {
    room_changed_ = false;
    seeking_orders_.clear();
    return;
  }
  // Nobody grows before all that waits was asked.
  room_changed_ = room_changed_ || GrowthDue();
  if ((!RoundDue() && !GrowthDue()) || now_.boot < round_at_) return;
  ++rounds_;
  const bool asks_all = room_changed_;
  std::shared_ptr<RoundWork> work = std::move(foreseen_);
  // It knows only the labels that were asked by when it was foreseen.
  if (work != nullptr) {
    const std::set<std::string> keys = LabelKeys();
    const std::set<std::string>& known = work->label_keys;
    if (!std::includes(known.begin(), known.end(), keys.begin(), keys.end())) work.reset();
  }
  if (work == nullptr) {
    work = std::make_shared<RoundWork>(&held_book_, &standing_book_);
    BeginRound(work.get());
  }
  KeepMoves(work.get());
  FindPlacesForReturned(work.get());
  PlaceMadeRoomFor(work.get());
  PlaceMovedElsewhere(work.get());
  KeepReservation(work.get());
  TryInOrder(work.get());
  PauseMoveSearches(*work);
  const bool asked_all = asks_all && !room_changed_;
  PlaceReturned(/*may_have_more=*/asked_all, work.get());
  if (asked_all && GrowthDue()) GrowGangs(work.get());
  // One that was cut short goes on at once.
  round_at_ =
      RoundDue() ? BootTime::InfinitePast() : now_.boot + PauseAfterRound(model_.nodes.size());
}

std::set<NodeId> SchedulerCore::UnreportedNodes() const {
  std::set<NodeId> unreported;
  size_t heard = 0;
  for (const auto& [cluster, session] : sessions_) {
    if (session.synced) heard += session.nodes_heard.size();
  }
  if (heard == model_.nodes.size()) return unreported;
  const std::set<NodeId> none;
  const std::string* cluster = nullptr;
  const std::set<NodeId>* of_cluster = nullptr;
  for (const auto& [id, node] : model_.nodes) {
    if (cluster == nullptr || *cluster != id.cluster) {
      cluster = &id.cluster;
      const auto session = sessions_.find(id.cluster);
      const bool synced = session != sessions_.end() && session->second.synced;
      of_cluster = synced ? &session->second.nodes_heard : &none;
    }
    if (of_cluster->count(id) == 0) unreported.insert(unreported.end(), id);
  }
  return unreported;
}

void SchedulerCore::BeginRound(RoundWork* work) {
  const std::set<NodeId> unreported = UnreportedNodes();
  // Of a Cluster without Nodes nothing is awaited.
  for (auto node = model_.nodes.begin(); node != model_.nodes.end();) {
    const std::string& cluster = node->first.cluster;
    work->awaits_any_report = work->awaits_any_report || !IsHeard(cluster);
    node = model_.nodes.lower_bound({absl::StrCat(cluster, absl::string_view("\0", 1)), ""});
  }
  if (config_.begin_anew) asked_.clear();
  if (config_.begin_anew) standing_book_.SetAllChanged();
  standing_book_.SetChanged(usage_.TakeChanged());
  standing_book_.Take({model_, usage_, draining_, unreported, now_.wall}, &work->standings,
                      &work->nodes);
  if (queues_changed_ || standing_book_.accelerators() != queue_book_.accelerators()) {
    SetTree(standing_book_.accelerators());
  }
  KeepOrdered(work);
  work->kept = KeepForReturning(work);
  KeepForReturned(work);
  for (int at : work->disturbed) work->nodes[at] = work->standings[at].capacity;
  std::vector<Amounts> free;
  for (const NodeStanding& standing : work->standings) {
    if (standing.capacity.eligible && !standing.maintained) free.push_back(standing.capacity.free);
  }
  for (const auto& [until, uid] : avoidances_) {
    const JobEntry* job = model_.FindJob(uid);
    if (job == nullptr || job->final()) continue;
    for (const auto& avoided : job->state.avoided_nodes()) {
      const int at = work->PositionOf({avoided.cluster(), avoided.node()});
      if (at >= 0) work->Capacity(at).avoided = true;
    }
  }
  if (const absl::optional<Amounts> taken = TakenByMoves()) free.push_back(*taken);
  work->free = queue_book_.Sum(free);
  work->capacity = queue_book_.Capacity(free);
  if (config_.begin_anew) held_book_.SetAllChanged();
  held_book_.Take({model_, usage_, queue_book_, work->standings, work->kept, started_at_, now_,
                   config_.min_runtime},
                  &work->held, &work->victims);
  HoldForReturned(work);
  work->label_keys = LabelKeys();
  work->placing = config_.begin_anew
                      ? placer_->Begin(work->nodes, work->held, &work->label_keys)
                      : placer_->BeginNext(work->nodes, work->held, &work->label_keys);
  ReviseHopeless();
}

std::set<std::string> SchedulerCore::LabelKeys() const {
  std::set<std::string> keys;
  queue_book_.AddLabelKeys(&keys);
  // Those that grow, return or are moved are placed too.
  held_book_.AddLabelKeys(&keys);
  for (const OrderKey& key : making_room_) {
    AddLabelKeys(model_.FindJob(std::get<2>(key))->spec.spec(), &keys);
  }
  for (const auto& [key, until] : returning_) {
    AddLabelKeys(model_.FindJob(std::get<2>(key))->spec.spec(), &keys);
  }
  return keys;
}

void SchedulerCore::ReviseHopeless() {
  if (standing_book_.usable() == hopeless_fleet_) return;
  hopeless_.clear();
  hopeless_fleet_ = standing_book_.usable();
}

void SchedulerCore::PlaceMadeRoomFor(RoundWork* work) {
  const std::set<OrderKey> all = making_room_;
  for (const OrderKey& key : all) {
    JobEntry* job = FindJob(std::get<2>(key));
    if (MovesFor(*job) && !IsPlanWhole(*job, *work)) {
      // Who is moved for it starts again all the same.
      making_room_.erase(key);
      Enqueue(job);
      queue_book_.SetLive(*job);
      continue;
    }
    if (MovesFor(*job) && work->awaits_report) continue;
    const GangRequest request = RequestOf(*job);
    // Its least is in use already.
    const auto may_have = [&](const Amounts& more) {
      return queue_book_.MayUse(*job, work->capacity, more);
    };
    if (const auto placement = work->placing->Place(request, may_have)) {
      const bool moves = MovesFor(*job);
      making_room_.erase(key);
      PlaceIn(job, request, *placement, work);
      queue_book_.SetLive(*job);
      // Somebody may wait for its turn to have others moved.
      room_changed_ = room_changed_ || (moves && !AnyMoves());
    } else if (!work->placing->HoldAfterEnding(request) && !work->awaits_any_report) {
      // Nodes have gone meanwhile: it waits as it did before.
      making_room_.erase(key);
      Enqueue(job);
      queue_book_.SetLive(*job);
    }
  }
}

void SchedulerCore::ForgetReservation() {
  JobEntry* job = FindJob(reserved_);
  reserved_.clear();
  room_changed_ = true;
  if (job == nullptr || !job->state.has_estimated_start_time()) return;
  job->state.clear_estimated_start_time();
  job->state.clear_estimate_assumed();
  Touch(*job);
}

void SchedulerCore::KeepReservation(RoundWork* work) {
  if (reserved_.empty()) return;
  JobEntry* job = FindJob(reserved_);
  if (job == nullptr || !queue_book_.IsWaiting(*job) || queue_book_.IsOutranked(*job) ||
      queue_book_.IsPrecededByFresh(*job) || queue_book_.Refusal(*job, work->capacity) ||
      WaitsForRate(job)) {
    if (job != nullptr) queue_book_.SetChanged(*job);
    return ForgetReservation();
  }
  const GangRequest request = RequestOf(*job);
  const auto placement = work->placing->Place(request, [&](const Amounts& more) {
    Amounts all = LeastOf(*job);
    all.Add(more);
    return queue_book_.MayUse(*job, work->capacity, all);
  });
  if (!placement) return TryReserve(job, request, work);
  reserved_.clear();
  queue_book_.TakeStart(*job);
  Dequeue(*job);
  PlaceIn(job, request, *placement, work);
  queue_book_.SetLive(*job);
}

void SchedulerCore::TryReserve(JobEntry* job, const GangRequest& request, RoundWork* work) {
  ++work->reserve_attempts;
  const absl::optional<StartEstimate> estimate = work->placing->Reserve(request);
  if (!estimate) {
    // What is short of room it had is not counted on to go: that is no final word.
    const bool any_short =
        std::any_of(work->nodes.begin(), work->nodes.end(),
                    [](const NodeCapacity& node) { return node.free.AnyBelowZero(); });
    work->unreservable.insert(request.Shape());
    if (!any_short) {
      if (hopeless_.size() == kMaxHopeless) hopeless_.clear();
      hopeless_.insert(request.Shape());
    }
    if (reserved_ == job->uid()) ForgetReservation();
    return;
  }
  reserved_ = job->uid();
  const absl::Time start = now_.wall + estimate->wait;
  const absl::Duration moved = job->state.has_estimated_start_time()
                                   ? start - ToTime(job->state.estimated_start_time())
                                   : absl::InfiniteDuration();
  if (absl::AbsDuration(moved) < std::max(kEstimateStep, estimate->wait / 16) &&
      job->state.estimate_assumed() == estimate->assumed) {
    return;
  }
  *job->state.mutable_estimated_start_time() = ToProto(start);
  job->state.set_estimate_assumed(estimate->assumed);
  Touch(*job);
}

void SchedulerCore::PlaceIn(JobEntry* job, const GangRequest& request,
                            const GangPlacement& placement, RoundWork* work) {
  Place(job, work->nodes, placement);
  for (size_t rank = 0; rank < placement.nodes.size(); ++rank) {
    const int at = placement.nodes[rank];
    const int group = GroupOf(*job, static_cast<int>(rank)).first;
    const Amounts& each = request.groups[group].each;
    NodeCapacity& node = work->Capacity(at);
    node.free.Subtract(each.mig.empty() ? each : WithInstance(each, placement.mig[rank]));
    if (work->standings[at].unisolated) node.only_submitter = request.submitter;
    work->standings[at].capacity = node;
  }
  UseOrders(*job);
}

void SchedulerCore::Place(JobEntry* job, const std::vector<NodeCapacity>& nodes,
                          const GangPlacement& placement) {
  std::vector<std::string> ids;
  ids.reserve(placement.nodes.size());
  for (int at : placement.nodes) ids.push_back(nodes[at].id.node);
  WriteEndApart(job);
  DirtyJob& dirty = Touch(*job);
  if (job->gang) dirty.dropped_generation = job->gang->head.generation();
  BeginGeneration(nodes[placement.nodes.front()].id.cluster, std::move(ids), placement.sizes, job);
  for (const absl::optional<MigSpot>& spot : placement.mig) {
    rec::MigPlace& place = job->gang->mig.emplace_back();
    if (spot.has_value()) place = PlaceOf(*spot);
  }
  dirty.placements = true;
  dirty.gang = true;
  dirty.task_chunks.clear();
  for (size_t rank = 0; rank < placement.nodes.size(); rank += kTasksPerChunk) {
    dirty.task_chunks.insert(TaskChunkOf(static_cast<int>(rank)));
  }
  job->state.clear_start_time();
  SetState(job, Job::STATE_PREPARING, "PLACED",
           absl::StrCat("placed on ", job->gang->head.cluster(), " as generation ",
                        job->state.generation(), SizeInWords(*job)));
  *job->state.mutable_generation_time() = ToProto(now_.wall);
  if (IsTraced(*job)) effects_.push_back(TellSpan{PlaceSpan(*job, now_.wall), true});
  live_.insert(job->uid());
  usage_.Update(job->uid(), job);
  WatchGang(*job);
  resend_.insert(job->uid());
}

}  // namespace capstan::scheduler
