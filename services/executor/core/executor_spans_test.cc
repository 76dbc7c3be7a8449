// What the executor adds to the trace of an order that it passes on.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "services/executor/core/executor_bench.h"

namespace capstan::executor {
namespace {

const TaskId kA{"job", 1, "w", 0};
constexpr char kOrder[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

DesiredTask Traced(DesiredTask::Phase phase, const std::string& traceparent = kOrder) {
  DesiredTask task = Want(kA, "n1", phase);
  task.mutable_launch()->set_job("projects/p/jobs/j");
  task.mutable_launch()->set_traceparent(traceparent);
  return task;
}

// Of the last order that an agent was sent.
std::string Sent(const std::vector<Effect>& effects) {
  std::string found;
  for (const SendAgent& send : Of<SendAgent>(effects)) {
    for (const auto& task : send.message.desired().tasks()) found = task.launch().traceparent();
  }
  return found;
}

class ExecutorSpansTest : public testing::Test {
 protected:
  ExecutorSpansTest() {
    bench_.Apply(UpConnected{1});
    bench_.Desire(1, 5, {}, true);
    bench_.ConnectAgent(10, "n1");
  }

  Bench bench_;
};

TEST_F(ExecutorSpansTest, EachOrderIsASpanAndTheParentOfWhatTheAgentDoes) {
  const auto prepare = bench_.Desire(1, 5, {Traced(DesiredTask::PHASE_PREPARE)}, false);
  const auto start = bench_.Desire(1, 5, {Traced(DesiredTask::PHASE_START)}, false);
  const std::vector<TellSpan> first = Of<TellSpan>(prepare);
  const std::vector<TellSpan> second = Of<TellSpan>(start);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(first[0].span.name, "executor.order_prepare");
  EXPECT_EQ(second[0].span.name, "executor.order_start");
  for (const TellSpan& told : {first[0], second[0]}) {
    EXPECT_EQ(told.span.parent, trace::Parse(kOrder)->span);
    EXPECT_EQ(trace::TraceIdOf(told.span.context), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(told.span.begin, bench_.now_.wall);
  }
  EXPECT_EQ(Sent(prepare), trace::ToTraceparent(first[0].span.context));
  EXPECT_EQ(Sent(start), trace::ToTraceparent(second[0].span.context));
  // What is stopped stays where it was begun.
  const auto stop = bench_.Desire(1, 5, {Traced(DesiredTask::PHASE_STOP)}, false);
  EXPECT_TRUE(Of<TellSpan>(stop).empty());
  EXPECT_EQ(Sent(stop), Sent(start));
}

TEST_F(ExecutorSpansTest, AnOrderThatComesAgainIsTheSameOne) {
  bench_.Desire(1, 5, {Traced(DesiredTask::PHASE_PREPARE)}, false);
  const auto again = bench_.Desire(1, 5, {Traced(DesiredTask::PHASE_PREPARE)}, false);
  EXPECT_TRUE(Of<TellSpan>(again).empty());
  EXPECT_TRUE(Of<SendAgent>(again).empty());
}

TEST_F(ExecutorSpansTest, WhatIsNotRecordedIsCarriedOn) {
  std::string unsampled = kOrder;
  unsampled.back() = '0';
  const auto effects = bench_.Desire(1, 5, {Traced(DesiredTask::PHASE_PREPARE, unsampled)}, false);
  EXPECT_TRUE(Of<TellSpan>(effects).empty());
  ASSERT_TRUE(trace::Parse(Sent(effects)).has_value());
  EXPECT_FALSE(trace::Parse(Sent(effects))->sampled);
}

TEST_F(ExecutorSpansTest, AnOrderWithoutATraceIsPassedOnAsItIs) {
  const auto effects = bench_.Desire(1, 5, {Traced(DesiredTask::PHASE_PREPARE, "")}, false);
  EXPECT_TRUE(Of<TellSpan>(effects).empty());
  EXPECT_EQ(Sent(effects), "");
}

}  // namespace
}  // namespace capstan::executor
