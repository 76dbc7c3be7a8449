// Jobs that wait for others to end. A Job can only name Jobs that were there before it, a singleton
// waits for those that came before it, and what waits for its turn in an array waits for those that
// wait for no Job any more: so what waits for what has no cycles.
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;

namespace {

std::pair<std::string, std::string> SingletonOf(const JobEntry& job) {
  return {ProjectOf(job.spec.name()), job.spec.spec().singleton()};
}

// 0: there is no such array.
int ArraySizeOf(const JobEntry* job) {
  return job != nullptr && IsArray(*job) ? job->spec.spec().array().size() : 0;
}

}  // namespace

absl::Status SchedulerCore::CheckDependencies(const CreateJob& event,
                                              const std::string& name) const {
  status::FieldErrors errors;
  for (int i = 0; i < event.spec.after_size(); ++i) {
    const JobDependency& asked = event.spec.after(i);
    const std::string field = absl::StrCat("job.spec.after[", i, "].job");
    const absl::optional<Awaited> other = FindAwaited(asked.job());
    if (asked.job() == name) {
      errors.Add(field,
                 absl::StrCat("`", asked.job(), "` is this Job itself; expected another one"));
    } else if (!other.has_value()) {
      errors.Add(field, absl::StrCat("`", asked.job(),
                                     "` does not exist, or has ended and is in the archive; "
                                     "submit it before this one, or leave it out"));
    } else if (asked.condition() == JobDependency::CONDITION_CORRESPONDING) {
      const int size = ArraySizeOf(model_.FindJobByName(asked.job()));
      if (size == event.spec.array().size()) continue;
      errors.Add(field, absl::StrCat("`", asked.job(), "` ",
                                     size == 0 ? std::string("is no array")
                                               : absl::StrCat("has ", size, " elements"),
                                     "; expected an array of ", event.spec.array().size(),
                                     " elements as this one, or another condition"));
    } else if (StandingOf(asked.condition(), other->state) == DependencyStanding::kFailed) {
      return status::Error(
          absl::StatusCode::kFailedPrecondition, "DEPENDENCY_FAILED",
          absl::StrCat(field, ": `", asked.job(), "` is ",
                       absl::StripPrefix(Job::State_Name(other->state), "STATE_"),
                       ", and this Job waits for it ", ConditionInWords(asked.condition()),
                       "; submit that one again under another id, or ask for another condition"),
          {{"field", field}, {"job", asked.job()}});
    }
  }
  return errors.ToStatus();
}

absl::optional<SchedulerCore::Awaited> SchedulerCore::FindAwaited(const std::string& name) const {
  if (const JobEntry* job = model_.FindJobByName(name)) {
    return Awaited{job->uid(), job->state.state()};
  }
  const size_t dash = name.rfind('-');
  int index = -1;
  if (dash == std::string::npos || !absl::SimpleAtoi(name.substr(dash + 1), &index) || index < 0) {
    return absl::nullopt;
  }
  const JobEntry* array = model_.FindJobByName(name.substr(0, dash));
  if (array == nullptr || !IsArray(*array) || ElementName(array->spec.name(), index) != name ||
      !HasEnded(*array, index)) {
    return absl::nullopt;
  }
  return Awaited{ElementUid(array->uid(), index),
                 HasSucceeded(*array, index) ? Job::STATE_SUCCEEDED : Job::STATE_FAILED};
}

void SchedulerCore::BeginAfterOthers(JobEntry* job) {
  for (const JobDependency& asked : job->spec.spec().after()) {
    const absl::optional<Awaited> other = FindAwaited(asked.job());
    rec::JobStateRecord::Dependency& dependency = *job->state.add_dependencies();
    // One that is gone by now has no uid; the name is nobody's, and so never met.
    dependency.set_job_uid(other.has_value() ? other->uid : asked.job());
    dependency.set_met(other.has_value() &&
                       StandingOf(asked.condition(), other->state) == DependencyStanding::kMet);
  }
  JoinSingleton(*job);
  SetSingletonBehind(job);
  BeginOrWait(job);
  WatchDependencies(*job);
}

void SchedulerCore::BeginOrWait(JobEntry* job) {
  if (!DependenciesMet(*job) || !job->state.singleton_behind().empty()) {
    SetState(job, Job::STATE_QUEUED, kAwaitsJobs, AwaitedInWords(*job));
    return;
  }
  const JobEntry* array = IsElement(*job) ? FindJob(job->spec.array_uid()) : nullptr;
  // Its own cancel is under way.
  if (array != nullptr && array->state.cancel_requested()) return;
  if (!AwaitsTurn(job)) Begin(job);
}

