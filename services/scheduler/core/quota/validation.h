#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_VALIDATION_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_VALIDATION_H_

#include <string>
#include <vector>

#include "services/scheduler/core/quota/queue_spec.h"

namespace capstan::scheduler {

// One thing that is wrong with a set of queues.
struct QuotaViolation {
  // `queues[2].quotas["gpu"].guarantee`; positions are those in the vector that was given.
  std::string field;
  // What was found and what was expected.
  std::string description;

  friend bool operator==(const QuotaViolation&, const QuotaViolation&) = default;
};

// Everything that keeps the queues from being a tree of kMaxQueueDepth levels with quotas that
// agree with each other: doubled, empty or long ids, unknown parents, cycles, weights, amounts
// out of bounds, too many resources, guarantees that add up to more than the parent's or than
// kMaxAmount. Empty if there is nothing. O(queues · resources · log).
std::vector<QuotaViolation> ValidateQueues(const std::vector<QueueSpec>& queues);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_VALIDATION_H_
