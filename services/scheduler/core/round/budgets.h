#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_BUDGETS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_BUDGETS_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/resources.h"

namespace capstan::scheduler::round {

// What each queue may still take in this round: the quota tree's word, as plain numbers. A gang
// takes from its queue and from every queue above it. A value; queues that were never added take
// freely.
class Budgets {
 public:
  struct Refusal {
    QueueId queue = 0;
    Dimension dimension = 0;
    // What the queue may still take of it.
    int64_t left = 0;
  };

  // Adds the queue with the next number, unlimited. `parent`, if any, was added before.
  QueueId AddQueue(absl::optional<QueueId> parent);
  void SetLeft(QueueId queue, Dimension dimension, int64_t left);
  // Gangs of the queue may become victims of those of other queues that may reclaim.
  void SetAboveGuarantee(QueueId queue, bool above) { queues_[queue].above_guarantee = above; }
  void SetMayReclaim(QueueId queue, bool may) { queues_[queue].may_reclaim = may; }

  bool above_guarantee(QueueId queue) const;
  bool may_reclaim(QueueId queue) const;

  // The first queue upwards that has not enough left.
  absl::optional<Refusal> Refuses(QueueId queue, const Request& demand) const;
  // Takes `times` of the demand; gives back, if below 0.
  void Charge(QueueId queue, const Request& demand, int64_t times);
  // How often the demand may be taken, at most `limit`.
  int64_t Times(QueueId queue, const Request& demand, int64_t limit) const;

 private:
  struct Queue {
    absl::optional<QueueId> parent;
    ResourceVector left;
    bool above_guarantee = false;
    bool may_reclaim = false;
  };

  std::vector<Queue> queues_;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_BUDGETS_H_
