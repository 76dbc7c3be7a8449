#include "services/node_agent/core/task_spans.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "services/node_agent/core/agent_bench.h"
#include "services/node_agent/core/agent_core.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using session::TaskId;
using TaskRecord = AgentCore::TaskRecord;

const TaskId kA{"job", 1, "w", 0};
constexpr char kPrepare[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01";
constexpr char kStart[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000002-01";

DesiredTask Traced(DesiredTask::Phase phase, const std::string& traceparent) {
  DesiredTask task = AgentBench::Want(kA, phase, /*output=*/false);
  task.mutable_launch()->set_traceparent(traceparent);
  return task;
}

TEST(TaskSpansTest, TheStagesOfATaskAreSpansBelowTheOrders) {
  AgentBench bench;
  bench.Connect();
  bench.Order({Traced(DesiredTask::PHASE_PREPARE, kPrepare)});
  bench.Advance(absl::Seconds(2));
  bench.AnswerAll();
  ASSERT_EQ(bench.Stage(kA), TaskRecord::STAGE_PREPARED);
  bench.Confirm();
  bench.Order({Traced(DesiredTask::PHASE_START, kStart)});
  bench.AnswerAll();
  bench.Shim(kA, 77);
  ASSERT_EQ(bench.Stage(kA), TaskRecord::STAGE_RUNNING);
  const absl::Time running = bench.now.wall;
  bench.Advance(absl::Seconds(5));
  // The agent is started anew meanwhile.
  bench.Restart(/*machine_stays=*/true);
  bench.ShimEnd(kA, TaskEnd::CAUSE_EXITED, 3);
  bench.AnswerAll();

  ASSERT_EQ(bench.spans.size(), 3u);
  const trace::Span& prepare = bench.spans[0];
  EXPECT_EQ(prepare.name, "task.prepare");
  EXPECT_EQ(prepare.parent, 1u);
  EXPECT_EQ(prepare.end - prepare.begin, absl::Seconds(2));
  EXPECT_FALSE(prepare.failed);
  EXPECT_EQ(bench.spans[1].name, "task.start");
  EXPECT_EQ(bench.spans[1].parent, 2u);
  const trace::Span& run = bench.spans[2];
  EXPECT_EQ(run.name, "task.run");
  EXPECT_EQ(run.parent, 2u);
  EXPECT_EQ(run.begin, running);
  EXPECT_EQ(run.end - run.begin, absl::Seconds(5));
  EXPECT_TRUE(run.failed);
  EXPECT_EQ(run.error, "CAUSE_EXITED");
  // What the Task was told to continue.
  EXPECT_EQ(*StageTrace(kA, Traced(DesiredTask::PHASE_START, kStart), TaskRecord::STAGE_RUNNING),
            run.context);
}

TEST(TaskSpansTest, NothingIsToldOfATaskThatNobodyWantsRecorded) {
  std::string unsampled = kPrepare;
  unsampled.back() = '0';
  for (const std::string& traceparent : {std::string(), unsampled}) {
    AgentBench bench;
    bench.Connect();
    bench.Order({Traced(DesiredTask::PHASE_PREPARE, traceparent)});
    bench.AnswerAll();
    ASSERT_EQ(bench.Stage(kA), TaskRecord::STAGE_PREPARED);
    EXPECT_TRUE(bench.spans.empty());
  }
}

}  // namespace
}  // namespace capstan::node_agent
