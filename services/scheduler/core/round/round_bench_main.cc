// Measures scheduling rounds and prints a line of JSON for each figure: ./dev bench scheduler.
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/round/round_bench.h"

namespace capstan::scheduler::round {
namespace {

int Main() {
  PinToOneCore();
  const Stopwatch stopwatch = MakeStopwatch();
  int failed = 0;
  for (int nodes : {5000, 7500}) {
    for (int classes : {1, 20, 1000})
      failed |= ReportFigure(BenchPlacements(stopwatch, nodes, classes));
  }
  failed |= ReportFigure(BenchLargeGangs(stopwatch));
  failed |= ReportFigure(BenchSlicedGangs(stopwatch));
  failed |= ReportFigure(BenchReclaim(stopwatch, 500, 25));
  failed |= ReportFigure(BenchReclaim(stopwatch, 1000, 50));
  failed |= ReportFigure(BenchReclaim(stopwatch, 7500, 500));
  failed |= ReportFigures(BenchQueue(stopwatch, 7500, 1'000'000));
  // How it grows.
  for (int nodes : {1250, 2500, 10000})
    failed |= ReportFigure(BenchPlacements(stopwatch, nodes, 20));
  for (int queued : {125'000, 250'000, 500'000}) {
    failed |= ReportFigures(BenchQueue(stopwatch, 7500, queued));
  }
  return failed;
}

}  // namespace
}  // namespace capstan::scheduler::round

int main() { return capstan::scheduler::round::Main(); }
