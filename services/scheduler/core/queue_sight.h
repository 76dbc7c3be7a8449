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
#include "services/scheduler/core/record_pool.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

struct QueueSight {
  // What is asked is what is in use there; what waits is not.
  const QueueBook* book = nullptr;
  // If it is of this alone.
  std::unique_ptr<QueueBook> own;
  // What shares are of, and what of it is free.
  Resources capacity;
  Resources free;
};

// So many gangs that hold a place are looked at; whoever asks has the strand wait.
inline constexpr size_t kMostGangsSeen = 16'384;

// Null if there are more. `waiting_with_gang`: what JobTable::WaitingWithGang says. O(Nodes + gangs
// that hold a place).
std::unique_ptr<QueueSight> SeeQueues(const Model& model, const NodeUsage& usage,
                                      const std::vector<NodeStanding>& nodes,
                                      const std::vector<JobGlance>& waiting_with_gang,
                                      absl::Time now);
// With a book that is kept, which stays as it is as long as the answer is asked. O(Nodes).
std::unique_ptr<QueueSight> SeeQueues(const QueueBook& book,
                                      const std::vector<NodeStanding>& nodes);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_SIGHT_H_
