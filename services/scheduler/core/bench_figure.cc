#include "services/scheduler/core/bench_figure.h"

#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "libs/time/system_clock.h"

namespace capstan::scheduler {

Stopwatch MakeStopwatch() {
  const auto clock = std::make_shared<SystemClock>();
  return [clock, origin = clock->Read().boot] { return clock->Read().boot - origin; };
}

Figure Summarise(std::string name, std::vector<double> values, const char* unit, const char* better,
                 double limit, std::string conditions) {
  std::sort(values.begin(), values.end());
  Figure figure;
  figure.name = std::move(name);
  figure.value = values[values.size() / 2];
  figure.unit = unit;
  figure.better = better;
  figure.low = values.front();
  figure.high = values.back();
  figure.runs = static_cast<int>(values.size());
  figure.limit = limit;
  figure.conditions = std::move(conditions);
  return figure;
}

int64_t HeapBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

namespace {

int core_apart = -1;

// Restricts the calling thread to those of its cores that `is_for_it`, if there are any; returns the
// first of all, or -1 if nothing came of it.
template <typename IsForIt>
int Allow(IsForIt is_for_it) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return -1;
  int first = -1;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (first < 0) first = cpu;
    if (is_for_it(cpu, first)) CPU_SET(cpu, &wanted);
  }
  if (CPU_COUNT(&wanted) == 0) return -1;
  if (sched_setaffinity(0, sizeof(wanted), &wanted) != 0) {
    std::perror("bench: sched_setaffinity");
    return -1;
  }
  return first;
}

}  // namespace

void PinToOneCore() {
  Allow([](int cpu, int first) { return cpu == first; });
}

void SetOneCoreApart() {
  core_apart = Allow([](int cpu, int first) { return cpu != first; });
}

void MoveToCoreApart() {
  if (core_apart < 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core_apart, &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) std::perror("bench: sched_setaffinity");
}

int ReportFigures(const absl::StatusOr<std::vector<Figure>>& figures) {
  if (!figures.ok()) {
    std::fprintf(stderr, "bench: %s\n", figures.status().ToString().c_str());
    return 1;
  }
  for (const Figure& figure : *figures) {
    std::printf(
        "{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"better\":\"%s\",\"spread\":[%.6g,%.6g],"
        "\"runs\":%d",
        figure.name.c_str(), figure.value, figure.unit, figure.better, figure.low, figure.high,
        figure.runs);
    if (figure.limit > 0) std::printf(",\"limit\":%.6g", figure.limit);
    std::printf(",\"conditions\":\"one core pinned; %s\"}\n", figure.conditions.c_str());
  }
  std::fflush(stdout);
  return 0;
}

int ReportFigure(const absl::StatusOr<Figure>& figure) {
  if (!figure.ok()) return ReportFigures(figure.status());
  return ReportFigures(std::vector<Figure>{*figure});
}

}  // namespace capstan::scheduler
