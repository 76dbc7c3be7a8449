// The life of gangs, and what time does to them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/job_spans.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/lost_work.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;
using rec::GangHeadRecord;

namespace {

constexpr int kMaxAvoidedNodes = 64;

// A Node whose machine may be paused (label): its deadlines may not be kept in time.
constexpr char kPausableLabel[] = "capstan.dev/pausable";

std::string TaskName(const JobEntry& job, int rank) {
  const auto [group, index] = GroupOf(job, rank);
  return absl::StrCat(job.spec.spec().task_groups(group).name(), "-", index);
}

// What ended the generation, in words.
std::string FailureInWords(const JobEntry& job) {
  const GangHeadRecord& head = job.gang->head;
  if (head.has_failure()) {
    return absl::StrCat("task ", TaskName(job, head.failure().rank()), " ",
                        EndInWords(head.failure().end()));
  }
  return head.stop_reason() == Stop::REASON_PREPARE_FAILED ? "its Tasks were not prepared in time"
                                                           : "its Tasks were stopped";
}

}  // namespace

void SchedulerCore::Enqueue(JobEntry* job) {
  if (!job->state.hold()) SetState(job, Job::STATE_QUEUED, "WAITING", "waits to be placed");
  Await(job);
}

void SchedulerCore::Await(JobEntry* job) {
  if (job->state.hold()) return Withhold(job);
  fresh_.insert(OrderOf(*job));
  queue_book_.AddWaiting(*job, /*fresh=*/true);
}

void SchedulerCore::Dequeue(const JobEntry& job) {
  // The place kept for it is free for others.
  if (making_room_.erase(OrderOf(job)) + returning_.erase(OrderOf(job)) > 0) room_changed_ = true;
  if (reserved_ == job.uid()) ForgetReservation();
  fresh_.erase(OrderOf(job));
  // What it wanted may be spare now.
  if (queue_book_.IsWaiting(job)) ArmGrowth();
  queue_book_.RemoveWaiting(job);
  retries_.Erase(job.uid());
}

void SchedulerCore::WatchGang(const JobEntry& job) {
  if (job.gang->head.phase() == GangHeadRecord::PHASE_PREPARING) {
    preparing_.Set(job.uid(), now_.boot + config_.prepare_timeout);
  } else if (job.gang->head.phase() == GangHeadRecord::PHASE_STARTED) {
    // What a leader before has counted, by the clock on the wall.
    const absl::Duration ran =
        std::max(now_.wall - ToTime(job.state.start_time()), absl::ZeroDuration());
    started_at_[job.uid()] = now_.boot - ran;
    WatchGrowth(job);
    Limit(job);
  }
}

void SchedulerCore::Advance(JobEntry* job) {
  switch (NextMove(*job->gang)) {
    case GangMove::kNone:
      break;
    case GangMove::kStart:
      StartGang(job);
      break;
    case GangMove::kStop:
      StopGang(job, job->gang->head.phase() == GangHeadRecord::PHASE_PREPARING
                        ? Stop::REASON_PREPARE_FAILED
                        : Stop::REASON_GANG_FAILED);
      break;
    case GangMove::kSucceed:
      EndGeneration(job, /*success=*/true);
      break;
    case GangMove::kEnd:
      EndGeneration(job, /*success=*/false);
      break;
  }
}

void SchedulerCore::StartGang(JobEntry* job) {
  job->gang->head.set_phase(GangHeadRecord::PHASE_STARTED);
  Touch(*job).gang = true;
  preparing_.Erase(job->uid());
  *job->state.mutable_start_time() = ToProto(now_.wall);
  WatchGang(*job);
  // Whoever waits may have reason to look again once it is protected no more.
  if (MayWant(*job) || MayBeInTheWay(*job)) {
    protected_until_ = std::min(protected_until_, now_.boot + MinRuntime(*job));
  }
  SetState(job, Job::STATE_RUNNING, "STARTED",
           absl::StrCat("runs as generation ", job->state.generation(), SizeInWords(*job)));
  resend_.insert(job->uid());
}

