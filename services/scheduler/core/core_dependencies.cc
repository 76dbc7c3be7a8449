// Jobs that wait for others to end. A Job can only name Jobs that were there before it, so that
// what waits for what has no cycles.
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;

absl::Status SchedulerCore::CheckDependencies(const CreateJob& event,
                                              const std::string& name) const {
  status::FieldErrors errors;
  for (int i = 0; i < event.spec.after_size(); ++i) {
    const JobDependency& asked = event.spec.after(i);
    const std::string field = absl::StrCat("job.spec.after[", i, "].job");
    const JobEntry* other = model_.FindJobByName(asked.job());
    if (asked.job() == name) {
      errors.Add(field, absl::StrCat("`", asked.job(), "` is this Job itself"));
    } else if (other == nullptr) {
      errors.Add(field, absl::StrCat("`", asked.job(),
                                     "` does not exist, or has ended and is in the archive; "
                                     "submit it before this one, or leave it out"));
    } else if (StandingOf(asked.condition(), other->state.state()) == DependencyStanding::kFailed) {
      return status::Error(
          absl::StatusCode::kFailedPrecondition, "DEPENDENCY_FAILED",
          absl::StrCat(field, ": `", asked.job(), "` is ",
                       absl::StripPrefix(Job::State_Name(other->state.state()), "STATE_"),
                       ", and this Job waits for it ", ConditionInWords(asked.condition()),
                       "; submit that one again under another id, or ask for another condition"),
          {{"field", field}, {"job", asked.job()}});
    }
  }
  return errors.ToStatus();
}

void SchedulerCore::BeginAfterOthers(JobEntry* job) {
  for (const JobDependency& asked : job->spec.spec().after()) {
    const JobEntry* other = model_.FindJobByName(asked.job());
    rec::JobStateRecord::Dependency& dependency = *job->state.add_dependencies();
    dependency.set_job_uid(other->uid());
    dependency.set_met(StandingOf(asked.condition(), other->state.state()) ==
                       DependencyStanding::kMet);
  }
  if (DependenciesMet(*job)) return Begin(job);
  SetState(job, Job::STATE_QUEUED, kAwaitsJobs, AwaitedInWords(*job));
  WatchDependencies(*job);
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
  if (DependenciesMet(*job)) return Begin(job);
  SetState(job, Job::STATE_QUEUED, kAwaitsJobs, AwaitedInWords(*job));
}

}  // namespace capstan::scheduler
