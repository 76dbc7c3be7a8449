#include "services/node_agent/engine.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "libs/log/testing_sink.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/ports/fake_gpu_devices.h"
#include "services/node_agent/ports/fake_ports.h"
#include "services/node_agent/ports/fake_task_runtime.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;
using session::TaskId;

// An executor that answers every renewal with `age` while `answers`.
class FakeExecutor final : public session::UpDialer {
 public:
  explicit FakeExecutor(Strand* strand) : strand_(strand) {}

  std::shared_ptr<session::UpChannel> Open(session::UpCallbacks callbacks) override {
    callbacks_ = std::make_shared<session::UpCallbacks>(std::move(callbacks));
    ++sessions;
    return std::make_shared<Channel>(this, callbacks_);
  }

  void Order(const DesiredTask& task) {
    SessionDown down;
    down.mutable_desired()->mutable_token()->set_store_incarnation(1);
    down.mutable_desired()->set_revision(++revision_);
    *down.mutable_desired()->add_tasks() = task;
    Send(down);
  }
  void Forget(const TaskId& id) {
    SessionDown down;
    down.mutable_desired()->mutable_token()->set_store_incarnation(1);
    *down.mutable_desired()->add_forgotten() = id.ToProto();
    Send(down);
  }
  void Break() {
    strand_->Post([callbacks = callbacks_] {
      callbacks->on_closed(absl::UnavailableError("executor is gone"));
    });
  }

  TaskObservation Last(const TaskId& id) const {
    const auto it = seen.find(id);
    return it == seen.end() ? TaskObservation() : it->second;
  }

  bool answers = true;
  int sessions = 0;
  std::map<TaskId, TaskObservation> seen;
  std::set<TaskId> gone;
  std::vector<capstan::type::v1::NodeObservation> nodes;

 private:
  class Channel final : public session::UpChannel {
   public:
    Channel(FakeExecutor* executor, std::shared_ptr<session::UpCallbacks> callbacks)
        : executor_(executor), callbacks_(std::move(callbacks)) {}
    absl::Status Send(SessionUp message) override {
      executor_->Receive(message);
      return absl::OkStatus();
    }
    void Finish(const absl::Status& status) override {
      executor_->strand_->Post([callbacks = callbacks_, status] { callbacks->on_closed(status); });
    }

   private:
    FakeExecutor* const executor_;
    const std::shared_ptr<session::UpCallbacks> callbacks_;
  };

  void Receive(const SessionUp& message) {
    for (const auto& task : message.observations().tasks()) seen[TaskId::Of(task.key())] = task;
    for (const auto& key : message.observations().gone()) gone.insert(TaskId::Of(key));
    for (const auto& node : message.observations().nodes()) nodes.push_back(node);
    if (message.has_renewal() && answers) {
      SessionDown down;
      down.mutable_renewal_answer()->set_sequence(message.renewal().sequence());
      down.mutable_renewal_answer()->mutable_token()->set_store_incarnation(1);
      Send(down);
    }
  }
  void Send(const SessionDown& down) {
    strand_->Post([callbacks = callbacks_, down] { callbacks->on_message(down); });
  }

  Strand* const strand_;
  std::shared_ptr<session::UpCallbacks> callbacks_;
  int64_t revision_ = 0;
};

const TaskId kA{"job", 1, "w", 0};

DesiredTask Want(DesiredTask::Phase phase) {
  DesiredTask task;
  *task.mutable_key() = kA.ToProto();
  task.set_node("n1");
  task.set_phase(phase);
  auto* launch = task.mutable_launch();
  launch->add_argv("/bin/true");
  launch->add_ports("master");
  launch->set_job("projects/p/jobs/j");
  launch->set_output("projects/p/jobs/j/output");
  launch->mutable_fence_after()->set_seconds(60);
  launch->mutable_stop_grace()->set_seconds(5);
  task.mutable_rendezvous()->set_world_size(1);
  if (phase == DesiredTask::PHASE_STOP) task.mutable_stop()->mutable_grace()->set_seconds(5);
  return task;
}

