// What every TaskRuntime must do. Instantiate with
//   INSTANTIATE_TEST_SUITE_P(Name, TaskRuntimeConformanceTest, ::testing::Values(&MakeBench));
#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_CONFORMANCE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_CONFORMANCE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/task_runtime.h"
#include "services/node_agent/ports/task_runtime_bench.h"

namespace capstan::node_agent {

class TaskRuntimeConformanceTest
    : public ::testing::TestWithParam<std::unique_ptr<TaskRuntimeBench> (*)()> {
 protected:
  using ShimControl = capstan::nodeagent::v1::ShimControl;
  using ShimSpec = capstan::nodeagent::v1::ShimSpec;
  using ShimStatus = capstan::nodeagent::v1::ShimStatus;
  using TaskEnd = capstan::type::v1::TaskEnd;
  using TaskKey = capstan::type::v1::TaskKey;
  using Program = TaskRuntimeBench::Program;
  using Act = TaskRuntimeBench::Act;

  void SetUp() override {
    bench_ = GetParam()();
    if (bench_ == nullptr) GTEST_SKIP() << "this user cannot have such a machine";
    Listen();
  }

  void TearDown() override {
    if (bench_ == nullptr) return;
    for (const FoundTask& task : Discover()) {
      EXPECT_TRUE(Kill(task.key).ok());
      EXPECT_TRUE(Remove(task.key).ok());
    }
    EXPECT_TRUE(Discover().empty()) << "nothing is left behind";
    bench_.reset();
  }

  void Listen() {
    bench_->runtime().SetStatusCallback([this](const TaskKey& key, const ShimStatus& status) {
      statuses_[key.index()].push_back(status);
    });
  }

  static TaskKey Key(int index = 0) {
    TaskKey key;
    key.set_job_uid("0b5a7f2e-0000-4000-8000-000000000001");
    key.set_generation(2);
    key.set_group("workers");
    key.set_index(index);
    return key;
  }

  BootTime Now() { return bench_->strand().clock().Read().boot; }

  ShimSpec Spec(Program program, absl::Duration life = absl::Hours(1),
                absl::Duration grace = absl::Seconds(1), int index = 0) {
    ShimSpec spec;
    *spec.mutable_key() = Key(index);
    spec.set_deadline_boottime_ns((Now() + life).ToNanoseconds());
    spec.mutable_stop_grace()->set_seconds(absl::ToInt64Seconds(grace));
    spec.set_log_limit_bytes(1 << 20);
    bench_->Complete(program, &spec);
    return spec;
  }

  ShimControl Stop(absl::Duration grace) {
    ShimControl control;
    control.set_deadline_boottime_ns((Now() + absl::Hours(1)).ToNanoseconds());
    control.set_stop_boottime_ns(Now().ToNanoseconds());
    control.mutable_stop()->set_reason(capstan::type::v1::Stop::REASON_CANCELLED);
    control.mutable_stop()->mutable_grace()->set_seconds(absl::ToInt64Seconds(grace));
    return control;
  }

  template <typename Result>
  Result Await(std::function<void(TaskRuntime&, absl::AnyInvocable<void(Result)>)> call) {
    absl::optional<Result> result;
    bench_->strand().Post(
        [&] { call(bench_->runtime(), [&result](Result r) { result = std::move(r); }); });
    EXPECT_TRUE(bench_->RunUntil([&] { return result.has_value(); }));
    return result.has_value() ? *std::move(result) : Result(absl::DeadlineExceededError("test"));
  }
  absl::Status AwaitDone(std::function<void(TaskRuntime&, TaskRuntime::DoneCallback)> call) {
    return Await<absl::Status>(std::move(call));
  }

  absl::StatusOr<TaskPlace> MakePlace(int index = 0) {
    return Await<absl::StatusOr<TaskPlace>>([&](TaskRuntime& runtime, auto done) {
      capstan::type::v1::Resources limits;
      limits.set_cpu_millis(100);
      limits.set_memory_bytes(128 << 20);
      runtime.MakePlace(Key(index), limits, kUid, std::move(done));
    });
  }
  absl::Status Start(ShimSpec spec) {
    return AwaitDone(
        [&](TaskRuntime& runtime, auto done) { runtime.Start(spec, std::move(done)); });
  }
  absl::Status Control(const ShimControl& control, int index = 0) {
    return AwaitDone([&](TaskRuntime& runtime, auto done) {
      runtime.Control(Key(index), control, std::move(done));
    });
  }
  absl::Status Kill(const TaskKey& key) {
    return AwaitDone([&](TaskRuntime& runtime, auto done) { runtime.Kill(key, std::move(done)); });
  }
  absl::Status Remove(const TaskKey& key) {
    return AwaitDone(
        [&](TaskRuntime& runtime, auto done) { runtime.Remove(key, std::move(done)); });
  }
  std::vector<FoundTask> Discover() {
    auto found = Await<absl::StatusOr<std::vector<FoundTask>>>(
        [](TaskRuntime& runtime, auto done) { runtime.Discover(std::move(done)); });
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *std::move(found) : std::vector<FoundTask>();
  }

  // Makes the place and starts the program; the spec's cgroup is set from the place.
  absl::Status Run(ShimSpec spec) {
    absl::StatusOr<TaskPlace> place = MakePlace(spec.key().index());
    if (!place.ok()) return place.status();
    *spec.mutable_cgroup() = place->cgroup;
    return Start(std::move(spec));
  }

  bool UntilRunning(int index = 0) {
    return bench_->RunUntil([&] {
      return !statuses_[index].empty() && statuses_[index].back().task_pid() > 0 &&
             bench_->ProgramListens(Key(index));
    });
  }
  // The end that was told; CAUSE_UNSPECIFIED if there was none.
  TaskEnd UntilEnded(int index = 0) {
    EXPECT_TRUE(bench_->RunUntil(
        [&] { return !statuses_[index].empty() && statuses_[index].back().has_end(); }));
    return statuses_[index].empty() ? TaskEnd() : statuses_[index].back().end();
  }
  bool UntilShimDead(int index = 0) {
    return bench_->RunUntil(
        [&] { return !statuses_[index].empty() && statuses_[index].back().shim_pid() == 0; });
  }

  static constexpr int64_t kUid = 61234;

  std::unique_ptr<TaskRuntimeBench> bench_;
  // By index of the Task. Touched on the strand, and while it stands still.
  std::map<int, std::vector<ShimStatus>> statuses_;
};

TEST_P(TaskRuntimeConformanceTest, ReportsTheExitCode) {
  ASSERT_TRUE(Run(Spec(Program::kExitsWith3)).ok());
  const TaskEnd end = UntilEnded();
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(end.exit_code(), 3);
  EXPECT_FALSE(bench_->TaskLives(Key()));
  const ShimStatus& last = statuses_[0].back();
  EXPECT_GT(last.shim_pid(), 0);
  EXPECT_GT(last.task_pid(), 0);
  EXPECT_GT(last.start_boottime_ns(), 0);
  EXPECT_GE(last.end_boottime_ns(), last.start_boottime_ns());
}

TEST_P(TaskRuntimeConformanceTest, ReportsASignalFromOutside) {
  ASSERT_TRUE(Run(Spec(Program::kRunsUntilTerminated)).ok());
  ASSERT_TRUE(UntilRunning());
  bench_->CrashTask(Key());
  const TaskEnd end = UntilEnded();
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_SIGNALED);
  EXPECT_EQ(end.signal(), 11);
}

