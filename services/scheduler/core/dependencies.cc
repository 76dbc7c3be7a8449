#include "services/scheduler/core/dependencies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/scheduler/core/arrays.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;

namespace {

constexpr char kSameSingleton[] = " to end, which has the same singleton";

}  // namespace

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

bool HasBegun(const JobEntry& job) { return HasBegun(JobGlance::Of(job)); }

bool HasBegun(const JobGlance& job) {
  return job.state != Job::STATE_QUEUED ||
         (job.reason != kAwaitsJobs && job.reason != kAwaitsTurn && job.reason != kHeld);
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
  if (const std::string& ahead = job.state.singleton_behind(); !ahead.empty()) {
    if (words.empty()) {
      words = absl::StrCat("waits for ", ahead, kSameSingleton);
    } else {
      ++more;
    }
  }
  if (more > 0) absl::StrAppend(&words, ", and for ", more, more == 1 ? " more Job" : " more Jobs");
  return words;
}

std::string AwaitedInWords(const JobEntry& job, const Model& model) {
  if (IsArray(job)) return ElementsInWords(job, model);
  std::string words;
  const auto add = [&words](const std::string& name, const JobEntry* other,
                            absl::string_view asked) {
    absl::StrAppend(&words, words.empty() ? "waits for " : ", for ", name);
    if (other != nullptr) {
      absl::StrAppend(&words, " (",
                      absl::StripPrefix(Job::State_Name(other->state.state()), "STATE_"),
                      other->state.reason().empty() ? "" : ", ", other->state.reason(), ")");
    }
    absl::StrAppend(&words, asked);
  };
  for (int i = 0; i < job.state.dependencies_size(); ++i) {
    const rec::JobStateRecord::Dependency& dependency = job.state.dependencies(i);
    if (dependency.met()) continue;
    const JobDependency& asked = job.spec.spec().after(i);
    add(asked.job(), model.FindJob(dependency.job_uid()),
        absl::StrCat(" ", ConditionInWords(asked.condition())));
  }
  if (const std::string& ahead = job.state.singleton_behind(); !ahead.empty()) {
    add(ahead, model.FindJobByName(ahead), kSameSingleton);
  }
  return words;
}

}  // namespace capstan::scheduler
