// Measures the scheduler's core as the service runs it: ./dev bench scheduler.
#include <cstdlib>

#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/core_bench.h"
#include "services/scheduler/core/core_placing_bench.h"
#include "services/scheduler/core/what_if_bench.h"

namespace {

constexpr int kRuns = 5;

}  // namespace

// `core_bench NODES QUEUED`: that case alone, e.g. to be profiled; with `what-if`, simulations;
// with 0 Nodes, what a Job takes. `core_bench placing`: what is placed in a second, and what it
// takes to make room.
int main(int argc, char** argv) {
  using namespace capstan::scheduler;  // NOLINT(google-build-using-namespace)
  PinToOneCore();
  const Stopwatch stopwatch = MakeStopwatch();
  if (argc == 3 && std::atoi(argv[1]) == 0) {
    return ReportFigure(BenchMemory(stopwatch, std::atoi(argv[2])));
  }
  if (argc == 3) {
    return ReportFigures(BenchSteps(stopwatch, std::atoi(argv[1]), std::atoi(argv[2])));
  }
  if (argc == 4) {
    return ReportFigures(BenchSimulation(stopwatch, std::atoi(argv[1]), std::atoi(argv[2])));
  }
  int failed = 0;
  for (int nodes : {5000, 7500}) {
    for (int classes : {1, 20, 1000}) {
      failed |= ReportFigure(BenchCorePlacements(stopwatch, nodes, classes, kRuns));
    }
  }
  failed |= ReportFigure(BenchCoreGangs(stopwatch, 5000, kRuns));
  for (int nodes : {500, 1000, 7500}) {
    failed |= ReportFigure(BenchCoreReclaim(stopwatch, nodes, kRuns));
  }
  if (argc == 2) return failed;
  for (int nodes : {500, 2000, 7500}) failed |= ReportFigures(BenchSteps(stopwatch, nodes, 1000));
  for (int queued : {10'000, 100'000}) failed |= ReportFigures(BenchSteps(stopwatch, 7500, queued));
  failed |= ReportFigure(BenchMemory(stopwatch, 100'000));
  for (int queued : {1000, 10'000}) {
    failed |= ReportFigures(BenchSimulation(stopwatch, 7500, queued));
  }
  return failed;
}
