// What core_bench_main.cc measures of simulations.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_BENCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_BENCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler {

// How long SimulatePlacement takes where every Node is full and `queued` Jobs wait: the copy of the
// state, which the strand makes, and the rest, beside it, for 10 Jobs and for 100 Nodes that come;
// and what each alternative of a batch takes, beside the strand.
absl::StatusOr<std::vector<Figure>> BenchSimulation(const Stopwatch& stopwatch, int nodes,
                                                    int queued);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_WHAT_IF_BENCH_H_