class EngineTest : public testing::Test {
 protected:
  EngineTest()
      : strand_(&clock_),
        disk_(std::make_shared<store::MemoryImage>()),
        machine_(&strand_),
        executor_(&strand_),
        data_(&strand_),
        workspace_(&strand_),
        identity_(&strand_),
        mig_(&strand_),
        gpus_(&strand_),
        logs_(&strand_),
        probe_(&strand_, Node()),
        logger_("test", &clock_, &sink_) {
    StartAgent();
  }
  ~EngineTest() override { CrashAgent(); }

  static capstan::type::v1::NodeObservation Node() {
    capstan::type::v1::NodeObservation node;
    node.set_node("n1");
    return node;
  }

  void StartAgent() {
    store_ = std::make_unique<store::MemoryStore>(&strand_, disk_);
    runtime_ = std::make_unique<FakeTaskRuntime>(&machine_, &strand_);
    sockets_ = std::make_unique<FakeTaskSockets>();
    Engine::Options options;
    options.core.cluster = "c1";
    options.core.node = "n1";
    options.core.host = "10.0.0.1";
    options.core.boot_id = "boot-1";
    options.core.chooses_gpus = true;
    options.core.isolation.namespaces = true;
    engine_ = std::make_unique<Engine>(options,
                                       Engine::Deps{.strand = &strand_,
                                                    .files = &strand_,
                                                    .store = store_.get(),
                                                    .executor = &executor_,
                                                    .runtime = runtime_.get(),
                                                    .data = &data_,
                                                    .workspace = &workspace_,
                                                    .identity = &identity_,
                                                    .mig = &mig_,
                                                    .gpus = &gpus_,
                                                    .ports = &ports_,
                                                    .sockets = sockets_.get(),
                                                    .logs = &logs_,
                                                    .probe = &probe_,
                                                    .logger = &logger_,
                                                    .registry = nullptr},
                                       Random(1));
    engine_->Start(nullptr);
    strand_.RunReady();
  }
  void CrashAgent() {
    store_->Crash();
    engine_.reset();
    runtime_.reset();
    sockets_.reset();
    store_.reset();
  }
  void Run() {
    DesiredTask order = Want(DesiredTask::PHASE_PREPARE);
    if (with_identity_) order.mutable_launch()->set_service_account("projects/p/serviceAccounts/a");
    executor_.Order(order);
    strand_.RunReady();
    ASSERT_EQ(executor_.Last(kA).state(), TaskObservation::STATE_PREPARED);
    order.set_phase(DesiredTask::PHASE_START);
    executor_.Order(order);
    strand_.RunReady();
    ASSERT_EQ(executor_.Last(kA).state(), TaskObservation::STATE_RUNNING);
  }

