// What core_bench_main.cc measures.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_BENCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_BENCH_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/bench_queues.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"

namespace capstan::scheduler {

// Told of what the core that is measured is loaded from, and of each step; outside of what is
// measured. Either may be null.
struct BenchObserver {
  std::function<void(const CoreConfig&, const std::vector<store::KeyValue>&, Now)> loaded;
  std::function<void(const Event&, Now, const Step&, bool round)> step;
};

// Whole steps of SchedulerCore, as the service takes them: event in; round with queue tree, quotas,
// priorities, reservation and reasons; records, events and messages out. Not their way to the
// store. Every Node is full and `queued` Jobs wait; a Job ends and another is submitted, over and
// over. What came of it is checked outside of that (bench_checks.h): FAILED_PRECONDITION.
absl::StatusOr<std::vector<Figure>> BenchSteps(const Stopwatch& stopwatch, int nodes, int queued,
                                               const BenchObserver& observer = {});

// The same load: what a step with a round in it takes, median, least and most, at these sizes.
absl::StatusOr<Figure> BenchRound(const Stopwatch& stopwatch, int nodes, int queued,
                                  const bench_fleet::QueueShape& queues);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_BENCH_H_