void SchedulerCore::StopGang(JobEntry* job, Stop::Reason reason, const std::string& beneficiary,
                             const std::string& need) {
  const bool moves = job->gang->head.has_move();
  if (moves) {
    AddDisruption(kRepartitioned, beneficiary, /*need=*/"", now_.wall, &job->state);
  } else if (IsDisruption(reason)) {
    AddDisruption(reason, beneficiary, need, now_.wall, &job->state);
  }
  job->gang->head.set_phase(GangHeadRecord::PHASE_STOPPING);
  job->gang->head.set_stop_reason(reason);
  Touch(*job).gang = true;
  preparing_.Erase(job->uid());
  Unlimit(*job);
  ForgetGrowth(*job);
  switch (reason) {
    case Stop::REASON_CANCELLED:
      SetState(job, Job::STATE_STOPPING, "CANCELLED", "cancelled; its Tasks are being ended");
      break;
    case Stop::REASON_PREPARE_FAILED:
      SetState(job, Job::STATE_STOPPING, "PREPARE_FAILED", FailureInWords(*job));
      break;
    case Stop::REASON_PREEMPTED:
      if (moves) {
        SetState(job, Job::STATE_STOPPING, kRepartitioned,
                 "its MIG instances stand where another Job needs room in one piece; it starts "
                 "again elsewhere at once");
        break;
      }
      SetState(job, Job::STATE_STOPPING, "PREEMPTED",
               "a Job of higher standing needs its room; its Tasks are being ended");
      break;
    case Stop::REASON_SHRUNK:
      SetState(job, Job::STATE_STOPPING, "SHRUNK",
               "a Job of higher standing needs a part of its room; it starts again with fewer "
               "Tasks");
      break;
    case Stop::REASON_GROWN: {
      int more = 0;
      for (const auto& addition : job->gang->head.additions()) more += addition.count();
      SetState(job, Job::STATE_STOPPING, "GROWN",
               absl::StrCat("there is spare room for ", more,
                            " more of its Tasks; it starts again with them"));
      break;
    }
    case Stop::REASON_DRAINED:
      SetState(job, Job::STATE_STOPPING, "QUEUE_DRAINED",
               "its Queue is being drained; its Tasks are being ended");
      break;
    case Stop::REASON_MAINTENANCE:
      SetState(job, Job::STATE_STOPPING, "MAINTENANCE",
               "a maintenance window of a Node that it is on has begun; its Tasks are being ended");
      break;
    case Stop::REASON_TIME_LIMIT:
      SetState(job, Job::STATE_STOPPING, "TIME_LIMIT",
               "has run for its time limit; its Tasks are being ended");
      break;
    default:
      SetState(job, Job::STATE_STOPPING, "TASK_FAILED", FailureInWords(*job));
      break;
  }
  resend_.insert(job->uid());
}

void SchedulerCore::Limit(const JobEntry& job) {
  const auto started = started_at_.find(job.uid());
  if (started == started_at_.end() || !job.spec.spec().has_time_limit() ||
      job.gang->head.phase() != GangHeadRecord::PHASE_STARTED) {
    return;
  }
  time_limits_.insert({started->second + ToDuration(job.spec.spec().time_limit()), job.uid()});
}

void SchedulerCore::Unlimit(const JobEntry& job) {
  auto started = started_at_.find(job.uid());
  if (started == started_at_.end() || !job.spec.spec().has_time_limit()) return;
  time_limits_.erase({started->second + ToDuration(job.spec.spec().time_limit()), job.uid()});
}

