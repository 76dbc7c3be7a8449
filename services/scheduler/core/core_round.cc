// Rounds of placement: who starts, for whom others end, and for whom room is kept.
#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/job_spans.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/queue_victims.h"
#include "services/scheduler/core/retry.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Stop;
using rec::GangHeadRecord;

namespace {

// Bounds of one round: what is left is tried in the next.
constexpr int kMaxVictimSearches = 8;
constexpr int kMaxVictimQuestions = 64;
constexpr int kMaxReserveAttempts = 4;
// The decision is one record.
constexpr size_t kMaxVictims = 512;
// An estimate that differs by less is not written anew.
constexpr absl::Duration kEstimateStep = absl::Seconds(10);

// RESERVED and INSUFFICIENT_RESOURCES change places with each Task that ends somewhere. Where many
// wait, which of them it is is written anew for few in a round, and for each of them seldom.
constexpr size_t kAllRevised = 256;
constexpr int kMaxRevisions = 32;
constexpr absl::Duration kReasonHolds = absl::Minutes(1);

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

constexpr char kReserved[] =
    "fits, but might delay a Job that room is kept for; with a time_limit that ends before that "
    "one starts it could run";

// What the queues' rules know of who asks for room.
std::tuple<int, uint32_t, int32_t> AskerOf(const QueueOrder& order) {
  return {order.next_leaf(), order.next_gang().request, order.next_gang().priority};
}

}  // namespace

struct SchedulerCore::RoundWork {
  std::vector<NodeStanding> standings;
  std::vector<NodeCapacity> nodes;
  // By uid and position of the Node: see KeepForReturning.
  std::map<std::string, std::map<int, Amounts>> kept;
  // What shares are of, and what of it is free.
  Resources capacity;
  Resources free;
  std::vector<HeldGang> held;
  // By position among those held; in no queue once told to end in this round.
  std::vector<QueueVictims::Gang> victims;
  // Those that were.
  std::vector<QueueVictims::Gang> ended;
  // Why Jobs of a Shape whose groups have these names find no room, as the first one found it.
  std::map<std::string, std::string> words;
  std::unique_ptr<PlacingRound> placing;
  // Shapes that do not fit, and those that do not fit if they are bound. In a round room only
  // shrinks: what did not fit once does not fit again.
  std::set<std::string> unfit;
  std::set<std::string> unfit_bound;
  // Queue, amounts and priority of those that nobody may end for, wherever they would stand.
  std::set<std::tuple<int, uint32_t, int32_t>> unhelped;
  // Shape, Queue and priority of those for whom too few may end.
  std::set<std::tuple<std::string, std::string, int32_t>> vain;
  int victim_searches = 0;
  int victim_questions = 0;
  int reserve_attempts = 0;
  int revisions = 0;

  // Of the Node among `standings`; -1 if it is not there.
  int PositionOf(const NodeId& id) const {
    const auto found = std::lower_bound(standings.begin(), standings.end(), id,
                                        [](const NodeStanding& standing, const NodeId& wanted) {
                                          return standing.capacity.id < wanted;
                                        });
    if (found == standings.end() || found->capacity.id != id) return -1;
    return static_cast<int>(found - standings.begin());
  }
};

absl::Duration SchedulerCore::RanFor(const JobEntry& job) const {
  auto started = started_at_.find(job.uid());
  return started == started_at_.end() ? absl::ZeroDuration() : now_.boot - started->second;
}

absl::Duration SchedulerCore::MinRuntime(const JobEntry& job) const {
  std::string id(absl::StripPrefix(job.spec.spec().queue(), "queues/"));
  for (auto queue = model_.queues.find(id); queue != model_.queues.end();
       queue = model_.queues.find(id)) {
    if (queue->second.queue().has_min_runtime()) {
      return ToDuration(queue->second.queue().min_runtime());
    }
    id = std::string(absl::StripPrefix(queue->second.queue().parent(), "queues/"));
  }
  return config_.min_runtime;
}

