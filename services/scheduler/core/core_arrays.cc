// Arrays: their elements are made in the step that takes the array, and before anything else by
// the next leader if that was cut short.
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::ArrayProgress;
using capstan::scheduler::v1::Job;

absl::Status SchedulerCore::CheckArray(const CreateJob& event, const std::string& name) const {
  const int size = event.spec.array().size();
  for (int index = 0; index < size; ++index) {
    const std::string element = ElementName(name, index);
    const std::string id = element.substr(element.rfind('/') + 1);
    if (!resource::IsValidId(id)) {
      status::FieldErrors errors;
      errors.Add("job_id", absl::StrCat("is too long for an array of ", size,
                                        ", whose elements have names such as `", id, "`; expected ",
                                        resource::kIdRule, " with the index behind it"));
      return errors.ToStatus();
    }
    if (model_.FindJobByName(element) != nullptr) {
      return status::Error(absl::StatusCode::kAlreadyExists, "JOB_EXISTS",
                           absl::StrCat(element,
                                        " exists already, and an element of this array would have "
                                        "that name; choose another id"),
                           {{"job", element}});
    }
  }
  return absl::OkStatus();
}

void SchedulerCore::MakeElements(JobEntry* array) {
  const int size = array->spec.spec().array().size();
  for (int index = 0; index < size; ++index) {
    JobEntry element;
    element.spec = ElementSpec(*array, index);
    if (FindJob(element.uid()) != nullptr) continue;
    element.state.set_schema_version(1);
    element.state.set_hold(array->state.hold());
    BeginAfterOthers(AddJob(std::move(element)));
  }
  Touch(*array);
  decisions_.push_back(array->uid());
  made_arrays_.push_back(array->uid());
}

bool SchedulerCore::AwaitsTurn(JobEntry* job) {
  const JobEntry* array = IsElement(*job) ? FindJob(job->spec.array_uid()) : nullptr;
  const int most = array == nullptr ? 0 : array->spec.spec().array().max_parallel();
  if (most == 0) return false;
  if (job->state.hold()) {
    Withhold(job);
    return true;
  }
  ArrayTurns& turns = array_turns_[array->uid()];
  if (turns.begun < most) {
    ++turns.begun;
    return false;
  }
  turns.waiting[job->spec.element().index()] = job->uid();
  SetState(job, Job::STATE_QUEUED, kAwaitsTurn,
           absl::StrCat(most, most == 1 ? " element of " : " elements of ", array->spec.name(),
                        most == 1 ? " has" : " have",
                        " begun and not ended, as many as may at once (max_parallel)"));
  return true;
}

void SchedulerCore::GiveTurns(const JobEntry& array) {
  const auto found = array_turns_.find(array.uid());
  if (found == array_turns_.end() || array.state.cancel_requested()) return;
  ArrayTurns& turns = found->second;
  while (turns.begun < array.spec.spec().array().max_parallel() && !turns.waiting.empty()) {
    JobEntry* next = FindJob(turns.waiting.begin()->second);
    turns.waiting.erase(turns.waiting.begin());
    ++turns.begun;
    Begin(next);
  }
}

void SchedulerCore::ElementEnded(const JobEntry& element, bool had_begun) {
  JobEntry* array = FindJob(element.spec.array_uid());
  if (array == nullptr || array->final()) return;
  const int index = element.spec.element().index();
  if (const auto turns = array_turns_.find(array->uid()); turns != array_turns_.end()) {
    turns->second.waiting.erase(index);
    if (had_begun) --turns->second.begun;
  }
  SetEnded(index, element.state.state() == Job::STATE_SUCCEEDED, array);
  Touch(*array);
  GiveTurns(*array);
  FinishArray(array);
}

void SchedulerCore::FinishArray(JobEntry* array) {
  const ArrayProgress progress = ProgressOf(*array);
  if (progress.ended() < progress.size()) return;
  array_turns_.erase(array->uid());
  if (progress.succeeded() == progress.size()) {
    Finish(array, Job::STATE_SUCCEEDED, "SUCCEEDED", "all of its elements have succeeded");
  } else if (array->state.cancel_requested()) {
    Finish(array, Job::STATE_CANCELLED, "CANCELLED", "cancelled; all of its elements have ended");
  } else {
    Finish(array, Job::STATE_FAILED, "ELEMENTS_FAILED",
           absl::StrCat(progress.size() - progress.succeeded(), " of its ", progress.size(),
                        " elements have not succeeded"));
  }
}

void SchedulerCore::CancelElements() {
  while (!cancelling_.empty()) {
    const std::string uid = *cancelling_.begin();
    const JobEntry* array = FindJob(uid);
    const int size = array == nullptr ? 0 : array->spec.spec().array().size();
    for (int index = 0; index < size && !array->final(); ++index) {
      if (HasEnded(*array, index)) continue;
      if (StepFull()) return;
      JobEntry* const element = model_.jobs.FindByName(ElementName(array->spec.name(), index));
      if (element != nullptr) Cancel(element);
    }
    cancelling_.erase(uid);
  }
}

void SchedulerCore::RestoreTurn(const JobEntry& element) {
  const JobEntry* array = model_.FindJob(element.spec.array_uid());
  if (array == nullptr || array->spec.spec().array().max_parallel() == 0) return;
  ArrayTurns& turns = array_turns_[array->uid()];
  if (HasBegun(element)) {
    ++turns.begun;
  } else if (element.state.reason() == kAwaitsTurn) {
    turns.waiting[element.spec.element().index()] = element.uid();
  }
}

void SchedulerCore::ResumeArrays(const std::vector<std::string>& of_arrays) {
  std::map<std::string, std::set<int>> there;  // by array's uid
  std::vector<JobEntry*> arrays;
  for (const std::string& uid : of_arrays) {
    // Read once: of very many elements none is to stay unpacked.
    const auto at = model_.jobs.find(uid);
    const JobGlance glance = at.glance();
    if (glance.is_array) arrays.push_back(FindJob(uid));
    if (!glance.is_element) continue;
    const JobEntry& job = at->second;
    const int index = job.spec.element().index();
    there[job.spec.array_uid()].insert(index);
    JobEntry* array = job.final() ? FindJob(job.spec.array_uid()) : nullptr;
    if (array == nullptr || array->final() || HasEnded(*array, index)) continue;
    SetEnded(index, job.state.state() == Job::STATE_SUCCEEDED, array);
    Touch(*array);
  }
  for (JobEntry* array : arrays) {
    if (!array->state.elements().made()) MakeElements(array);
    if (array->final()) continue;
    const std::set<int>& stored = there[array->uid()];
    for (int index = 0; index < array->spec.spec().array().size(); ++index) {
      if (!array->state.elements().made() || stored.count(index) > 0 || HasEnded(*array, index)) {
        continue;
      }
      // A version that knows no arrays has led, and let the archive have it.
      SetEnded(index, /*succeeded=*/false, array);
      Touch(*array);
    }
    if (array->state.elements().has_change()) {
      ChangeArray(array, rec::JobChange(array->state.elements().change()));
    }
    GiveTurns(*array);
    if (array->state.cancel_requested()) cancelling_.insert(array->uid());
    FinishArray(array);
  }
}

}  // namespace capstan::scheduler
