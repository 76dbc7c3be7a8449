// What store_bench_main.cc measures: the scheduler over a real store, as it is wired in the
// service but without gRPC, while very many Jobs wait.
#ifndef CAPSTAN_SERVICES_SCHEDULER_STORE_BENCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_STORE_BENCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler {

struct StoreBenchSizes {
  // Each is full with a Job of its own.
  int nodes = 7500;
  // With specs of about 1 KiB, no two the same; tried before.
  int waiting = 1'000'000;
  // Jobs that end, and as many that are submitted, in a second; and how many of each.
  int rate = 500;
  int arrivals = 40'000;
  // Of restart, take-over and simulations.
  int runs = 5;
  int explained = 50;
  absl::Duration leadership_ttl = absl::Seconds(3);
};

// In a folder that is empty, or holds the store that a bench of these sizes filled, over SQLite:
// rounds, explanations, simulations, restart and take-over. Fails if what is stored in the end
// breaks a rule of bench_checks.h, or Tasks of two generations of a Job were to be held at once.
absl::StatusOr<std::vector<Figure>> BenchOverSqlite(const StoreBenchSizes& sizes,
                                                    const std::string& folder);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_STORE_BENCH_H_