TEST_P(TaskRuntimeConformanceTest, ReportsAFailedExec) {
  ASSERT_TRUE(Run(Spec(Program::kCannotBeExecuted)).ok());
  const TaskEnd end = UntilEnded();
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXEC_FAILED);
  EXPECT_NE(end.message(), "");
}

TEST_P(TaskRuntimeConformanceTest, StartsOnceForEver) {
  const ShimSpec spec = Spec(Program::kExitsWith3);
  ASSERT_TRUE(Run(spec).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Start(spec)));
  UntilEnded();
  EXPECT_TRUE(absl::IsAlreadyExists(Start(spec))) << "an ended Task is not started again";
  bench_->RestartAgent();
  Listen();
  EXPECT_TRUE(absl::IsAlreadyExists(Start(spec))) << "nor by another agent";
}

TEST_P(TaskRuntimeConformanceTest, NeedsAPlaceFirst) {
  EXPECT_TRUE(absl::IsNotFound(Start(Spec(Program::kExitsWith3))));
  EXPECT_TRUE(absl::IsNotFound(Control(Stop(absl::Seconds(1)))));
  EXPECT_TRUE(Kill(Key()).ok()) << "what is not there is dead";
  EXPECT_TRUE(Remove(Key()).ok()) << "and gone";
}

