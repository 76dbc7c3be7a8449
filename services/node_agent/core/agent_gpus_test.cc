// Which GPUs the agent gives its Tasks.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/node_agent/core/agent_bench.h"
#include "services/node_agent/core/agent_core.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using session::TaskId;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using TaskRecord = AgentCore::TaskRecord;

constexpr char kH100[] = "nvidia.com/h100-80gb";
const TaskId kA{"job-a", 1, "w", 0};
const TaskId kB{"job-b", 1, "w", 0};

DesiredTask Wants(const TaskId& id, DesiredTask::Phase phase, int gpus,
                  const std::string& name = kH100) {
  DesiredTask task = AgentBench::Want(id, phase, false);
  (*task.mutable_launch()->mutable_resources()->mutable_accelerators())[name] = gpus;
  return task;
}

class AgentGpusTest : public testing::Test {
 protected:
  AgentGpusTest() {
    bench_.gpus = {{"GPU-0", kH100, 4}, {"GPU-1", kH100, 0}, {"GPU-2", kH100, 2}};
    bench_.chooses_gpus = true;
    bench_.namespaces = true;
    bench_.Restart(false);
    bench_.Connect();
  }

  void Prepare(const TaskId& id, int gpus) {
    bench_.Order({Wants(id, DesiredTask::PHASE_PREPARE, gpus)});
    bench_.AnswerAll();
  }
  void Start(const TaskId& id, int gpus) {
    bench_.Confirm();
    bench_.Order({Wants(id, DesiredTask::PHASE_START, gpus)});
    bench_.AnswerAll();
  }
  const TaskRecord& Record(const TaskId& id) { return bench_.core->tasks().at(id).record; }
  std::string Variable(const TaskId& id, const std::string& name) {
    for (const std::string& variable : bench_.specs[id].env()) {
      if (variable.rfind(name + "=", 0) == 0) return variable.substr(name.size() + 1);
    }
    return "absent";
  }

  AgentBench bench_;
};

TEST_F(AgentGpusTest, ATaskGetsTheFirstFreeOnesAndNoOther) {
  Prepare(kA, 2);
  ASSERT_EQ(bench_.Stage(kA), TaskRecord::STAGE_PREPARED);
  Start(kA, 2);
  EXPECT_EQ(Variable(kA, "CUDA_VISIBLE_DEVICES"), "GPU-0,GPU-1");
  EXPECT_EQ(Variable(kA, "NVIDIA_VISIBLE_DEVICES"), "GPU-0,GPU-1");
  EXPECT_THAT(bench_.specs[kA].gpus().minors(), ElementsAre(4, 0));
  Prepare(kB, 1);
  Start(kB, 1);
  EXPECT_EQ(Variable(kB, "CUDA_VISIBLE_DEVICES"), "GPU-2");
  EXPECT_THAT(bench_.specs[kB].gpus().minors(), ElementsAre(2));
}

TEST_F(AgentGpusTest, TheyStayATasksOverARestartAndUntilItsEndIsStored) {
  Prepare(kA, 2);
  bench_.Restart(true);
  bench_.Connect();
  EXPECT_THAT(Record(kA).gpus(), ElementsAre("GPU-0", "GPU-1"));
  Prepare(kB, 2);
  EXPECT_EQ(bench_.Stage(kB), TaskRecord::STAGE_PREPARING);
  EXPECT_THAT(Record(kB).progress(), HasSubstr("other Tasks still have nvidia.com/h100-80gb"));
  // However long it takes.
  for (int i = 0; i < 8; ++i) {
    bench_.Advance(absl::Minutes(1));
    bench_.Apply(Tick{});
    bench_.AnswerAll();
    ASSERT_EQ(bench_.Stage(kB), TaskRecord::STAGE_PREPARING);
  }
  bench_.Order({Wants(kA, DesiredTask::PHASE_STOP, 2)});
  bench_.AnswerAll();
  ASSERT_EQ(bench_.Stage(kA), TaskRecord::STAGE_ENDED);
  bench_.Advance(absl::Minutes(1));
  bench_.Apply(Tick{});
  bench_.AnswerAll();
  ASSERT_EQ(bench_.Stage(kB), TaskRecord::STAGE_PREPARED);
  EXPECT_THAT(Record(kB).gpus(), ElementsAre("GPU-0", "GPU-1"));
}

TEST_F(AgentGpusTest, TooFewFailsPrepare) {
  bench_.gpus.resize(1);
  Prepare(kA, 2);
  EXPECT_EQ(bench_.End(kA).cause(), TaskEnd::CAUSE_PREPARE_FAILED);
  EXPECT_THAT(bench_.End(kA).message(), HasSubstr("1 nvidia.com/h100-80gb without a fault"));
}

