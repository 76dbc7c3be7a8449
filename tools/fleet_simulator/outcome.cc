#include "tools/fleet_simulator/outcome.h"

#include <algorithm>
#include <cstddef>

namespace capstan::fleet_simulator {
namespace {

double Hours(absl::Duration duration) { return absl::ToDoubleHours(duration); }

Waits OfSize(const Outcome& outcome, const char* size) {
  const auto found = outcome.by_size.find(size);
  return found == outcome.by_size.end() ? Waits() : found->second;
}

}  // namespace

Waits Summarize(std::vector<absl::Duration>& waits) {
  Waits summary;
  if (waits.empty()) return summary;
  std::sort(waits.begin(), waits.end());
  const auto at = [&waits](size_t percent) {
    const size_t rank = (waits.size() * percent + 99) / 100;
    return waits[std::max<size_t>(rank, 1) - 1];
  };
  summary.jobs = static_cast<int64_t>(waits.size());
  summary.p50 = at(50);
  summary.p90 = at(90);
  summary.p99 = at(99);
  absl::Duration sum;
  for (absl::Duration wait : waits) sum += wait;
  summary.mean = sum / summary.jobs;
  return summary;
}

std::string SizeClass(int64_t gpus) {
  if (gpus <= 1) return "1";
  if (gpus < 8) return "2-7";
  if (gpus == 8) return "8";
  return gpus < 64 ? "9-63" : "64+";
}

const std::vector<Measure>& Measures() {
  static const auto* const kMeasures = new std::vector<Measure>{
      {"utilisation", "%", true, [](const Outcome& o) { return 100 * o.utilisation; }},
      {"goodput", "%", true, [](const Outcome& o) { return 100 * o.goodput; }},
      {"fragmentation", "%", false, [](const Outcome& o) { return 100 * o.fragmentation; }},
      {"unfairness", "%", false, [](const Outcome& o) { return 100 * o.unfairness; }},
      {"preemptions", "", false,
       [](const Outcome& o) { return static_cast<double>(o.preemptions); }},
      {"lost", "GPU h", false, [](const Outcome& o) { return o.lost_gpu_hours; }},
      {"mean wait", "h", false, [](const Outcome& o) { return Hours(o.waits.mean); }},
      {"wait p90", "h", false, [](const Outcome& o) { return Hours(o.waits.p90); }},
      {"wait p99", "h", false, [](const Outcome& o) { return Hours(o.waits.p99); }},
      {"mean wait, 1 GPU", "h", false, [](const Outcome& o) { return Hours(OfSize(o, "1").mean); }},
      {"mean wait, 64+ GPUs", "h", false,
       [](const Outcome& o) { return Hours(OfSize(o, "64+").mean); }},
      {"makespan", "h", false, [](const Outcome& o) { return Hours(o.makespan); }},
  };
  return *kMeasures;
}

}  // namespace capstan::fleet_simulator