void SchedulerCore::EndGeneration(JobEntry* job, bool success) {
  const std::string& uid = job->uid();
  const int64_t generation = job->gang->head.generation();
  job->gang->head.set_phase(GangHeadRecord::PHASE_ENDED);
  DirtyJob& dirty = Touch(*job);
  dirty.gang = true;
  preparing_.Erase(uid);
  Unlimit(*job);
  ForgetGrowth(*job);
  live_.erase(uid);
  room_changed_ = true;
  if (job->spec.spec().datasets_size() > 0 || !job->spec.spec().bundle().empty()) {
    rec::PinReleaseRecord& release = model_.pin_releases[{uid, generation}];
    release.set_schema_version(1);
    release.set_job_uid(uid);
    release.set_generation(generation);
    dirty.more_puts.push_back(PutPinRelease(release));
    effects_.push_back(ReleasePins{uid, generation});
  }
  absl::Duration ran = absl::ZeroDuration();
  auto started = started_at_.find(uid);
  if (started != started_at_.end()) {
    ran = now_.boot - started->second;
    if (now_.boot - started->second >= config_.streak_reset_after) {
      job->state.set_uncounted_streak(0);
      job->state.clear_failure_signature();
      job->state.clear_signature_streak();
    }
    started_at_.erase(started);
  }
  if (IsTraced(*job)) {
    effects_.push_back(
        TellSpan{GenerationSpan(*job, now_.wall, success ? "" : FailureInWords(*job))});
  }
  if (job->state.cancel_requested()) {
    Finish(job, Job::STATE_CANCELLED, "CANCELLED", "cancelled; all its Tasks have ended");
    return;
  }
  const Stop::Reason stopped = job->gang->head.stop_reason();
  // What was stopped may have been done before it heard of it.
  const bool interrupted = stopped == Stop::REASON_PREEMPTED || stopped == Stop::REASON_SHRUNK ||
                           stopped == Stop::REASON_GROWN || stopped == Stop::REASON_TIME_LIMIT ||
                           stopped == Stop::REASON_DRAINED || stopped == Stop::REASON_MAINTENANCE;
  if (success || (interrupted && Succeeded(*job->gang))) {
    Finish(job, Job::STATE_SUCCEEDED, "SUCCEEDED", "every Task exited 0");
    return;
  }
  const absl::Duration lost = LostAcceleratorTime(*job, ran);
  const absl::string_view why_lost = WhyWorkIsLost(*job->gang);
  if (lost > absl::ZeroDuration() && !why_lost.empty()) tally_.lost.push_back({why_lost, lost});
  if (job->gang->head.has_move()) {
    Return(job, "all its Tasks have ended; it starts again where it is in nobody's way");
    return;
  }
  if (stopped == Stop::REASON_PREEMPTED) {
    job->state.set_preemptions(job->state.preemptions() + 1);
    SetState(job, Job::STATE_QUEUED, "PREEMPTED",
             "was ended for a Job of higher standing; waits to be placed again");
    Await(job);
    return;
  }
  if (stopped == Stop::REASON_GROWN) {
    Return(job, "all its Tasks have ended; it starts again with more");
    return;
  }
  if (stopped == Stop::REASON_MAINTENANCE) {
    SetState(job, Job::STATE_QUEUED, "MAINTENANCE",
             "was stopped for a maintenance window; waits to be placed again");
    Await(job);
    return;
  }
  if (stopped == Stop::REASON_SHRUNK || stopped == Stop::REASON_DRAINED) {
    Enqueue(job);
    return;
  }
  if (stopped == Stop::REASON_TIME_LIMIT) {
    Finish(job, Job::STATE_FAILED, "TIME_LIMIT",
           absl::StrCat("ran for its time limit of ",
                        absl::FormatDuration(ToDuration(job->spec.spec().time_limit()))));
    return;
  }
  const RetryDecision retry = DecideRetry(*job);
  const std::string failure = FailureInWords(*job);
  const int max_restarts = job->spec.spec().retry().max_restarts();
  if (!retry.again) {
    Finish(job, Job::STATE_FAILED, retry.reason,
           retry.reason == "RETRY_RULE"
               ? absl::StrCat(failure, "; a rule of its retry policy lets it fail")
               : absl::StrCat(failure, "; ", job->state.counted_restarts(), " of ", max_restarts,
                              " restarts were used"));
    return;
  }
  if (!retry.signature.empty()) {
    const bool same = job->state.failure_signature() == retry.signature;
    job->state.set_signature_streak(same ? job->state.signature_streak() + 1 : 1);
    job->state.set_failure_signature(retry.signature);
  }
  if (retry.avoid_node_for > absl::ZeroDuration()) AvoidNode(job, retry.avoid_node_for);
  std::string why;
  if (retry.counted) {
    job->state.set_counted_restarts(job->state.counted_restarts() + 1);
    job->state.set_uncounted_streak(0);
    why = absl::StrCat(failure, "; restart ", job->state.counted_restarts(), " of ", max_restarts);
  } else {
    if (retry.signature.empty()) {
      job->state.set_uncounted_streak(job->state.uncounted_streak() + 1);
    }
    why = absl::StrCat(failure, "; restarts, which is not counted (", retry.reason, ")");
  }
  // The version may have left the Site since it was ready.
  if (retry.reason == "PREPARE_FAILED") {
    for (rec::DatasetState& dataset : *job->state.mutable_datasets()) dataset.set_ready(false);
  }
  const auto& datasets = job->state.datasets();
  const bool has_data = std::all_of(datasets.begin(), datasets.end(),
                                    [](const rec::DatasetState& one) { return one.ready(); });
  // Its program is not to blame, so it has not lost its place.
  const bool returns = retry.reason == "NODE_LOST" || retry.reason == "PORT_TAKEN";
  if (returns && retry.back_off <= absl::ZeroDuration() && has_data) {
    Return(job, why);
  } else {
    BackOff(job, retry.back_off, why);
  }
}