TEST_F(AgentGpusTest, ADriverThatIsAwayIsWaitedFor) {
  bench_.Order({Wants(kA, DesiredTask::PHASE_PREPARE, 1)});
  while (bench_.pending.front().name != "ListGpus") bench_.AnswerNext(absl::OkStatus());
  for (int i = 0; i < 8; ++i) {
    bench_.AnswerNext(absl::UnavailableError("the driver does not say"));
    ASSERT_EQ(bench_.Stage(kA), TaskRecord::STAGE_PREPARING);
    bench_.Advance(absl::Minutes(1));
    bench_.Apply(Tick{});
    ASSERT_FALSE(bench_.pending.empty());
  }
  bench_.AnswerAll();
  EXPECT_THAT(Record(kA).gpus(), ElementsAre("GPU-0"));
}

TEST_F(AgentGpusTest, AGpuWhoseDeviceFileIsNotKnownIsNotGiven) {
  bench_.gpus = {{"GPU-0", kH100}};
  Prepare(kA, 1);
  EXPECT_EQ(bench_.End(kA).cause(), TaskEnd::CAUSE_PREPARE_FAILED);
  EXPECT_THAT(bench_.End(kA).message(), HasSubstr("which device file GPU-0 has"));
}

TEST_F(AgentGpusTest, AMigInstanceIsGivenWithItsFiles) {
  DesiredTask task = AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false);
  task.mutable_launch()->mutable_mig_instance()->set_model("H100-80GB");
  task.mutable_launch()->mutable_mig_instance()->set_profile("1g.10gb");
  bench_.Order({task});
  bench_.AnswerAll();
  ASSERT_EQ(bench_.Stage(kA), TaskRecord::STAGE_PREPARED);
  EXPECT_THAT(Record(kA).gpu_files().minors(), ElementsAre(0));
  EXPECT_THAT(Record(kA).gpu_files().capabilities(), ElementsAre(30, 31));
  EXPECT_THAT(bench_.asked, Not(Contains("ListGpus")));
}

TEST_F(AgentGpusTest, ATaskWithoutGpusHasNone) {
  bench_.Order({AgentBench::Want(kA, DesiredTask::PHASE_PREPARE, false)});
  bench_.AnswerAll();
  bench_.Confirm();
  bench_.Order({AgentBench::Want(kA, DesiredTask::PHASE_START, false)});
  bench_.AnswerAll();
  EXPECT_THAT(bench_.asked, Not(Contains("ListGpus")));
  EXPECT_EQ(Variable(kA, "CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(Variable(kA, "NVIDIA_VISIBLE_DEVICES"), "void");
  EXPECT_FALSE(bench_.specs[kA].has_gpus());
}

TEST_F(AgentGpusTest, WithoutIsolationItFindsTheMachinesOwnFiles) {
  bench_.namespaces = false;
  bench_.Restart(false);
  bench_.Connect();
  Prepare(kA, 1);
  Start(kA, 1);
  EXPECT_EQ(Variable(kA, "CUDA_VISIBLE_DEVICES"), "GPU-0");
  EXPECT_FALSE(bench_.specs[kA].has_gpus());
}

TEST_F(AgentGpusTest, DeclaredOnesAreOnlyCounted) {
  bench_.chooses_gpus = false;
  bench_.Restart(false);
  bench_.Connect();
  Prepare(kA, 2);
  Start(kA, 2);
  EXPECT_THAT(bench_.asked, Not(Contains("ListGpus")));
  EXPECT_EQ(Variable(kA, "CUDA_VISIBLE_DEVICES"), "absent") << "it is the Job's to say";
  EXPECT_FALSE(bench_.specs[kA].has_gpus());
}

TEST_F(AgentGpusTest, OtherDevicesBesideThoseThatAreFoundAreOnlyCounted) {
  bench_.Order({Wants(kA, DesiredTask::PHASE_PREPARE, 1, "example.com/fpga")});
  bench_.AnswerAll();
  EXPECT_EQ(bench_.Stage(kA), TaskRecord::STAGE_PREPARED);
  EXPECT_THAT(bench_.asked, Not(Contains("ListGpus")));
  EXPECT_THAT(Record(kA).gpus(), IsEmpty());
}

TEST_F(AgentGpusTest, WhatATaskWithoutARecordHasIsNobodysYet) {
  Prepare(kA, 1);
  Start(kA, 1);
  bench_.Shim(kA, 77);
  // The store is lost, and what runs is found.
  bench_.store.clear();
  bench_.confirmed_truth.reset();
  bench_.Restart(true);
  bench_.Connect();
  Prepare(kB, 1);
  ASSERT_EQ(bench_.Stage(kB), TaskRecord::STAGE_PREPARING);
  EXPECT_THAT(Record(kB).progress(), HasSubstr("of which the Node has no record"));
  bench_.Order({Wants(kB, DesiredTask::PHASE_PREPARE, 1)}, true, true);
  bench_.AnswerAll();
  bench_.Advance(absl::Minutes(1));
  bench_.Apply(Tick{});
  bench_.AnswerAll();
  EXPECT_EQ(bench_.Stage(kB), TaskRecord::STAGE_PREPARED);
}

}  // namespace
}  // namespace capstan::node_agent
