// What restart_bench_main.cc measures: how long a scheduler whose store is etcd takes to come back
// while very many Jobs wait.
#ifndef CAPSTAN_INTEGRATION_SCHEDULER_RESTART_BENCH_H_
#define CAPSTAN_INTEGRATION_SCHEDULER_RESTART_BENCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler {

struct RestartBenchSizes {
  // Each is full with a Job of its own.
  int nodes = 7500;
  // With specs of about 1 KiB, no two the same; tried before.
  int waiting = 1'000'000;
  int runs = 5;
};

// Starts an etcd of one member and fills it, then restarts the scheduler: `restart_s`, and beside
// it, of which that is made, `read_s`: the records read as the scheduler reads them, and nothing
// done with them. etcd runs on. `recordings` is a folder for the flight recorder.
absl::StatusOr<std::vector<Figure>> BenchRestartOverEtcd(const RestartBenchSizes& sizes,
                                                         const std::string& recordings);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_INTEGRATION_SCHEDULER_RESTART_BENCH_H_
