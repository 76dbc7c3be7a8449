#include "services/scheduler/bench_executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/scheduler/core/bench_fleet.h"

namespace capstan::scheduler {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::DesiredTasks;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

namespace {

constexpr absl::Duration kRenewEvery = absl::Seconds(1);

}  // namespace

class BenchExecutor::Sink final : public Engine::SessionSink {
 public:
  explicit Sink(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  absl::Status Send(const SessionDown& message) override {
    if (shared_->executor != nullptr && message.has_desired()) {
      shared_->executor->Take(message.desired());
    }
    return absl::OkStatus();
  }
  void Finish(const absl::Status& status) override { shared_->status = status; }

 private:
  const std::shared_ptr<Shared> shared_;
};

BenchExecutor::BenchExecutor(Strand* strand, Engine* engine) : strand_(strand), engine_(engine) {
  shared_->executor = this;
}

BenchExecutor::~BenchExecutor() {
  shared_->executor = nullptr;
  if (timer_ != 0) strand_->Cancel(timer_);
}

void BenchExecutor::Join(int nodes) {
  session_ = engine_->OpenSession(bench_fleet::kCluster, std::make_unique<Sink>(shared_));
  SessionUp hello;
  hello.mutable_hello()->set_cluster(bench_fleet::kCluster);
  hello.mutable_hello()->set_incarnation(1);
  engine_->SessionMessage(session_, std::move(hello));
  SessionUp first;
  first.mutable_observations()->set_sync_complete(true);
  for (int n = 0; n < nodes; ++n) {
    *first.mutable_observations()->add_nodes() = bench_fleet::NodeReport(n);
    TaskObservation& task = *first.mutable_observations()->add_tasks();
    task.mutable_key()->set_job_uid(absl::StrCat("uid-", n + 1));
    task.mutable_key()->set_generation(1);
    task.mutable_key()->set_group("w");
    task.set_node(bench_fleet::NodeReport(n).node());
    task.set_state(TaskObservation::STATE_RUNNING);
    held_[task.key().job_uid()] = {{task}, 1};
    running_.push_back(task.key().job_uid());
  }
  Report(std::move(first));
  Renew();
}

bool BenchExecutor::EndOne(Random* random) {
  if (running_.empty()) return false;
  const size_t at = random->Below(running_.size());
  const std::string uid = std::exchange(running_[at], running_.back());
  running_.pop_back();
  SessionUp ended;
  for (TaskObservation& task : held_[uid].tasks) {
    task.set_state(TaskObservation::STATE_ENDED);
    task.mutable_end()->set_cause(TaskEnd::CAUSE_EXITED);
    *ended.mutable_observations()->add_tasks() = std::move(task);
  }
  held_.erase(uid);
  Report(std::move(ended));
  return true;
}

void BenchExecutor::Take(const DesiredTasks& desired) {
  generations_.Told(desired);
  SessionUp report;
  for (const DesiredTask& wanted : desired.tasks()) {
    TaskObservation task;
    *task.mutable_key() = wanted.key();
    task.set_node(wanted.node());
    Held& held = held_[wanted.key().job_uid()];
    switch (wanted.phase()) {
      case DesiredTask::PHASE_PREPARE:
        task.set_state(TaskObservation::STATE_PREPARED);
        task.set_host("10.0.0.1");
        held.tasks.push_back(task);
        break;
      case DesiredTask::PHASE_START:
        // Of Jobs that it was told of as running it knows them all.
        if (held.tasks_running == static_cast<int>(held.tasks.size())) continue;
        task.set_state(TaskObservation::STATE_RUNNING);
        if (++held.tasks_running == static_cast<int>(held.tasks.size())) {
          running_.push_back(wanted.key().job_uid());
        }
        break;
      default:
        continue;
    }
    *report.mutable_observations()->add_tasks() = std::move(task);
  }
  if (report.observations().tasks().empty()) return;
  // Not from within the engine.
  strand_->Post([shared = shared_, report = std::move(report)]() mutable {
    if (shared->executor != nullptr) shared->executor->Report(std::move(report));
  });
}

void BenchExecutor::Renew() {
  SessionUp renewal;
  renewal.mutable_renewal()->set_sequence(++renewals_);
  engine_->SessionMessage(session_, std::move(renewal));
  timer_ = strand_->RunAfter(kRenewEvery, [this] { Renew(); });
}

void BenchExecutor::Report(SessionUp message) {
  generations_.Said(message.observations());
  message.mutable_observations()->set_journal_sequence(++journal_);
  engine_->SessionMessage(session_, std::move(message));
}

}  // namespace capstan::scheduler
