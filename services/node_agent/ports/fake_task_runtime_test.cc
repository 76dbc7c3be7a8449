#include "services/node_agent/ports/fake_task_runtime.h"

#include <signal.h>

#include <memory>

#include "gtest/gtest.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/ports/task_runtime_bench.h"
#include "services/node_agent/ports/task_runtime_conformance.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using capstan::type::v1::TaskKey;

class FakeBench final : public TaskRuntimeBench {
 public:
  FakeBench() : strand_(&clock_), machine_(&strand_) {
    machine_.SetPrograms([](const ShimSpec& spec) {
      FakeProgram program;
      if (spec.argv(0) == "exits") {
        program.duration = absl::Seconds(1);
        program.exit_code = 3;
      } else if (spec.argv(0) == "ignores") {
        program.termination = absl::InfiniteDuration();
      } else if (spec.argv(0) == "absent") {
        program.exec_error = "no such program";
      }
      return program;
    });
    runtime_ = std::make_unique<FakeTaskRuntime>(&machine_, &strand_);
  }

  TaskRuntime& runtime() override { return *runtime_; }
  Strand& strand() override { return strand_; }
  void RestartAgent() override {
    runtime_.reset();
    runtime_ = std::make_unique<FakeTaskRuntime>(&machine_, &strand_);
  }
  bool RunUntil(std::function<bool()> condition) override {
    strand_.RunReady();
    while (!condition()) {
      if (!strand_.RunNext()) return false;
    }
    return true;
  }
  void Complete(Program program, ShimSpec* spec) override {
    switch (program) {
      case Program::kExitsWith3:
        spec->add_argv("exits");
        break;
      case Program::kRunsUntilTerminated:
        spec->add_argv("runs");
        break;
      case Program::kIgnoresTermination:
        spec->add_argv("ignores");
        break;
      case Program::kCannotBeExecuted:
        spec->add_argv("absent");
        break;
    }
  }
  void ToShim(const TaskKey& key, Act act) override {
    if (act == Act::kKill) machine_.KillShim(key);
    if (act == Act::kStop) machine_.StopShim(key);
    if (act == Act::kContinue) machine_.ContinueShim(key);
  }
  void CrashTask(const TaskKey& key) override { machine_.SignalTask(key, SIGSEGV); }
  bool ProgramListens(const TaskKey&) override { return true; }
  bool TaskLives(const TaskKey& key) override {
    for (const TaskKey& running : machine_.Running()) {
      if (running.SerializeAsString() == key.SerializeAsString()) return true;
    }
    return false;
  }

 private:
  SimulatedClock clock_;
  SimulatedStrand strand_;
  FakeTaskMachine machine_;
  std::unique_ptr<FakeTaskRuntime> runtime_;
};

std::unique_ptr<TaskRuntimeBench> MakeBench() { return std::make_unique<FakeBench>(); }

INSTANTIATE_TEST_SUITE_P(Fake, TaskRuntimeConformanceTest, ::testing::Values(&MakeBench));

}  // namespace
}  // namespace capstan::node_agent