  bool with_identity_ = false;
  SimulatedClock clock_;
  SimulatedStrand strand_;
  std::shared_ptr<store::MemoryImage> disk_;
  FakeTaskMachine machine_;
  FakeExecutor executor_;
  FakeDataAccess data_;
  FakeWorkspace workspace_;
  FakeTaskIdentity identity_;
  FakeMigDevices mig_;
  FakeGpuDevices gpus_;
  FakePortProbe ports_;
  FakeLogSink logs_;
  FakeNodeProbe probe_;
  log::TestingSink sink_;
  log::Logger logger_;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<FakeTaskRuntime> runtime_;
  std::unique_ptr<FakeTaskSockets> sockets_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, RunsATaskFromPrepareToItsCommittedEnd) {
  machine_.SetPrograms([](const auto&) { return FakeProgram{.duration = absl::Seconds(20)}; });
  Run();
  EXPECT_EQ(executor_.nodes.size(), 1u);
  EXPECT_EQ(sockets_->served.size(), 1u);
  strand_.Advance(absl::Seconds(21));
  EXPECT_EQ(executor_.Last(kA).end().cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(data_.calls, (std::vector<std::string>{"open job/1", "final /site/job/1/w-0"}));
  EXPECT_TRUE(sockets_->served.empty());
  executor_.Forget(kA);
  strand_.Advance(absl::Seconds(5));
  EXPECT_EQ(executor_.gone.count(kA), 1u);
  EXPECT_TRUE(machine_.Places().empty());
  EXPECT_EQ(workspace_.discarded, (std::vector<std::string>{"/site/job/1/w-0"}));
}

TEST_F(EngineTest, MakesTheMigInstanceOfATaskAndRemovesItBeforeItTellsOfTheEnd) {
  DesiredTask order = Want(DesiredTask::PHASE_PREPARE);
  auto& instance = *order.mutable_launch()->mutable_mig_instance();
  instance.set_gpu(1);
  instance.set_model("H100-80GB");
  instance.set_profile("3g.40gb");
  instance.set_start(4);
  executor_.Order(order);
  strand_.RunReady();
  ASSERT_EQ(executor_.Last(kA).state(), TaskObservation::STATE_PREPARED);
  EXPECT_EQ(mig_.made["1/4"], "MIG-1/4/3g.40gb");
  EXPECT_EQ(gpus_.asked_for, std::vector<std::string>{"MIG-1/4/3g.40gb"});
  // An agent that comes back makes it no second time.
  CrashAgent();
  StartAgent();
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(mig_.makes, 1);
  mig_.failure = absl::UnavailableError("the driver is busy");
  order.set_phase(DesiredTask::PHASE_STOP);
  order.mutable_stop()->mutable_grace()->set_seconds(5);
  executor_.Order(order);
  strand_.Advance(absl::Seconds(10));
  EXPECT_NE(executor_.Last(kA).state(), TaskObservation::STATE_ENDED);
  mig_.failure = absl::OkStatus();
  strand_.Advance(absl::Minutes(2));
  EXPECT_EQ(executor_.Last(kA).state(), TaskObservation::STATE_ENDED);
  EXPECT_TRUE(mig_.made.empty());
}

TEST_F(EngineTest, GivesATaskWholeGpusAndKeepsThemOverACrash) {
  gpus_.gpus = {{"GPU-0", "nvidia.com/l4-23gb", 0}, {"GPU-1", "nvidia.com/h100-80gb", 1}};
  DesiredTask order = Want(DesiredTask::PHASE_PREPARE);
  (*order.mutable_launch()->mutable_resources()->mutable_accelerators())["nvidia.com/h100-80gb"] =
      1;
  gpus_.failure = absl::UnavailableError("the driver does not answer");
  executor_.Order(order);
  strand_.RunReady();
  EXPECT_EQ(executor_.Last(kA).state(), TaskObservation::STATE_PREPARING);
  gpus_.failure = absl::OkStatus();
  strand_.Advance(absl::Seconds(5));
  ASSERT_EQ(executor_.Last(kA).state(), TaskObservation::STATE_PREPARED);
  CrashAgent();
  gpus_.gpus.clear();
  StartAgent();
  strand_.Advance(absl::Seconds(1));
  const auto& record = engine_->core()->tasks().at(kA).record;
  EXPECT_EQ(record.gpus_size(), 1);
  EXPECT_EQ(record.gpus(0), "GPU-1");
  EXPECT_EQ(record.gpu_files().minors(0), 1);
}

TEST_F(EngineTest, CrashedAgentAdoptsWhatRunsAndStartsNothingAgain) {
  Run();
  CrashAgent();
  strand_.Advance(absl::Seconds(10));
  EXPECT_EQ(machine_.Running().size(), 1u);
  StartAgent();
  strand_.Advance(absl::Minutes(5));
  EXPECT_EQ(machine_.Running().size(), 1u);
  EXPECT_EQ(machine_.Starts(kA.ToProto()), 1);
  EXPECT_EQ(sockets_->served.size(), 1u);
  executor_.Order(Want(DesiredTask::PHASE_STOP));
  strand_.Advance(absl::Seconds(6));
  EXPECT_EQ(executor_.Last(kA).end().cause(), TaskEnd::CAUSE_STOPPED);
}

TEST_F(EngineTest, KeepsTheIdentityOfWhatRunsAlsoAfterARestartAndNoLonger) {
  with_identity_ = true;
  identity_.life = absl::Minutes(6);
  machine_.SetPrograms([](const auto&) { return FakeProgram{.duration = absl::Minutes(7)}; });
  Run();
  EXPECT_EQ(identity_.issues.size(), 1u);
  strand_.Advance(absl::Seconds(160));
  EXPECT_EQ(identity_.issues.size(), 2u);
  CrashAgent();
  strand_.Advance(absl::Seconds(10));
  StartAgent();
  strand_.Advance(absl::Seconds(160));
  EXPECT_EQ(identity_.issues.size(), 3u);
  strand_.Advance(absl::Minutes(2));
  EXPECT_EQ(executor_.Last(kA).end().cause(), TaskEnd::CAUSE_EXITED);
  const size_t at_end = identity_.issues.size();
  strand_.Advance(absl::Minutes(5));
  EXPECT_EQ(identity_.issues.size(), at_end);
}

TEST_F(EngineTest, TaskEndsBeforeFenceAfterWithoutConfirmation) {
  Run();
  const BootTime last = *engine_->core()->confirmed_at();
  executor_.answers = false;
  strand_.Advance(absl::Seconds(58) - (clock_.Read().boot - last));
  EXPECT_EQ(machine_.Running().size(), 0u);  // grace taken from the front of the deadline
  strand_.Advance(absl::Seconds(3));
  EXPECT_EQ(executor_.Last(kA).end().cause(), TaskEnd::CAUSE_FENCED);
}

TEST_F(EngineTest, StoppedShimDoesNotMatter) {
  machine_.SetPrograms(
      [](const auto&) { return FakeProgram{.termination = absl::InfiniteDuration()}; });
  Run();
  machine_.StopShim(kA.ToProto());
  const BootTime last = *engine_->core()->confirmed_at();
  executor_.answers = false;
  strand_.Advance(absl::Seconds(60) - (clock_.Read().boot - last));
  EXPECT_EQ(machine_.Running().size(), 0u);
  EXPECT_EQ(executor_.Last(kA).end().cause(), TaskEnd::CAUSE_FENCED);
}

TEST_F(EngineTest, OutageOfTheExecutorShorterThanFenceAfterStopsNothing) {
  Run();
  for (int i = 0; i < 5; ++i) {
    executor_.Break();
    executor_.answers = false;
    strand_.Advance(absl::Seconds(40));
    executor_.answers = true;
    strand_.Advance(absl::Seconds(5));
  }
  EXPECT_EQ(machine_.Running().size(), 1u);
  EXPECT_GE(executor_.sessions, 6);
}

TEST_F(EngineTest, FailedCommitReadsTheStoreAgainAndGoesOn) {
  Run();
  store_->FailNextTxnAfterCommit(absl::UnavailableError("disk"));
  executor_.Order(Want(DesiredTask::PHASE_STOP));
  strand_.Advance(absl::Seconds(20));
  EXPECT_EQ(executor_.Last(kA).end().cause(), TaskEnd::CAUSE_STOPPED);
  EXPECT_EQ(machine_.Starts(kA.ToProto()), 1);
}

TEST_F(EngineTest, CheckpointIsAnsweredOnlyOnceCommitted) {
  Run();
  std::vector<std::string> answers;
  const auto answer = [&answers](absl::StatusOr<std::string> digest) {
    answers.push_back(digest.ok() ? *digest : std::string(digest.status().message()));
  };
  sockets_->Ask(kA, "ckpt", 3, answer);
  EXPECT_TRUE(answers.empty());
  strand_.RunReady();
  EXPECT_EQ(answers, (std::vector<std::string>{"sha256:00"}));
  EXPECT_EQ(data_.calls.back(), "checkpoint /site/job/1/w-0/ckpt");
  data_.generations["projects/p/jobs/j/output"] = 2;
  sockets_->Ask(kA, "ckpt", 4, answer);
  strand_.RunReady();
  EXPECT_EQ(answers.back(), "a higher generation is open");
}

TEST_F(EngineTest, StopTasksLeavesNothing) {
  Run();
  bool done = false;
  engine_->StopTasks([&done] { done = true; });
  strand_.Advance(absl::Seconds(10));
  EXPECT_TRUE(done);
  EXPECT_TRUE(machine_.Running().empty());
  EXPECT_TRUE(machine_.Places().empty());
  EXPECT_EQ(executor_.Last(kA).end().cause(), TaskEnd::CAUSE_STOPPED);
  EXPECT_EQ(executor_.nodes.back().limitations(0),
            capstan::type::v1::NodeObservation::LIMITATION_DRAINING);
}

TEST_F(EngineTest, StopTasksOfAnIdleNodeIsDoneAtOnce) {
  bool done = false;
  engine_->StopTasks([&done] { done = true; });
  strand_.RunReady();
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace capstan::node_agent
