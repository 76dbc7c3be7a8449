// Measures how what the scheduler's core takes grows with Nodes, Jobs and Queues:
// ./dev bench scheduler.
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/growth_bench.h"

int main() {
  using namespace capstan::scheduler;  // NOLINT(google-build-using-namespace)
  PinToOneCore();
  int failed = 0;
  BenchGrowth(MakeStopwatch(), GrowthSizes(),
              [&failed](const absl::StatusOr<Figure>& figure) { failed |= ReportFigure(figure); });
  return failed;
}