void SchedulerCore::AvoidNode(JobEntry* job, absl::Duration avoid_for) {
  if (!job->gang->head.has_failure()) return;
  const NodeId id = job->gang->node(job->gang->head.failure().rank());
  auto& nodes = *job->state.mutable_avoided_nodes();
  // A later end on the same Node begins the time anew.
  int at = 0;
  while (at < nodes.size() && NodeId{nodes[at].cluster(), nodes[at].node()} != id) ++at;
  if (at == nodes.size() && at == kMaxAvoidedNodes) {
    const auto soonest = std::min_element(
        nodes.begin(), nodes.end(),
        [](const auto& a, const auto& b) { return ToTime(a.until()) < ToTime(b.until()); });
    at = static_cast<int>(soonest - nodes.begin());
  }
  rec::JobStateRecord::AvoidedNode& avoided = at < nodes.size() ? nodes[at] : *nodes.Add();
  avoided.set_cluster(id.cluster);
  avoided.set_node(id.node);
  *avoided.mutable_until() = ToProto(now_.wall + avoid_for);
  avoidances_.emplace(now_.boot + avoid_for, job->uid());
}

void SchedulerCore::ForgetAvoided() {
  while (!avoidances_.empty() && avoidances_.begin()->first <= now_.boot) {
    if (StepFull()) return;
    JobEntry* job = FindJob(avoidances_.begin()->second);
    avoidances_.erase(avoidances_.begin());
    if (job == nullptr || job->final()) continue;
    auto& nodes = *job->state.mutable_avoided_nodes();
    const auto past = std::remove_if(nodes.begin(), nodes.end(), [this](const auto& avoided) {
      return ToTime(avoided.until()) <= now_.wall;
    });
    if (past == nodes.end()) {
      // The wall clock was set back meanwhile, or the time began anew: the last one is looked at
      // again.
      absl::Time next = absl::InfiniteFuture();
      for (const auto& avoided : nodes) next = std::min(next, ToTime(avoided.until()));
      if (!nodes.empty()) avoidances_.emplace(now_.boot + (next - now_.wall), job->uid());
      continue;
    }
    nodes.erase(past, nodes.end());
    Touch(*job);
    queue_book_.SetChanged(*job);
    room_changed_ = true;
  }
}

void SchedulerCore::BackOff(JobEntry* job, absl::Duration wait, const std::string& why) {
  SetState(job, Job::STATE_QUEUED, "BACK_OFF", why);
  if (wait <= absl::ZeroDuration()) {
    Begin(job);
    return;
  }
  *job->state.mutable_back_off() = ToProto(wait);
  *job->state.mutable_retry_time() = ToProto(now_.wall + wait);
  retries_.Set(job->uid(), now_.boot + wait);
}

void SchedulerCore::Finish(JobEntry* job, Job::State state, const std::string& reason,
                           const std::string& message) {
  const bool awaited_data = job->state.reason() == "AWAITING_DATA";
  const bool had_begun = HasBegun(*job);
  if (job->state.reason() == kAwaitsJobs) ForgetDependencies(*job);
  if (dependents_.count(job->uid()) > 0) ended_dependencies_.insert(job->uid());
  SetState(job, state, reason, message);
  *job->state.mutable_end_time() = ToProto(now_.wall);
  if (IsTraced(*job)) effects_.push_back(TellSpan{JobSpan(*job)});
  finished_.emplace(ToTime(job->state.end_time()), job->uid());
  ArmRetirement();
  Dequeue(*job);
  if (awaited_data) effects_.push_back(StopData{job->uid()});
  LeaveSingleton(*job);
  if (IsElement(*job)) ElementEnded(*job, had_begun);
}

