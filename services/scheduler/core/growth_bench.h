// What growth_bench_main.cc measures: how what the core's rounds take grows.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_GROWTH_BENCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_GROWTH_BENCH_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler {

struct GrowthSizes {
  // What is not another on a curve; both are points of their own curves, too.
  int base_nodes = 5000;
  int base_queued = 10'000;
  std::vector<int> nodes = {1000, 2500, 5000, 10'000};
  std::vector<int> queued = {1000, 10'000, 100'000, 1'000'000};
  // That Jobs are submitted to, at the bottom of a tree of so many levels.
  std::vector<int> queues = {50, 500, 2000, 5000};
  int levels = 6;
  // That Tasks of 20 classes are placed on; core_bench has the base.
  std::vector<int> placed_on = {1250, 2500, 10'000};
  int runs = 5;
};

// Tells each figure when it is there: BenchRound against Nodes, Jobs that wait and Queues, and
// BenchCorePlacements against Nodes.
void BenchGrowth(const Stopwatch& stopwatch, const GrowthSizes& sizes,
                 const std::function<void(const absl::StatusOr<Figure>&)>& tell);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_GROWTH_BENCH_H_
