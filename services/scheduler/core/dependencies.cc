#include "services/scheduler/core/dependencies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;

DependencyStanding StandingOf(JobDependency::Condition condition, Job::State state) {
  if (state != Job::STATE_SUCCEEDED && state != Job::STATE_FAILED &&
      state != Job::STATE_CANCELLED) {
    return DependencyStanding::kOpen;
  }
  const bool succeeded = state == Job::STATE_SUCCEEDED;
  const bool met = condition == JobDependency::CONDITION_ENDED ||
                   succeeded == (condition != JobDependency::CONDITION_NOT_SUCCEEDED);
  return met ? DependencyStanding::kMet : DependencyStanding::kFailed;
}

bool DependenciesMet(const JobEntry& job) {
  return std::all_of(
      job.state.dependencies().begin(), job.state.dependencies().end(),
      [](const rec::JobStateRecord::Dependency& dependency) { return dependency.met(); });
}

std::string ConditionInWords(JobDependency::Condition condition) {
  switch (condition) {
    case JobDependency::CONDITION_ENDED:
      return "to end";
    case JobDependency::CONDITION_NOT_SUCCEEDED:
      return "to end without success";
    default:
      return "to succeed";
  }
}

std::string AwaitedInWords(const JobEntry& job) {
  std::string words;
  int more = 0;
  for (int i = 0; i < job.state.dependencies_size(); ++i) {
    if (job.state.dependencies(i).met()) continue;
    if (!words.empty()) {
      ++more;
      continue;
    }
    const JobDependency& asked = job.spec.spec().after(i);
    words = absl::StrCat("waits for ", asked.job(), " ", ConditionInWords(asked.condition()));
  }
  if (more > 0) absl::StrAppend(&words, ", and for ", more, more == 1 ? " more Job" : " more Jobs");
  return words;
}

std::string AwaitedInWords(const JobEntry& job, const Model& model) {
  std::string words;
  for (int i = 0; i < job.state.dependencies_size(); ++i) {
    const rec::JobStateRecord::Dependency& dependency = job.state.dependencies(i);
    if (dependency.met()) continue;
    const JobDependency& asked = job.spec.spec().after(i);
    const JobEntry* other = model.FindJob(dependency.job_uid());
    absl::StrAppend(&words, words.empty() ? "waits for " : ", for ", asked.job());
    if (other != nullptr) {
      absl::StrAppend(&words, " (",
                      absl::StripPrefix(Job::State_Name(other->state.state()), "STATE_"),
                      other->state.reason().empty() ? "" : ", ", other->state.reason(), ")");
    }
    absl::StrAppend(&words, " ", ConditionInWords(asked.condition()));
  }
  return words;
}

}  // namespace capstan::scheduler
