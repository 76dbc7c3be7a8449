// Trees, usage and requests drawn from a seed, for tests and benchmarks.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RANDOM_TREE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RANDOM_TREE_H_

#include <cstdint>
#include <vector>

#include "libs/random/random.h"
#include "services/scheduler/core/quota/queue_spec.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {

struct RandomTreeOptions {
  int queues = 10;
  int depth = 4;
  int resources = 2;
  int64_t max_weight = 4;
  // Guarantees of leaves lie below this; 0: there are none.
  int64_t max_guarantee = 0;
  // Whether queues have borrowing and lending limits, one of three each.
  bool limits = false;
};

// Queues `q0`, `q1`, … that pass ValidateQueues, with quotas of `r0`, `r1`, …
std::vector<QueueSpec> RandomQueues(const RandomTreeOptions& options, Random& random);

// Names `r0` to `r<count - 1>`.
std::vector<std::string> RandomResourceNames(int count);

// Each amount in [low, high].
Resources RandomAmounts(int count, int64_t low, int64_t high, Random& random);

// Leaves of the tree, ascending.
std::vector<int> Leaves(const QueueTree& tree);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RANDOM_TREE_H_