TEST_P(TaskRuntimeConformanceTest, StopEndsATaskThatListens) {
  ASSERT_TRUE(Run(Spec(Program::kRunsUntilTerminated)).ok());
  ASSERT_TRUE(UntilRunning());
  const BootTime asked = Now();
  ASSERT_TRUE(Control(Stop(absl::Hours(1))).ok());
  EXPECT_EQ(UntilEnded().cause(), TaskEnd::CAUSE_STOPPED);
  EXPECT_LT(Now() - asked, absl::Minutes(10)) << "without waiting for the grace to end";
}

TEST_P(TaskRuntimeConformanceTest, StopKillsATaskThatDoesNotListen) {
  ASSERT_TRUE(Run(Spec(Program::kIgnoresTermination)).ok());
  ASSERT_TRUE(UntilRunning());
  const BootTime asked = Now();
  ASSERT_TRUE(Control(Stop(absl::Seconds(1))).ok());
  EXPECT_EQ(UntilEnded().cause(), TaskEnd::CAUSE_STOPPED);
  EXPECT_GE(Now() - asked, absl::Milliseconds(990)) << "the grace is given";
  EXPECT_FALSE(bench_->TaskLives(Key()));
}

TEST_P(TaskRuntimeConformanceTest, IsDeadByItsDeadlineWithoutAnyAgent) {
  const ShimSpec spec = Spec(Program::kIgnoresTermination, absl::Seconds(4), absl::Seconds(1));
  ASSERT_TRUE(Run(spec).ok());
  ASSERT_TRUE(UntilRunning());
  EXPECT_EQ(UntilEnded().cause(), TaskEnd::CAUSE_FENCED);
  EXPECT_GE(statuses_[0].back().end_boottime_ns(), spec.deadline_boottime_ns());
  EXPECT_FALSE(bench_->TaskLives(Key()));
}

TEST_P(TaskRuntimeConformanceTest, ARaisedDeadlineLetsItRunOn) {
  ASSERT_TRUE(Run(Spec(Program::kIgnoresTermination, absl::Seconds(5), absl::Seconds(1))).ok());
  ShimControl control;
  const BootTime raised = Now() + absl::Seconds(6);
  control.set_deadline_boottime_ns(raised.ToNanoseconds());
  ASSERT_TRUE(Control(control).ok());
  EXPECT_EQ(UntilEnded().cause(), TaskEnd::CAUSE_FENCED);
  EXPECT_GE(statuses_[0].back().end_boottime_ns(), raised.ToNanoseconds());
}

TEST_P(TaskRuntimeConformanceTest, TellsTheDeadlineThatTheShimKeeps) {
  const ShimSpec spec = Spec(Program::kRunsUntilTerminated);
  ASSERT_TRUE(Run(spec).ok());
  ASSERT_TRUE(UntilRunning());
  EXPECT_EQ(statuses_[0].back().deadline_boottime_ns(), spec.deadline_boottime_ns());
  ShimControl control;
  const int64_t raised =
      (BootTime::FromNanoseconds(spec.deadline_boottime_ns()) + absl::Seconds(60)).ToNanoseconds();
  control.set_deadline_boottime_ns(raised);
  ASSERT_TRUE(Control(control).ok());
  EXPECT_TRUE(
      bench_->RunUntil([&] { return statuses_[0].back().deadline_boottime_ns() == raised; }));
  bench_->ToShim(Key(), Act::kStop);
  control.set_deadline_boottime_ns(raised + 1);
  ASSERT_TRUE(Control(control).ok());
  EXPECT_EQ(Discover().at(0).status.deadline_boottime_ns(), raised)
      << "a stopped one keeps its own";
  bench_->ToShim(Key(), Act::kContinue);
  EXPECT_TRUE(
      bench_->RunUntil([&] { return statuses_[0].back().deadline_boottime_ns() == raised + 1; }));
}

TEST_P(TaskRuntimeConformanceTest, ADeadShimIsADeadTask) {
  ASSERT_TRUE(Run(Spec(Program::kIgnoresTermination)).ok());
  ASSERT_TRUE(UntilRunning());
  bench_->ToShim(Key(), Act::kKill);
  EXPECT_TRUE(UntilShimDead());
  EXPECT_FALSE(statuses_[0].back().has_end());
  EXPECT_TRUE(bench_->RunUntil([&] { return !bench_->TaskLives(Key()); }));
}

