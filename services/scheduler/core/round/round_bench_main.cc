// Measures scheduling rounds and prints a line of JSON for each figure: ./dev bench scheduler.
#include <sched.h>

#include <cstdio>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/time/system_clock.h"
#include "services/scheduler/core/round/round_bench.h"

namespace capstan::scheduler::round {
namespace {

// Keeps the process on the first core that it may use.
void PinToOneCore() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) std::perror("round_bench: sched_setaffinity");
    return;
  }
}

void Print(const Figure& figure) {
  std::printf(
      "{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"better\":\"%s\",\"spread\":[%.6g,%.6g],"
      "\"runs\":%d",
      figure.name.c_str(), figure.value, figure.unit, figure.better, figure.low, figure.high,
      figure.runs);
  if (figure.limit > 0) std::printf(",\"limit\":%.6g", figure.limit);
  std::printf(",\"conditions\":\"one core pinned; %s\"}\n", figure.conditions.c_str());
  std::fflush(stdout);
}

// 1 if a rule was broken.
int Report(const absl::StatusOr<std::vector<Figure>>& figures) {
  if (!figures.ok()) {
    std::fprintf(stderr, "round_bench: %s\n", figures.status().ToString().c_str());
    return 1;
  }
  for (const Figure& figure : *figures) Print(figure);
  return 0;
}

int ReportOne(const absl::StatusOr<Figure>& figure) {
  if (!figure.ok()) return Report(figure.status());
  return Report(std::vector<Figure>{*figure});
}

int Main() {
  PinToOneCore();
  const SystemClock clock;
  const BootTime origin = clock.Read().boot;
  const Stopwatch stopwatch = [&clock, origin] { return clock.Read().boot - origin; };
  int failed = 0;
  for (int nodes : {5000, 7500}) {
    for (int classes : {1, 20, 1000})
      failed |= ReportOne(BenchPlacements(stopwatch, nodes, classes));
  }
  failed |= ReportOne(BenchLargeGangs(stopwatch));
  failed |= ReportOne(BenchReclaim(stopwatch, 500, 25));
  failed |= ReportOne(BenchReclaim(stopwatch, 1000, 50));
  failed |= ReportOne(BenchReclaim(stopwatch, 7500, 500));
  failed |= Report(BenchQueue(stopwatch, 7500, 1'000'000));
  // How it grows.
  for (int nodes : {1250, 2500, 10000}) failed |= ReportOne(BenchPlacements(stopwatch, nodes, 20));
  for (int queued : {125'000, 250'000, 500'000}) {
    failed |= Report(BenchQueue(stopwatch, 7500, queued));
  }
  return failed;
}

}  // namespace
}  // namespace capstan::scheduler::round

int main() { return capstan::scheduler::round::Main(); }
