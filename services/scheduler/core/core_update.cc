// Jobs that are changed after they were submitted: priority, time limit, hold.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/job_change.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;

namespace {

// QUEUED, and waits for something that a Job which is held waits for too.
bool WaitsBeforeItsQueue(const JobEntry& job) {
  const std::string& reason = job.state.reason();
  return reason == kAwaitsJobs || reason == "AWAITING_DATA" || reason == "BACK_OFF";
}

}  // namespace

void SchedulerCore::On(const UpdateJob& event) {
  JobEntry* job = FindNamed(event.call, event.name, event.etag);
  if (job == nullptr) return;
  if (job->final()) {
    replies_.push_back(ReplyJob{
        event.call,
        status::Error(
            absl::StatusCode::kFailedPrecondition, "JOB_ENDED",
            absl::StrCat(event.name, " is ",
                         absl::StripPrefix(Job::State_Name(job->state.state()), "STATE_"),
                         " and does not change any more; submit it again under another id"),
            {{"job", event.name}})});
    return;
  }
  if (event.validate_only) {
    JobEntry changed = *job;
    ApplyChange(event.change, &changed);
    replies_.push_back(ReplyJob{event.call, RenderJob(changed)});
    return;
  }
  job_replies_[event.call] = job->uid();
  if (IsArray(*job)) {
    ChangeArray(job, event.change);
  } else {
    Change(job, event.change);
  }
}

void SchedulerCore::ChangeArray(JobEntry* array, const rec::JobChange& change) {
  // Left by a leader before, which may have come to its end but for telling so.
  const bool resumes = array->state.elements().has_change();
  bool any = resumes;
  Change(array, change);
  for (int index = 0; index < array->spec.spec().array().size(); ++index) {
    if (HasEnded(*array, index)) continue;
    JobEntry* element = model_.jobs.FindByName(ElementName(array->spec.name(), index));
    if (element == nullptr || element->final()) continue;
    any = Change(element, change) || any;
  }
  if (!any) return;
  // Written before its elements, and again once all of them are.
  *array->state.mutable_elements()->mutable_change() = change;
  Touch(*array);
  decisions_.push_back(array->uid());
  made_arrays_.push_back(array->uid());
}

bool SchedulerCore::Change(JobEntry* job, const rec::JobChange& change) {
  const bool spec = ChangesSpec(change, *job);
  const bool hold = ChangesHold(change, *job);
  if (!spec && !hold) return false;
  const std::string words = ChangeInWords(change, *job);
  if (spec) ChangeSpec(job, change);
  TellState(*job, "UPDATED", words);
  if (hold) SetHold(job, change.hold());
  return true;
}

void SchedulerCore::ChangeSpec(JobEntry* job, const rec::JobChange& change) {
  // All that knows it by its priority, or counts to its limit, lets go of it meanwhile.
  const bool waits = queue_book_.IsWaiting(*job);
  const OrderKey before = OrderOf(*job);
  fresh_.erase(before);
  const bool makes_room = making_room_.erase(before) > 0;
  const bool grows = growers_.erase(before) > 0;
  auto returning = returning_.extract(before);
  if (waits) queue_book_.RemoveWaiting(*job);
  Unlimit(*job);

  rec::JobChange of_spec = change;
  of_spec.clear_hold();
  ApplyChange(of_spec, job);
  model_.jobs.Repack(job);
  Touch(*job).spec = true;

  Limit(*job);
  if (waits) Await(job);
  if (makes_room) making_room_.insert(OrderOf(*job));
  if (grows) growers_.insert(OrderOf(*job));
  if (!returning.empty()) returning_.emplace(OrderOf(*job), returning.mapped());
  // Others may be ended for it, or it for others; and estimates are others.
  room_changed_ = true;
}

void SchedulerCore::SetHold(JobEntry* job, bool hold) {
  job->state.set_hold(hold);
  Touch(*job);
  if (IsArray(*job)) return;
  if (job->live()) {
    // Only what starts again grows, or has a place kept for that.
    ForgetGrowth(*job);
    WatchGrowth(*job);
    if (IsMoving(*job)) moving_.insert(job->uid());
    room_changed_ = true;
  } else if (!hold && job->state.reason() == kHeld) {
    BeginOrWait(job);
  } else if (hold && !WaitsBeforeItsQueue(*job)) {
    Dequeue(*job);
    Withhold(job);
  }
}

void SchedulerCore::Withhold(JobEntry* job) {
  const bool had_begun = HasBegun(*job);
  SetState(job, Job::STATE_QUEUED, kHeld, "is held; it starts once somebody releases it");
  const auto turns = array_turns_.find(job->spec.array_uid());
  if (!IsElement(*job) || turns == array_turns_.end()) return;
  turns->second.waiting.erase(job->spec.element().index());
  if (!had_begun) return;
  --turns->second.begun;
  const JobEntry* array = FindJob(job->spec.array_uid());
  if (array != nullptr) GiveTurns(*array);
}

}  // namespace capstan::scheduler
