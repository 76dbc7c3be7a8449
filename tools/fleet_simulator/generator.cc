#include "tools/fleet_simulator/generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/random/random.h"

namespace capstan::fleet_simulator {
namespace {

constexpr int32_t kUrgent = 10;

// Uniform in (0, 1).
double Fraction(Random& random) {
  return (static_cast<double>(random.Next() >> 12) + 0.5) / static_cast<double>(uint64_t{1} << 52);
}

// Box and Muller.
double Normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(Fraction(random)));
  return radius * std::cos(2 * 3.14159265358979323846 * Fraction(random));
}

// GPUs of a Job: small ones are many.
int64_t Gpus(Random& random, int64_t fleet) {
  struct Size {
    int percent;
    int64_t gpus;
  };
  constexpr Size kSizes[] = {{45, 1}, {10, 2}, {10, 4},  {18, 8}, {6, 16},
                             {5, 32}, {3, 64}, {2, 128}, {1, 256}};
  auto drawn = static_cast<int>(random.Below(100));
  int64_t gpus = 1;
  for (const Size& size : kSizes) {
    gpus = size.gpus;
    drawn -= size.percent;
    if (drawn < 0) break;
  }
  return std::min(gpus, std::max<int64_t>(fleet / 4, 1));
}

absl::Duration Runtime(Random& random, int64_t gpus) {
  const absl::Duration median = absl::Minutes(40) * std::pow(static_cast<double>(gpus), 0.35);
  const absl::Duration drawn = median * std::exp(1.4 * Normal(random));
  return std::clamp(absl::Trunc(drawn, absl::Seconds(1)), absl::Minutes(1), absl::Hours(96));
}

// By day three times as many as by night.
absl::Duration SubmitTime(Random& random, absl::Duration span) {
  while (true) {
    const absl::Duration at = random.Between(absl::ZeroDuration(), span);
    const int64_t hour = at / absl::Hours(1) % 24;
    if ((hour >= 9 && hour < 21) || random.OneIn(3)) return absl::Trunc(at, absl::Seconds(1));
  }
}

WorkloadJob DrawJob(Random& random, const GeneratorOptions& options) {
  WorkloadJob job;
  const int64_t gpus = Gpus(random, options.fleet.gpus());
  job.gpus_per_task = static_cast<int>(std::min<int64_t>(gpus, options.fleet.gpus_per_node));
  job.tasks = static_cast<int>(gpus / job.gpus_per_task);
  job.runtime = Runtime(random, job.gpus());
  job.queue = static_cast<int>(random.Below(static_cast<uint64_t>(options.queues)));
  if (random.Below(100) < static_cast<uint64_t>(options.urgent_percent)) job.priority = kUrgent;
  if (random.Below(100) >= static_cast<uint64_t>(options.undeclared_percent)) {
    job.declared = absl::Seconds(job.runtime / absl::Seconds(1) * random.Between(110, 400) / 100);
  }
  if (job.gpus() >= 8 || random.OneIn(2)) job.checkpoint_period = absl::Minutes(30);
  return job;
}

// With numbers of its own, so that nothing else of the workload differs.
void VaryCheckpoints(uint64_t seed, std::vector<WorkloadJob>* jobs) {
  constexpr std::array<absl::Duration, 5> kPeriods = {absl::Minutes(10), absl::Minutes(30),
                                                      absl::Hours(1), absl::Hours(4),
                                                      absl::InfiniteDuration()};
  Random random(~seed);
  for (WorkloadJob& job : *jobs) job.checkpoint_period = kPeriods[random.Below(kPeriods.size())];
}

}  // namespace

Workload Generate(const GeneratorOptions& options) {
  Random random(options.seed);
  Workload workload;
  workload.fleet = options.fleet;
  for (int q = 0; q < options.queues; ++q) {
    WorkloadQueue queue;
    queue.id = absl::StrCat("team-", q);
    queue.weight = 100 * (q + 1);
    queue.guaranteed_gpus =
        options.fleet.gpus() * options.guaranteed_percent / 100 / options.queues;
    workload.queues.push_back(queue);
  }
  const double wanted = absl::ToDoubleSeconds(options.span) *
                        static_cast<double>(options.fleet.gpus()) * options.load_percent / 100;
  for (double drawn = 0; drawn < wanted;) {
    WorkloadJob job = DrawJob(random, options);
    job.submitted = SubmitTime(random, options.span);
    drawn += absl::ToDoubleSeconds(job.runtime) * static_cast<double>(job.gpus());
    workload.jobs.push_back(job);
  }
  std::stable_sort(
      workload.jobs.begin(), workload.jobs.end(),
      [](const WorkloadJob& a, const WorkloadJob& b) { return a.submitted < b.submitted; });
  if (options.varied_checkpoints) VaryCheckpoints(options.seed, &workload.jobs);
  return workload;
}

}  // namespace capstan::fleet_simulator