void SchedulerCore::JoinSingleton(const JobEntry& job) {
  if (job.spec.spec().singleton().empty() || IsArray(job)) return;
  singletons_[SingletonOf(job)].emplace(job.spec.submit_sequence(), job.uid());
}

void SchedulerCore::SetSingletonBehind(JobEntry* job) {
  job->state.clear_singleton_behind();
  const auto line = singletons_.find(SingletonOf(*job));
  if (line == singletons_.end()) return;
  const auto place = line->second.find(job->spec.submit_sequence());
  if (place == line->second.end() || place == line->second.begin()) return;
  job->state.set_singleton_behind(FindJob(std::prev(place)->second)->spec.name());
}

void SchedulerCore::LeaveSingleton(const JobEntry& job) {
  const auto line = singletons_.find(SingletonOf(job));
  if (line == singletons_.end()) return;
  const auto place = line->second.find(job.spec.submit_sequence());
  if (place == line->second.end()) return;
  const auto next = line->second.erase(place);
  JobEntry* behind = next == line->second.end() ? nullptr : FindJob(next->second);
  if (line->second.empty()) singletons_.erase(line);
  if (behind == nullptr || behind->state.reason() != kAwaitsJobs) return;
  SetSingletonBehind(behind);
  Touch(*behind);
  BeginOrWait(behind);
}

void SchedulerCore::ResumeSingletons() {
  for (const auto& [key, line] : singletons_) {
    for (const auto& [sequence, uid] : line) {
      JobEntry* job = FindJob(uid);
      if (job->state.reason() != kAwaitsJobs) continue;
      const std::string stored = job->state.singleton_behind();
      SetSingletonBehind(job);
      const std::string& behind = job->state.singleton_behind();
      if (behind == stored && !(behind.empty() && DependenciesMet(*job))) continue;
      Touch(*job);
      BeginOrWait(job);
    }
  }
}

void SchedulerCore::WatchDependencies(const JobEntry& job) {
  for (const rec::JobStateRecord::Dependency& dependency : job.state.dependencies()) {
    if (dependency.met()) continue;
    dependents_[dependency.job_uid()].insert(job.uid());
    // A leader before may not have come to telling it.
    const JobEntry* other = model_.FindJob(dependency.job_uid());
    if (other == nullptr || other->final()) ended_dependencies_.insert(dependency.job_uid());
  }
}

void SchedulerCore::ForgetDependencies(const JobEntry& job) {
  for (const rec::JobStateRecord::Dependency& dependency : job.state.dependencies()) {
    const auto found = dependents_.find(dependency.job_uid());
    if (found == dependents_.end()) continue;
    found->second.erase(job.uid());
    if (!found->second.empty()) continue;
    dependents_.erase(found);
    ended_dependencies_.erase(dependency.job_uid());
  }
}

void SchedulerCore::SettleDependencies() {
  while (!ended_dependencies_.empty()) {
    // One that ends now because of it may add itself.
    const std::string ended = *ended_dependencies_.begin();
    for (auto found = dependents_.find(ended); found != dependents_.end();
         found = dependents_.find(ended)) {
      if (StepFull()) return;
      const std::string uid = *found->second.begin();
      found->second.erase(found->second.begin());
      if (found->second.empty()) dependents_.erase(found);
      SettleDependency(FindJob(uid), ended);
    }
    ended_dependencies_.erase(ended);
  }
}

void SchedulerCore::SettleDependency(JobEntry* job, const std::string& ended) {
  const JobEntry* other = FindJob(ended);
  for (int i = 0; i < job->state.dependencies_size(); ++i) {
    rec::JobStateRecord::Dependency& dependency = *job->state.mutable_dependencies(i);
    if (dependency.job_uid() != ended) continue;
    const JobDependency& asked = job->spec.spec().after(i);
    // What a Job waits for stays in the store; only a record lost or forged can lack it.
    if (other == nullptr ||
        StandingOf(asked.condition(), other->state.state()) != DependencyStanding::kMet) {
      const std::string found =
          other == nullptr
              ? "is not known any more"
              : absl::StrCat("is ",
                             absl::StripPrefix(Job::State_Name(other->state.state()), "STATE_"));
      return Finish(job, Job::STATE_CANCELLED, "DEPENDENCY_FAILED",
                    absl::StrCat("was to wait for ", asked.job(), " ",
                                 ConditionInWords(asked.condition()), ", which ", found));
    }
    dependency.set_met(true);
    Touch(*job);
  }
  BeginOrWait(job);
}

}  // namespace capstan::scheduler
