// What a Job that waits for others asks of them, and how that stands.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_DEPENDENCIES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_DEPENDENCIES_H_

#include <string>

#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

enum class DependencyStanding { kOpen, kMet, kFailed };

// How a Job in that state stands to what is asked of it.
DependencyStanding StandingOf(capstan::scheduler::v1::JobDependency::Condition condition,
                              capstan::scheduler::v1::Job::State state);

// All that the Job comes after have ended as asked.
bool DependenciesMet(const JobEntry& job);

// The Job waits for no other any more, however long it takes until it is placed.
bool HasBegun(const JobEntry& job);
bool HasBegun(const JobGlance& job);

// `to succeed`.
std::string ConditionInWords(capstan::scheduler::v1::JobDependency::Condition condition);

// `waits for projects/p/jobs/a to succeed, and for 2 more Jobs`: the first that has not ended as
// asked, those before the one that its singleton lets it wait for. The words stay the same while
// these do.
std::string AwaitedInWords(const JobEntry& job);

// The same of each, with the state in which it is now; of an array, its elements.
std::string AwaitedInWords(const JobEntry& job, const Model& model);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_DEPENDENCIES_H_
