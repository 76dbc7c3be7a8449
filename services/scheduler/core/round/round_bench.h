// What round_bench_main.cc measures.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_BENCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_BENCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler::round {

// Each measures from the committed state (a Fleet) to a proposal that the Fleet has validated and
// taken on, and checks what was proposed outside the timed part; an error is a broken rule. A round
// begins cold unless the conditions say otherwise.
absl::StatusOr<Figure> BenchPlacements(const Stopwatch& stopwatch, int nodes, int classes);
absl::StatusOr<Figure> BenchLargeGangs(const Stopwatch& stopwatch);
absl::StatusOr<Figure> BenchSlicedGangs(const Stopwatch& stopwatch);
absl::StatusOr<Figure> BenchReclaim(const Stopwatch& stopwatch, int nodes, double limit);
// Rounds over a long queue under steady load; several figures of one run.
absl::StatusOr<std::vector<Figure>> BenchQueue(const Stopwatch& stopwatch, int nodes, int queued);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_BENCH_H_
