// The Queues that the core's benchmarks share, and the priorities of their Jobs.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_QUEUES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_QUEUES_H_

#include <string>
#include <vector>

#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler::bench_fleet {

inline constexpr int kQueues = 50;
inline constexpr int kPriorities = 3;

// How the Queues of a benchmark stand.
struct QueueShape {
  // Those that Jobs are submitted to: `q0` and so on.
  int leaves = kQueues;
  // Of the tree, the leaves' among them. With one they stand side by side and have no quotas, and
  // all Jobs have one priority.
  int levels = 3;

  bool flat() const { return levels == 1; }
};

// `` and `.flat`: how the figure's name ends.
std::string Suffix(const QueueShape& shape);
// What conditions of a figure say of Queues and priorities.
std::string InWords(const QueueShape& shape);

// Of the Jobs, by any number: one after the other.
int PriorityOf(int number, const QueueShape& shape = {});
// That of what runs on a full fleet: whom it could end for itself has ended long ago.
int HighestPriority(const QueueShape& shape = {});

// Queues at each level, from the uppermost on.
std::vector<int> LevelsOf(const QueueShape& shape);

// Adds them. Of so many Nodes that have `each`, a Queue's part is that of the leaves below it. A
// fourth of its part it is guaranteed, of accelerators and in whole Nodes; and it may have twice its
// part beyond that, and room for the largest Job of bench_fleet, of each resource: so a Queue near
// its part is stopped by none of it, and gives back what others are guaranteed.
void AddQueues(const QueueShape& shape, int nodes, const capstan::type::v1::Resources& each,
               Model* model);

}  // namespace capstan::scheduler::bench_fleet

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_QUEUES_H_
