// What core_bench_main.cc measures.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_BENCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_BENCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler {

// Whole steps of SchedulerCore, as the service takes them: event in; round with queue tree, quotas,
// priorities, reservation and reasons; records, events and messages out. Not their way to the
// store. Every Node is full and `queued` Jobs wait; a Job ends and another is submitted, over and
// over.
absl::StatusOr<std::vector<Figure>> BenchSteps(const Stopwatch& stopwatch, int nodes, int queued);

// Of those steps the ones that held a round, while so many Jobs wait that were tried before.
absl::StatusOr<std::vector<Figure>> BenchRounds(const Stopwatch& stopwatch, int nodes, int queued,
                                                int seconds);

// What a core holds for each Job that waits.
absl::StatusOr<Figure> BenchMemory(const Stopwatch& stopwatch, int queued);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_BENCH_H_