void SchedulerCore::On(const Tick&) {
  for (const std::string& cluster : leases_.Expire(now_.boot)) RefreshNodeStates(cluster);
  while (preparing_.next() <= now_.boot) {
    if (StepFull()) return;
    JobEntry* job = FindJob(preparing_.next_name());
    StopGang(job, Stop::REASON_PREPARE_FAILED);
    Advance(job);
  }
  while (!time_limits_.empty() && time_limits_.begin()->first <= now_.boot) {
    if (StepFull()) return;
    JobEntry* job = FindJob(time_limits_.begin()->second);
    StopGang(job, Stop::REASON_TIME_LIMIT);
    Advance(job);
  }
  ForgetAvoided();
  if (protected_until_ <= now_.boot) {
    protected_until_ = BootTime::InfiniteFuture();
    room_changed_ = true;
  }
  if (start_rate_at_ <= now_.boot) {
    start_rate_at_ = BootTime::InfiniteFuture();
    room_changed_ = true;
  }
  for (const auto& [key, until] : returning_) room_changed_ = room_changed_ || until <= now_.boot;
  while (retries_.next() <= now_.boot) {
    if (StepFull()) return;
    JobEntry* job = FindJob(retries_.next_name());
    retries_.Erase(job->uid());
    Begin(job);
  }
  GiveUpSilent();
  Retire();
}

bool SchedulerCore::MayGiveUp(const NodeId& id, const rec::NodeRecord& record) const {
  if (!leases_.NodeSilent(id) || leases_.frozen()) return false;
  const NodeObservation& observation = record.observation();
  for (int limitation : observation.limitations()) {
    // Nothing would end its Tasks: only a confirmed end counts.
    if (limitation == NodeObservation::LIMITATION_UNFENCED) return false;
  }
  auto pausable = observation.labels().find(kPausableLabel);
  return pausable == observation.labels().end() || pausable->second != "true";
}

void SchedulerCore::GiveUpSilent() {
  for (const NodeId& id : leases_.SilentNodes()) {
    const auto node = model_.nodes.find(id);
    if (node == model_.nodes.end() || !MayGiveUp(id, node->second)) continue;
    rec::NodeRecord& record = node->second;
    const BootTime bound = leases_.ConfirmedBound(id);
    const std::set<std::string> uids = usage_.Get(id).jobs;
    for (const std::string& uid : uids) {
      if (StepFull()) return;
      JobEntry* job = FindJob(uid);
      const absl::Duration wait = config_.ReplaceAfter(ToDuration(job->spec.spec().fence_after()));
      if (now_.boot < bound + wait || !job->live()) continue;
      for (int rank = 0; rank < static_cast<int>(job->gang->tasks.size()); ++rank) {
        if (job->gang->ended(rank) || job->gang->node(rank) != id) continue;
        EndTask(TaskEnd::CAUSE_NODE_GIVEN_UP,
                absl::StrCat("no word of ", id.Name(), " for ", absl::FormatDuration(wait)), rank,
                &*job->gang);
        // An executor that still hears us and not the Node would start it when the Node comes back.
        strays_[id.cluster].push_back(StopStray(KeyOf(*job, rank), id.node, job));
        TouchTask(*job, rank);
        TellTask(*job, rank);
      }
      Touch(*job).gang = true;
      Advance(job);
    }
    if (record.state() != Node::STATE_GIVEN_UP &&
        now_.boot >= bound + config_.ReplaceAfter(config_.default_fence_after)) {
      record.set_state(Node::STATE_GIVEN_UP);
      given_up_.insert(id);
      TouchNode(id);
    }
  }
}

BootTime SchedulerCore::NextGiveUp() const {
  BootTime next = BootTime::InfiniteFuture();
  for (const NodeId& id : leases_.SilentNodes()) {
    const auto node = model_.nodes.find(id);
    if (node == model_.nodes.end() || !MayGiveUp(id, node->second)) continue;
    const rec::NodeRecord& record = node->second;
    const BootTime bound = leases_.ConfirmedBound(id);
    for (const std::string& uid : usage_.Get(id).jobs) {
      const JobEntry* job = model_.FindJob(uid);
      next =
          std::min(next, bound + config_.ReplaceAfter(ToDuration(job->spec.spec().fence_after())));
    }
    if (record.state() != Node::STATE_GIVEN_UP) {
      next = std::min(next, bound + config_.ReplaceAfter(config_.default_fence_after));
    }
  }
  return next;
}

}  // namespace capstan::scheduler
