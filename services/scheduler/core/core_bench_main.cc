// Measures the scheduler's core as the service runs it: ./dev bench scheduler.
#include <cstdlib>
#include <string>

#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/bench_queues.h"
#include "services/scheduler/core/core_bench.h"
#include "services/scheduler/core/core_placing_bench.h"
#include "services/scheduler/core/what_if_bench.h"

namespace {

int ReportPlacing(const capstan::scheduler::Stopwatch& stopwatch,
                  const capstan::scheduler::bench_fleet::QueueShape& queues) {
  using namespace capstan::scheduler;  // NOLINT(google-build-using-namespace)
  constexpr int kRuns = 5;
  int failed = 0;
  for (int nodes : {5000, 7500}) {
    for (int classes : {1, 20, 1000}) {
      failed |= ReportFigure(BenchCorePlacements(stopwatch, nodes, classes, 1, kRuns, queues));
    }
  }
  for (int tasks_each : {8, 64}) {
    failed |= ReportFigure(BenchCorePlacements(stopwatch, 5000, 20, tasks_each, kRuns, queues));
  }
  failed |= ReportFigure(BenchCoreGangs(stopwatch, 5000, kRuns, queues));
  for (int nodes : {500, 1000, 7500}) {
    failed |= ReportFigure(BenchCoreReclaim(stopwatch, nodes, kRuns, queues));
  }
  return failed;
}

}  // namespace

// `core_bench NODES QUEUED`: that case alone, e.g. to be profiled; with `what-if`, simulations.
// `core_bench placing`: what is placed in a second, and what it takes to make room; `core_bench
// placing flat`: the same with Queues side by side, without quotas and priorities.
int main(int argc, char** argv) {
  using namespace capstan::scheduler;  // NOLINT(google-build-using-namespace)
  PinToOneCore();
  const Stopwatch stopwatch = MakeStopwatch();
  if (argc > 1 && std::string(argv[1]) == "placing") {
    bench_fleet::QueueShape queues;
    if (argc > 2 && std::string(argv[2]) == "flat") queues.levels = 1;
    return ReportPlacing(stopwatch, queues);
  }
  if (argc == 3) {
    return ReportFigures(BenchSteps(stopwatch, std::atoi(argv[1]), std::atoi(argv[2])));
  }
  if (argc == 4) {
    return ReportFigures(BenchSimulation(stopwatch, std::atoi(argv[1]), std::atoi(argv[2])));
  }
  int failed = ReportPlacing(stopwatch, {});
  for (int nodes : {500, 2000, 7500}) failed |= ReportFigures(BenchSteps(stopwatch, nodes, 1000));
  for (int queued : {10'000, 100'000}) failed |= ReportFigures(BenchSteps(stopwatch, 7500, queued));
  for (int queued : {1000, 10'000}) {
    failed |= ReportFigures(BenchSimulation(stopwatch, 7500, queued));
  }
  return failed;
}