std::vector<HeldGang> SchedulerCore::HeldGangs(const RoundWork& work) const {
  std::vector<HeldGang> all;
  for (const std::string& uid : live_) {
    const JobEntry& job = *model_.FindJob(uid);
    const JobSpec& spec = job.spec.spec();
    HeldGang gang;
    gang.uid = uid;
    gang.priority = spec.priority();
    bool any_silent = false;
    const auto kept = work.kept.find(uid);
    std::map<int, Amounts> shares;
    if (kept != work.kept.end()) shares = kept->second;
    for (const auto& [id, amounts] : usage_.SharesOf(uid)) {
      const int at = work.PositionOf(id);
      if (at < 0) continue;
      any_silent = any_silent || work.standings[at].silent;
      shares[at].Add(amounts);
    }
    gang.shares.assign(shares.begin(), shares.end());
    const absl::Duration ran = RanFor(job);
    const absl::Duration grace = ToDuration(spec.stop_grace());
    gang.ending = job.gang->head.phase() == GangHeadRecord::PHASE_STOPPING;
    // The end on a silent Node may be long in coming.
    gang.preemptible =
        spec.preemption() != JobSpec::PREEMPTION_NEVER && !any_silent && ran >= MinRuntime(job);
    gang.left_is_assumed = !spec.has_time_limit();
    if (gang.ending) {
      gang.left = grace;
      gang.left_is_assumed = any_silent;
    } else {
      const bool preparing = job.gang->head.phase() == GangHeadRecord::PHASE_PREPARING;
      gang.left = (spec.has_time_limit() ? LongestRun(spec) : kAssumedRun) +
                  (preparing ? kPrepareAllowance : absl::ZeroDuration()) - ran;
      if (gang.left <= absl::ZeroDuration()) {
        gang.left = std::max(ran, absl::Seconds(1));
        gang.left_is_assumed = true;
      }
    }
    gang.unsaved =
        spec.has_checkpoint_period() ? std::min(ran, ToDuration(spec.checkpoint_period())) : ran;
    all.push_back(std::move(gang));
  }
  return all;
}

std::map<std::string, std::map<int, Amounts>> SchedulerCore::KeepForReturning(
    RoundWork* work) const {
  std::map<std::string, std::map<int, Amounts>> all;
  for (const std::string& uid : live_) {
    const JobEntry& job = *model_.FindJob(uid);
    if (!ReturnsAtOnce(job)) continue;
    const auto shares = usage_.SharesOf(uid);
    const bool any_silent = std::any_of(shares.begin(), shares.end(), [work](const auto& share) {
      const int at = work->PositionOf(share.first);
      return at < 0 || work->standings[at].silent;
    });
    // The end on a silent Node may be long in coming.
    if (any_silent) continue;
    for (int rank = 0; rank < static_cast<int>(job.gang->tasks.size()); ++rank) {
      const int at = job.gang->ended(rank) ? work->PositionOf(job.gang->node(rank)) : -1;
      if (at < 0) continue;
      const int group = GroupOf(job.spec.spec(), rank).first;
      const Amounts each = Amounts::From(job.spec.spec().task_groups(group).resources());
      // One that had done its work long before: others may be there by now.
      Amounts& free = work->standings[at].capacity.free;
      if (free.Fits(each, 1) < 1) continue;
      free.Subtract(each);
      all[uid][at].Add(each);
    }
  }
  return all;
}

void SchedulerCore::Round() {
  UpdateUsage();
  if (waiting_jobs() == 0) {
    room_changed_ = false;
    return;
  }
  if (!RoundDue() || now_.boot < round_at_) return;
  RoundWork work;
  BeginRound(&work);
  PlaceMadeRoomFor(&work);
  KeepReservation(&work);
  TryInOrder(&work);
  // One that was cut short goes on at once.
  round_at_ =
      RoundDue() ? BootTime::InfinitePast() : now_.boot + PauseAfterRound(model_.nodes.size());
}

void SchedulerCore::BeginRound(RoundWork* work) {
  std::set<NodeId> unreported;
  std::set<std::string> accelerators;
  for (const auto& [id, node] : model_.nodes) {
    auto session = sessions_.find(id.cluster);
    if (session == sessions_.end() || !session->second.synced ||
        session->second.nodes_heard.count(id) == 0) {
      unreported.insert(id);
    }
    for (const auto& [name, count] : node.observation().allocatable().accelerators()) {
      accelerators.insert(name);
    }
  }
  if (queues_changed_ || accelerators != queue_book_.accelerators()) {
    queue_book_.SetTree(model_.queues, accelerators);
    queues_changed_ = false;
  }
  work->standings = Standings(model_, usage_, draining_, unreported);
  work->kept = KeepForReturning(work);
  std::vector<Amounts> free;
  for (const NodeStanding& standing : work->standings) {
    work->nodes.push_back(standing.capacity);
    if (standing.capacity.eligible) free.push_back(standing.capacity.free);
  }
  for (const auto& [until, uid] : avoidances_) {
    const JobEntry* job = model_.FindJob(uid);
    if (job == nullptr || job->final()) continue;
    for (const auto& avoided : job->state.avoided_nodes()) {
      const int at = work->PositionOf({avoided.cluster(), avoided.node()});
      if (at >= 0) work->nodes[at].avoided = true;
    }
  }
  work->free = queue_book_.Sum(free);
  work->capacity = queue_book_.Capacity(free);
  work->held = HeldGangs(*work);
  std::vector<std::pair<std::string, int32_t>> held;
  for (const HeldGang& gang : work->held) held.emplace_back(gang.uid, gang.priority);
  work->victims = queue_book_.GangsOf(held);
  work->placing = placer_->Begin(work->nodes, work->held);
  ReviseHopeless(*work);
}

