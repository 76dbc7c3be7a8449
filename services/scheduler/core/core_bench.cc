#include "services/scheduler/core/core_bench.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/random/random.h"
#include "libs/status/status_macros.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/bench_core.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using bench_fleet::kQueues;
using bench_fleet::kShapes;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Observations;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

// Jobs that end, and that are submitted, in a second.
constexpr int kRate = 500;
constexpr int kPackedAtOnce = 1000;

class Bench {
 public:
  // `told`: those that wait have been tried before.
  Bench(const Stopwatch* stopwatch, int nodes, int queued, BenchObserver observer = {},
        bool told = false, int queues = kQueues)
      : core_(stopwatch, [this](const Event& event, const Step& step, absl::Duration took,
                                bool round) { Took(event, step, took, round); }),
        observer_(std::move(observer)),
        nodes_(nodes),
        queues_(queues),
        random_(1) {
    Model model;
    // What a Node reports comes with the session.
    bench_fleet::AddFull(nodes, now().wall, &model, queues);
    for (int n = 0; n < nodes; ++n) running_.push_back(absl::StrCat("uid-", n + 1));
    for (int j = 0; j < queued; ++j) {
      if (told) {
        bench_fleet::AddTold(NextSpec(), now().wall, &model);
      } else {
        bench_fleet::AddQueued(NextSpec(), now().wall, &model);
      }
      if (j % kPackedAtOnce == 0) model.jobs.Rest();
    }
    records_ = BenchCore::RecordsOf(model);
  }

  absl::Status Start() {
    CoreConfig config;
    config.max_jobs = 10'000'000;
    if (observer_.loaded) observer_.loaded(config, records_, now());
    CAPSTAN_RETURN_IF_ERROR(core_.Start(config, records_, nodes_));
    records_ = {};
    RunTo(now().boot + absl::Seconds(2));
    steps_.clear();
    rounds_.clear();
    placed_ = 0;
    return absl::OkStatus();
  }

  // Somebody's last Task ends.
  void EndOne() {
    const size_t at = random_.Below(running_.size());
    const std::string uid = running_[at];
    running_[at] = running_.back();
    running_.pop_back();
    core_.Report([this, &uid](Observations* all) {
      TaskObservation* const task = AddTaskOf(*core_.model().FindJob(uid), 0, all);
      task->set_state(TaskObservation::STATE_ENDED);
      task->mutable_end()->set_cause(TaskEnd::CAUSE_EXITED);
    });
  }

  void Submit() { core_.Submit(NextSpec()); }

  // Ticks as the engine would until then; the executor is heard once a second.
  void RunTo(BootTime until) {
    while (true) {
      const auto next = core_.core().NextDeadline();
      const BootTime at = std::min(renew_at_, next.value_or(BootTime::InfiniteFuture()));
      if (at > until) break;
      core_.MoveTo(std::max(at, now().boot));
      if (at < renew_at_) {
        core_.Apply(Tick());
        continue;
      }
      RenewalReceived renewal;
      renewal.session = 1;
      renewal.sequence = ++renewals_;
      renewal.leader_until = now().boot + absl::Seconds(10);
      core_.Apply(renewal);
      renew_at_ = now().boot + absl::Seconds(1);
    }
    core_.MoveTo(until);
  }

  Now now() const { return core_.now(); }
  int64_t placed() const { return placed_; }
  const std::vector<absl::Duration>& steps() const { return steps_; }
  // Of those, the ones with a round.
  const std::vector<absl::Duration>& rounds() const { return rounds_; }

 private:
  JobSpec NextSpec() {
    const int shape = static_cast<int>(random_.Below(kShapes));
    return bench_fleet::SpecOf(shape, static_cast<int>(random_.Below(queues_)));
  }

