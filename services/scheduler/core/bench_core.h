// A core that leads, with one executor that has the Nodes of bench_fleet.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_CORE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_CORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/bench_checks.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

class BenchCore {
 public:
  // Told of each step, how long it took, and whether there was a round in it.
  using OnStep = std::function<void(const Event&, const Step&, absl::Duration took, bool round)>;

  BenchCore(const Stopwatch* stopwatch, OnStep on_step)
      : stopwatch_(*stopwatch), on_step_(std::move(on_step)) {}

  // What the core begins with.
  static std::vector<store::KeyValue> RecordsOf(const Model& model);

  // Leads, and hears of so many Nodes and of all that lives, as running.
  absl::Status Start(const CoreConfig& config, const std::vector<store::KeyValue>& records,
                     int nodes);

  void Apply(const Event& event);
  // In project p, `uid-N` the Nth Job there ever was.
  void Submit(capstan::scheduler::v1::JobSpec spec);
  // From the executor; `add` fills it.
  void Report(const std::function<void(capstan::type::v1::Observations*)>& add);
  // Not backwards.
  void MoveTo(BootTime boot);

  // FAILED_PRECONDITION if what came of all that breaks a rule of bench_checks.h.
  absl::Status Check() const;

  // Before Start too.
  Now now() const { return now_; }
  const SchedulerCore& core() const { return *core_; }
  const Model& model() const { return core_->model(); }

 private:
  const Stopwatch& stopwatch_;
  const OnStep on_step_;
  CoreConfig config_;
  std::unique_ptr<SchedulerCore> core_;
  Now now_{absl::FromUnixSeconds(1'700'000'000), BootTime() + absl::Hours(1)};
  int64_t journal_ = 0;
  int64_t jobs_ = 0;
  CallId calls_ = 0;
  GenerationCheck generations_;
};

// What the executor says of the Job's Task of that rank; to be given a state.
capstan::type::v1::TaskObservation* AddTaskOf(const JobEntry& job, int rank,
                                              capstan::type::v1::Observations* observations);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_CORE_H_