void SchedulerCore::ReviseHopeless(const RoundWork& work) {
  Amounts fleet;
  auto node = model_.nodes.begin();
  for (const NodeStanding& standing : work.standings) {
    const rec::NodeRecord& record = (node++)->second;
    if (standing.capacity.eligible) fleet.Add(Amounts::From(record.observation().allocatable()));
  }
  if (fleet == hopeless_fleet_) return;
  hopeless_.clear();
  hopeless_fleet_ = std::move(fleet);
}

void SchedulerCore::PlaceMadeRoomFor(RoundWork* work) {
  const std::set<OrderKey> all = making_room_;
  for (const OrderKey& key : all) {
    JobEntry* job = FindJob(std::get<2>(key));
    const GangRequest request = GangRequest::From(*job);
    if (const auto placement = work->placing->Place(request)) {
      making_room_.erase(key);
      PlaceIn(job, request, *placement, work);
      queue_book_.SetLive(*job);
    } else if (!work->placing->HoldAfterEnding(request)) {
      // Nodes have gone meanwhile: it waits as it did before.
      making_room_.erase(key);
      Enqueue(job);
      queue_book_.SetLive(*job);
    }
  }
}

bool SchedulerCore::IsOutranked(const JobEntry& job) const {
  const int32_t priority = job.spec.spec().priority();
  for (const OrderKey& key : waiting_) {
    const JobEntry* other = model_.FindJob(std::get<2>(key));
    if (other->spec.spec().priority() <= priority) return false;
    if (other->spec.spec().queue() == job.spec.spec().queue() &&
        other->state.reason() != "QUEUE_LIMIT") {
      return true;
    }
  }
  return false;
}

bool SchedulerCore::IsPrecededByReturned(const JobEntry& job) const {
  const OrderKey own = OrderOf(job);
  for (const OrderKey& key : fresh_) {
    if (!(key < own)) return false;
    if (model_.FindJob(std::get<2>(key))->spec.spec().queue() == job.spec.spec().queue()) {
      return true;
    }
  }
  return false;
}

