// How fast the core places, and makes room, as the service has it do: benchmarks of whole steps.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_PLACING_BENCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_PLACING_BENCH_H_

#include "absl/status/statusor.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/bench_queues.h"

namespace capstan::scheduler {

// Of all three: only steps that had a round in them count, with the Queues and priorities that
// `queues` says, order, reasons and reservation, and with the records and messages made that come of
// them; their way to the store does not. What came of it is checked outside of that:
// FAILED_PRECONDITION if a rule of bench_checks.h is broken, not all is placed, or a victim was none
// that was needed.

// Tasks placed in a second: Jobs of `tasks_each` Tasks of one GPU, as many as fill idle Nodes of
// eight, in so many classes that differ in what they ask of CPU. `tasks_each` must divide eight
// times `nodes`.
absl::StatusOr<Figure> BenchCorePlacements(const Stopwatch& stopwatch, int nodes, int classes,
                                           int tasks_each, int runs,
                                           const bench_fleet::QueueShape& queues = {});

// Ten Jobs of so many Tasks each on as many idle Nodes, in all.
absl::StatusOr<Figure> BenchCoreGangs(const Stopwatch& stopwatch, int nodes, int runs,
                                      const bench_fleet::QueueShape& queues = {});

// The step that decides who ends for one Job of a fourth of the Nodes, whole, which its Queue is
// guaranteed, on a fleet full of Jobs of 1 to 64 GPUs of other Queues.
absl::StatusOr<Figure> BenchCoreReclaim(const Stopwatch& stopwatch, int nodes, int runs,
                                        const bench_fleet::QueueShape& queues = {});

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_PLACING_BENCH_H_