TEST_P(TaskRuntimeConformanceTest, KillEndsATaskWhoseShimIsStopped) {
  ASSERT_TRUE(Run(Spec(Program::kIgnoresTermination)).ok());
  ASSERT_TRUE(UntilRunning());
  bench_->ToShim(Key(), Act::kStop);
  EXPECT_TRUE(Kill(Key()).ok());
  EXPECT_FALSE(bench_->TaskLives(Key())) << "empty by the time of the answer";
  EXPECT_FALSE(statuses_[0].back().has_end());
  bench_->ToShim(Key(), Act::kContinue);
  EXPECT_EQ(UntilEnded().cause(), TaskEnd::CAUSE_FENCED);
}

TEST_P(TaskRuntimeConformanceTest, RemoveTakesAlsoAStoppedShim) {
  ASSERT_TRUE(Run(Spec(Program::kIgnoresTermination)).ok());
  ASSERT_TRUE(UntilRunning());
  EXPECT_TRUE(absl::IsFailedPrecondition(Remove(Key()))) << "not while a process is left";
  bench_->ToShim(Key(), Act::kStop);
  EXPECT_TRUE(Kill(Key()).ok());
  EXPECT_TRUE(Remove(Key()).ok());
  EXPECT_TRUE(Discover().empty());
}

TEST_P(TaskRuntimeConformanceTest, AKilledPlaceStartsNothing) {
  ASSERT_TRUE(MakePlace().ok());
  EXPECT_TRUE(Kill(Key()).ok());
  ShimSpec spec = Spec(Program::kIgnoresTermination);
  ASSERT_TRUE(Run(spec).ok());
  EXPECT_EQ(UntilEnded().cause(), TaskEnd::CAUSE_FENCED);
  EXPECT_FALSE(bench_->TaskLives(Key()));
}

TEST_P(TaskRuntimeConformanceTest, ANewAgentFindsWhatRunsAndWhatEnded) {
  ASSERT_TRUE(Run(Spec(Program::kRunsUntilTerminated, absl::Hours(1), absl::Seconds(1), 0)).ok());
  ASSERT_TRUE(Run(Spec(Program::kExitsWith3, absl::Hours(1), absl::Seconds(1), 1)).ok());
  ASSERT_TRUE(MakePlace(2).ok());
  ASSERT_TRUE(UntilRunning(0));
  UntilEnded(1);
  const int64_t pid = statuses_[0].back().task_pid();
  bench_->RestartAgent();
  Listen();
  // The shim's last word comes a moment before its end.
  ASSERT_TRUE(bench_->RunUntil([&] { return true; }));
  std::vector<FoundTask> found = Discover();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].key.index(), 0);
  EXPECT_TRUE(found[0].shim_alive);
  EXPECT_FALSE(found[0].cgroup_empty);
  EXPECT_EQ(found[0].status.task_pid(), pid);
  EXPECT_TRUE(found[1].has_spec);
  EXPECT_TRUE(found[1].cgroup_empty);
  EXPECT_EQ(found[1].status.end().exit_code(), 3);
  EXPECT_FALSE(found[2].has_spec);
  EXPECT_FALSE(found[2].shim_alive);
  statuses_.clear();
  ASSERT_TRUE(Control(Stop(absl::Seconds(5)), 0).ok());
  EXPECT_EQ(UntilEnded(0).cause(), TaskEnd::CAUSE_STOPPED) << "and hears of it from now on";
}

TEST_P(TaskRuntimeConformanceTest, AnAgentHearsOfAShimThatDiesAfterItsRestart) {
  ASSERT_TRUE(Run(Spec(Program::kIgnoresTermination)).ok());
  ASSERT_TRUE(UntilRunning());
  bench_->RestartAgent();
  Listen();
  ASSERT_EQ(Discover().size(), 1u);
  bench_->ToShim(Key(), Act::kKill);
  EXPECT_TRUE(UntilShimDead());
}

TEST_P(TaskRuntimeConformanceTest, PlacesAreMadeAgainWithoutHarm) {
  ASSERT_TRUE(Run(Spec(Program::kRunsUntilTerminated)).ok());
  ASSERT_TRUE(UntilRunning());
  EXPECT_TRUE(MakePlace().ok());
  EXPECT_TRUE(bench_->TaskLives(Key()));
}

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_CONFORMANCE_H_