  void Took(const Event& event, const Step& step, absl::Duration took, bool round) {
    steps_.push_back(took);
    if (round) rounds_.push_back(took);
    if (observer_.step) observer_.step(event, now(), step, round);
    for (const Write& write : step.persist) {
      for (const auto& told : write.events) placed_ += told.reason() == "PLACED" ? 1 : 0;
    }
  }

  BenchCore core_;
  const BenchObserver observer_;
  const int nodes_;
  const int queues_;
  Random random_;
  std::vector<store::KeyValue> records_;
  std::vector<std::string> running_;
  BootTime renew_at_ = core_.now().boot;
  std::vector<absl::Duration> steps_;
  std::vector<absl::Duration> rounds_;
  int64_t renewals_ = 0;
  int64_t placed_ = 0;
};

// As many Jobs end and are submitted, evenly.
void Load(int seconds, Bench* bench) {
  BootTime at = bench->now().boot;
  for (int e = 0; e < seconds * kRate; ++e) {
    bench->EndOne();
    bench->RunTo(at + absl::Seconds(1) / (2 * kRate));
    bench->Submit();
    at = at + absl::Seconds(1) / kRate;
    bench->RunTo(at);
  }
}

std::vector<double> InMilliseconds(const std::vector<absl::Duration>& times) {
  std::vector<double> all;
  all.reserve(times.size());
  for (absl::Duration time : times) all.push_back(absl::ToDoubleMilliseconds(time));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

absl::StatusOr<Figure> BenchRound(const Stopwatch& stopwatch, int nodes, int queued, int queues) {
  constexpr int kSeconds = 2;
  Bench bench(&stopwatch, nodes, queued, {}, /*told=*/true, queues);
  CAPSTAN_RETURN_IF_ERROR(bench.Start());
  Load(kSeconds, &bench);
  if (bench.placed() == 0) return absl::FailedPreconditionError("no Job was placed");
  return Summarise(
      absl::StrCat("scheduler.core_round_ms.nodes", nodes, ".queued", queued, ".queues", queues),
      InMilliseconds(bench.rounds()), "ms", "lower", 0,
      absl::StrCat("steps with a round; each second ", kRate, " Jobs end and ", kRate,
                   " are submitted; full nodes of 8 GPUs, Jobs of 1 to 128 GPUs in ", kShapes,
                   " shapes; records made, not stored; ", bench.placed(), " Jobs placed in ",
                   kSeconds, " s"));
}

absl::StatusOr<std::vector<Figure>> BenchSteps(const Stopwatch& stopwatch, int nodes, int queued,
                                               const BenchObserver& observer) {
  const int seconds = std::min(4, nodes / kRate);
  Bench bench(&stopwatch, nodes, queued, observer);
  CAPSTAN_RETURN_IF_ERROR(bench.Start());
  Load(seconds, &bench);
  const std::vector<double> steps = InMilliseconds(bench.steps());
  double busy = 0;
  for (double step : steps) busy += step / 1000;
  if (bench.placed() == 0) return absl::FailedPreconditionError("no Job was placed");
  const std::string conditions = absl::StrCat(
      "each second ", kRate, " Jobs end and ", kRate, " are submitted; ", nodes,
      " full nodes of 8 GPUs, ", queued, " Jobs of 1 to 128 GPUs queued in ", kShapes,
      " shapes and ", kQueues, " queues, reservation and reasons on; records made, not stored; ",
      bench.placed(), " Jobs placed in ", seconds, " s");
  const std::string suffix = absl::StrCat(".nodes", nodes, ".queued", queued);
  Figure p99 = Summarise("scheduler.core_step_p99_ms" + suffix, steps, "ms", "lower", 1000,
                         "event in, records and messages out; " + conditions);
  p99.value = steps[steps.size() * 99 / 100];
  return std::vector<Figure>{
      p99, Summarise("scheduler.core_busy_percent" + suffix, {100 * busy / seconds}, "%", "lower",
                     100, "of one core; " + conditions)};
}

}  // namespace capstan::scheduler