bool SchedulerCore::MayWant(const JobEntry& job) const {
  const std::string& queue = job.spec.spec().queue();
  return IsOutranked(job) ||
         std::any_of(waiting_.begin(), waiting_.end(), [this, &queue](const OrderKey& key) {
           return model_.FindJob(std::get<2>(key))->spec.spec().queue() != queue;
         });
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
  if (job == nullptr || waiting_.count(OrderOf(*job)) == 0 || IsOutranked(*job) ||
      IsPrecededByReturned(*job) || queue_book_.Refusal(*job, work->capacity) ||
      WaitsForRate(job)) {
    return ForgetReservation();
  }
  const GangRequest request = GangRequest::From(*job);
  const auto placement = work->placing->Place(request);
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
    if (!any_short) hopeless_.insert(job->uid());
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

void SchedulerCore::TryInOrder(RoundWork* work) {
  std::vector<const JobEntry*> placed, nominated, left;
  {
    QueueOrder order = queue_book_.Order(/*fresh_only=*/!room_changed_, work->capacity);
    while (order.has_next() && !StepFull()) {
      const JobEntry* job = FindJob(queue_book_.UidOf(order.next_gang()));
      switch (TryNext(order, work)) {
        case Tried::kPlaced:
          placed.push_back(job);
          queue_book_.TakeStart(*job);
          order.Start();
          break;
        case Tried::kMakesRoom:
          nominated.push_back(job);
          queue_book_.TakeStart(*job);
          order.Start();
          break;
        case Tried::kLeft:
          left.push_back(job);
          order.Skip();
          break;
      }
    }
    // With work left over the flags stay set: NextDeadline asks for the rest.
    if (!order.has_next()) room_changed_ = false;
  }
  for (const JobEntry* job : placed) {
    Dequeue(*job);
    queue_book_.SetLive(*job);
  }
  for (const JobEntry* job : nominated) {
    Dequeue(*job);
    making_room_.insert(OrderOf(*job));
    queue_book_.SetLive(*job);
  }
  for (const JobEntry* job : left) {
    fresh_.erase(OrderOf(*job));
    queue_book_.SetTried(*job);
  }
  if (!room_changed_) SettleHeld();
}

SchedulerCore::Tried SchedulerCore::TryNext(const QueueOrder& order, RoundWork* work) {
  JobEntry* job = FindJob(queue_book_.UidOf(order.next_gang()));
  if (WaitsForRate(job)) return Tried::kLeft;
  if (const absl::optional<std::string> limit = queue_book_.Refusal(order, work->capacity)) {
    if (MayAskForVictims(order, *work) && TryMakeRoom(order, job, GangRequest::From(*job), work)) {
      return Tried::kMakesRoom;
    }
    if (job->state.reason() != "QUEUE_LIMIT" || job->state.message() != *limit) {
      SetState(job, Job::STATE_QUEUED, "QUEUE_LIMIT", *limit);
    }
    return Tried::kLeft;
  }
  const GangRequest request = GangRequest::From(*job);
  const std::string shape = request.Shape();
  const bool is_reserved = reserved_ == job->uid();
  const bool bound = !is_reserved && work->placing->IsBound(request);
  if (!is_reserved && work->unfit.count(shape) == 0 &&
      (!bound || work->unfit_bound.count(shape) == 0)) {
    if (const auto placement = work->placing->Place(request)) {
      PlaceIn(job, request, *placement, work);
      return Tried::kPlaced;
    }
    const bool only_bound = bound && work->placing->FitsUnbound(request);
    (only_bound ? work->unfit_bound : work->unfit).insert(shape);
  }
  if (MayAskForVictims(order, *work) && TryMakeRoom(order, job, request, work)) {
    return Tried::kMakesRoom;
  }
  if (!is_reserved && work->unfit.count(shape) == 0) {
    if (job->state.reason() != "RESERVED" && MayRevise(*job, work)) {
      SetState(job, Job::STATE_QUEUED, "RESERVED", kReserved);
    }
    return Tried::kLeft;
  }
  if (reserved_.empty() && work->reserve_attempts < kMaxReserveAttempts &&
      hopeless_.count(job->uid()) == 0) {
    TryReserve(job, request, work);
  }
  if (job->state.reason() != "INSUFFICIENT_RESOURCES" && job->state.reason() != "PREEMPTED" &&
      MayRevise(*job, work)) {
    std::string kind = shape;
    for (const auto& group : job->spec.spec().task_groups()) {
      absl::StrAppend(&kind, "|", group.name());
    }
    std::string& words = work->words[kind];
    if (words.empty()) words = RoomInWords(*job, work->standings);
    SetState(job, Job::STATE_QUEUED, "INSUFFICIENT_RESOURCES", words);
  }
  return Tried::kLeft;
}

bool SchedulerCore::MayRevise(const JobEntry& job, RoundWork* work) const {
  const std::string& reason = job.state.reason();
  if (reason != "RESERVED" && reason != "INSUFFICIENT_RESOURCES") return true;
  if (waiting_.size() <= kAllRevised) return true;
  if (work->revisions == kMaxRevisions ||
      now_.wall - ToTime(job.state.update_time()) < kReasonHolds) {
    return false;
  }
  ++work->revisions;
  return true;
}

bool SchedulerCore::MayAskForVictims(const QueueOrder& order, const RoundWork& work) const {
  // Whoever doubts what it sees ends nothing.
  return !leases_.frozen() && work.victim_searches < kMaxVictimSearches &&
         work.victim_questions < kMaxVictimQuestions && work.unhelped.count(AskerOf(order)) == 0;
}

bool SchedulerCore::TryMakeRoom(const QueueOrder& order, JobEntry* job, const GangRequest& request,
                                RoundWork* work) {
  const auto kind =
      std::make_tuple(request.Shape(), job->spec.spec().queue(), job->spec.spec().priority());
  if (work->vain.count(kind) > 0) return false;
  ++work->victim_questions;
  QueueVictims rules =
      queue_book_.VictimsFor(order, work->capacity, work->free, work->victims, work->ended);
  bool any = false;
  for (size_t i = 0; i < work->held.size(); ++i) {
    const HeldGang& gang = work->held[i];
    if (gang.ending || !rules.MayEvict(static_cast<int>(i))) continue;
    any = any || gang.preemptible;
    if (gang.preemptible) continue;
    const JobEntry& other = *model_.FindJob(gang.uid);
    const absl::Duration left = MinRuntime(other) - RanFor(other);
    if (left > absl::ZeroDuration() &&
        other.spec.spec().preemption() != JobSpec::PREEMPTION_NEVER &&
        other.gang->head.phase() == GangHeadRecord::PHASE_STARTED) {
      protected_until_ = std::min(protected_until_, now_.boot + left);
    }
  }
  if (!any) {
    work->unhelped.insert(AskerOf(order));
    return false;
  }
  // What others leave anyway may be enough.
  if (rules.MayStart() && work->placing->FitsAfterEnding(request)) {
    work->vain.insert(kind);
    return false;
  }
  ++work->victim_searches;
  const std::vector<int> victims =
      work->placing->FindVictims(request, job->spec.spec().priority(), &rules);
  if (victims.empty() || victims.size() > kMaxVictims) {
    work->vain.insert(kind);
    return false;
  }
  SetState(job, Job::STATE_QUEUED, "MAKING_ROOM",
           absl::StrCat(victims.size(), victims.size() == 1 ? " Job is" : " Jobs are",
                        " being ended to make room for it"));
  decisions_.push_back(job->uid());
  for (int at : victims) {
    JobEntry* victim = FindJob(work->held[at].uid);
    work->ended.push_back(work->victims[at]);
    work->victims[at].leaf = -1;
    rec::JobStateRecord::Victim& record = *job->state.add_making_room();
    record.set_job_uid(victim->uid());
    record.set_generation(victim->gang->head.generation());
    StopGang(victim, Stop::REASON_PREEMPTED);
  }
  return true;
}

void SchedulerCore::ResumeMakingRoom() {
  for (const OrderKey& key : making_room_) {
    for (const auto& record : FindJob(std::get<2>(key))->state.making_room()) {
      JobEntry* victim = FindJob(record.job_uid());
      if (victim == nullptr || !victim->live() ||
          victim->gang->head.generation() != record.generation() ||
          victim->gang->head.phase() == GangHeadRecord::PHASE_STOPPING) {
        continue;
      }
      StopGang(victim, Stop::REASON_PREEMPTED);
    }
  }
}

void SchedulerCore::PlaceIn(JobEntry* job, const GangRequest& request,
                            const GangPlacement& placement, RoundWork* work) {
  Place(job, work->nodes, placement);
  for (size_t rank = 0; rank < placement.size(); ++rank) {
    const int at = placement[rank];
    const int group = GroupOf(job->spec.spec(), static_cast<int>(rank)).first;
    work->nodes[at].free.Subtract(request.groups[group].each);
    if (work->standings[at].unisolated) work->nodes[at].only_submitter = request.submitter;
    work->standings[at].capacity = work->nodes[at];
  }
}

void SchedulerCore::Place(JobEntry* job, const std::vector<NodeCapacity>& nodes,
                          const GangPlacement& placement) {
  std::vector<std::string> ids;
  ids.reserve(placement.size());
  for (int at : placement) ids.push_back(nodes[at].id.node);
  DirtyJob& dirty = Touch(*job);
  if (job->gang) dirty.dropped_generation = job->gang->head.generation();
  BeginGeneration(nodes[placement.front()].id.cluster, std::move(ids), job);
  dirty.placements = true;
  dirty.gang = true;
  dirty.task_chunks.clear();
  for (size_t rank = 0; rank < placement.size(); rank += kTasksPerChunk) {
    dirty.task_chunks.insert(TaskChunkOf(static_cast<int>(rank)));
  }
  job->state.clear_start_time();
  SetState(job, Job::STATE_PREPARING, "PLACED",
           absl::StrCat("placed on ", job->gang->head.cluster(), " as generation ",
                        job->state.generation()));
  *job->state.mutable_generation_time() = ToProto(now_.wall);
  if (IsTraced(*job)) effects_.push_back(TellSpan{PlaceSpan(*job, now_.wall), true});
  live_.insert(job->uid());
  usage_.Update(job->uid(), job);
  WatchGang(*job);
  resend_.insert(job->uid());
}

}  // namespace capstan::scheduler
