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
#include "services/scheduler/core/bench_queues.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using bench_fleet::kPriorities;
using bench_fleet::kShapes;
using bench_fleet::QueueShape;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Observations;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

// Jobs that end, and that are submitted, in a second.
constexpr int kRate = 500;
constexpr int kPackedAtOnce = 1000;

// Seconds of load, of those wanted, for which there are Jobs that run from the beginning.
double SecondsOf(int nodes, int wanted) { return std::min(double(wanted), double(nodes) / kRate); }

class Bench {
 public:
  // `told`: those that wait have been tried before.
  Bench(const Stopwatch* stopwatch, int nodes, int queued, BenchObserver observer = {},
        bool told = false, const QueueShape& queues = {})
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
    for (int j = 0; j < queued && !told; ++j) {
      bench_fleet::AddQueued(NextSpec(), now().wall, &model);
      if (j % kPackedAtOnce == 0) model.jobs.Rest();
    }
    records_ = BenchCore::RecordsOf(model);
    if (!told) return;
    // A million of them: not in a model of their own, too.
    for (int j = nodes + 1; j <= nodes + queued; ++j) {
      const JobEntry job =
          bench_fleet::Told(NextSpec(), now().wall, absl::StrCat("uid-", j), int64_t{j});
      for (store::Put put : {PutJobSpec(job), PutJobState(job)}) {
        store::KeyValue& record = records_.emplace_back();
        record.key = std::move(put.key);
        record.value = std::move(put.value);
      }
    }
    std::sort(records_.begin(), records_.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
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
  // FAILED_PRECONDITION if nothing was placed, or a rule was broken.
  absl::Status Check() const {
    if (placed_ == 0) return absl::FailedPreconditionError("no Job was placed");
    return core_.Check();
  }
  int64_t placed() const { return placed_; }
  const std::vector<absl::Duration>& steps() const { return steps_; }
  // Of those, the ones with a round.
  const std::vector<absl::Duration>& rounds() const { return rounds_; }

 private:
  JobSpec NextSpec() {
    const int shape = static_cast<int>(random_.Below(kShapes));
    JobSpec spec = bench_fleet::SpecOf(shape, static_cast<int>(random_.Below(queues_.leaves)));
    spec.set_priority(
        bench_fleet::PriorityOf(static_cast<int>(random_.Below(kPriorities)), queues_));
    return spec;
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
  const QueueShape queues_;
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
void Load(double seconds, Bench* bench) {
  BootTime at = bench->now().boot;
  for (int e = 0; e < static_cast<int>(seconds * kRate); ++e) {
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

absl::StatusOr<Figure> BenchRound(const Stopwatch& stopwatch, int nodes, int queued,
                                  const QueueShape& queues) {
  const double seconds = SecondsOf(nodes, 2);
  Bench bench(&stopwatch, nodes, queued, {}, /*told=*/true, queues);
  CAPSTAN_RETURN_IF_ERROR(bench.Start());
  Load(seconds, &bench);
  CAPSTAN_RETURN_IF_ERROR(bench.Check());
  return Summarise(
      absl::StrCat("scheduler.core_round_ms.nodes", nodes, ".queued", queued, ".queues",
                   queues.leaves, ".levels", queues.levels),
      InMilliseconds(bench.rounds()), "ms", "lower", 0,
      absl::StrCat("steps with a round; each second ", kRate, " Jobs end and ", kRate,
                   " are submitted; full nodes of 8 GPUs, Jobs of 1 to 128 GPUs in ", kShapes,
                   " shapes, ", InWords(queues), "; records made, not stored; ", bench.placed(),
                   " Jobs placed in ", seconds, " s"));
}

absl::StatusOr<std::vector<Figure>> BenchSteps(const Stopwatch& stopwatch, int nodes, int queued,
                                               const BenchObserver& observer) {
  const double seconds = SecondsOf(nodes, 4);
  Bench bench(&stopwatch, nodes, queued, observer);
  CAPSTAN_RETURN_IF_ERROR(bench.Start());
  Load(seconds, &bench);
  CAPSTAN_RETURN_IF_ERROR(bench.Check());
  const std::vector<double> steps = InMilliseconds(bench.steps());
  double busy = 0;
  for (double step : steps) busy += step / 1000;
  const std::string conditions = absl::StrCat(
      "each second ", kRate, " Jobs end and ", kRate, " are submitted; ", nodes,
      " full nodes of 8 GPUs, ", queued, " Jobs of 1 to 128 GPUs queued in ", kShapes, " shapes, ",
      bench_fleet::InWords({}), ", reservation and reasons on; records made, not stored; ",
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
