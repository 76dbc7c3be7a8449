#include "services/scheduler/core/growth_bench.h"

#include "services/scheduler/core/bench_queues.h"
#include "services/scheduler/core/core_bench.h"
#include "services/scheduler/core/core_placing_bench.h"

namespace capstan::scheduler {

void BenchGrowth(const Stopwatch& stopwatch, const GrowthSizes& sizes,
                 const std::function<void(const absl::StatusOr<Figure>&)>& tell) {
  constexpr int kClasses = 20;
  for (const int nodes : sizes.nodes) {
    tell(BenchRound(stopwatch, nodes, sizes.base_queued, {}));
  }
  for (const int queued : sizes.queued) {
    // That one is on the curve before.
    if (queued != sizes.base_queued) tell(BenchRound(stopwatch, sizes.base_nodes, queued, {}));
  }
  for (const int queues : sizes.queues) {
    tell(BenchRound(stopwatch, sizes.base_nodes, sizes.base_queued, {queues, sizes.levels}));
  }
  for (const int nodes : sizes.placed_on) {
    tell(BenchCorePlacements(stopwatch, nodes, kClasses, /*tasks_each=*/1, sizes.runs));
  }
}

}  // namespace capstan::scheduler
