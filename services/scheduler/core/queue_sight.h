// The Queues as a round that began now would see them, made from what is stored.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_SIGHT_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_SIGHT_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

struct QueueSight {
  // Of what is in use alone: nothing waits in it.
  QueueBook book;
  // What shares are of, and what of it is free.
  Resources capacity;
  Resources free;
};

// So many gangs that hold a place are looked at; whoever asks has the strand wait.
inline constexpr size_t kMostGangsSeen = 16'384;

// Null if there are more. O(Nodes + gangs that hold a place).
std::unique_ptr<QueueSight> SeeQueues(const Model& model, const NodeUsage& usage,
                                      const std::vector<NodeStanding>& nodes, absl::Time now);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_SIGHT_H_
