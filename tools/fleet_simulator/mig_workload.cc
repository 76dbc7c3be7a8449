#include "tools/fleet_simulator/mig_workload.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "libs/random/random.h"

namespace capstan::fleet_simulator {
namespace {

constexpr double kTwoTo53 = 9007199254740992.0;

// In (0, 1].
double Uniform(Random& random) { return (static_cast<double>(random.Next() >> 11) + 1) / kTwoTo53; }

double Normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(Uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(random));
}

}  // namespace

const std::vector<MigMix>& MigMixes() {
  static const auto& mixes = *new std::vector<MigMix>{
      {"mixed", {40, 2, 8, 20, 16, 6, 8}},
      {"small", {70, 2, 10, 14, 2, 0, 2}},
      {"large", {5, 0, 5, 20, 35, 20, 15}},
  };
  return mixes;
}

std::vector<MigTask> GenerateMigTasks(const mig::DeviceModel& model, const MigMix& mix,
                                      const MigWorkloadOptions& options) {
  Random random(options.seed);
  const double wanted = absl::ToDoubleSeconds(options.span) * options.gpus * model.memory_slices *
                        options.load_percent / 100;
  std::vector<MigTask> tasks;
  for (double drawn = 0; drawn < wanted;) {
    MigTask task;
    auto which = static_cast<int64_t>(random.Below(100));
    for (size_t p = 0; p < mix.percent.size(); ++p) {
      task.profile = static_cast<int>(p);
      which -= mix.percent[p];
      if (which < 0) break;
    }
    task.runtime = std::clamp(
        absl::Trunc(options.median_runtime * std::exp(options.runtime_sigma * Normal(random)),
                    absl::Seconds(1)),
        absl::Minutes(2), absl::Hours(48));
    task.at = absl::Trunc(random.Between(absl::ZeroDuration(), options.span), absl::Seconds(1));
    drawn += absl::ToDoubleSeconds(task.runtime) *
             model.profiles[static_cast<size_t>(task.profile)].memory_slices;
    tasks.push_back(task);
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const MigTask& a, const MigTask& b) { return a.at < b.at; });
  return tasks;
}

}  // namespace capstan::fleet_simulator
