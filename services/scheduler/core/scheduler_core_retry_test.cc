// What follows a generation that has failed: rules by kind of end, and waits that grow while gangs
// end the same way.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::RetryRule;
using capstan::type::v1::TaskEnd;

class SchedulerCoreRetryTest : public SchedulerCoreTest {
 protected:
  void SetUp() override {
    executor_.Connect();
    spec_ = CoreHarness::Spec(1, 1000);
    spec_.mutable_retry()->set_max_restarts(2);
    *spec_.mutable_retry()->mutable_initial_back_off() = ToProto(absl::Seconds(1));
    *spec_.mutable_retry()->mutable_max_back_off() = ToProto(absl::Seconds(10));
  }
  RetryRule& AddRule(RetryRule::Action action) {
    RetryRule& rule = *spec_.mutable_retry()->add_rules();
    rule.set_action(action);
    return rule;
  }
  // Ends the generation that runs; how long the next one waits, absent if none comes.
  absl::optional<absl::Duration> EndAndWait(TaskEnd::Cause cause, int exit_code = 0) {
    executor_.PrepareAll();
    executor_.RunAll();
    EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
    const int64_t generation = harness_.job("a").state.generation();
    executor_.End(absl::StrCat("a/", generation, "/worker-0"), cause, exit_code);
    if (harness_.job("a").final()) return absl::nullopt;
    const absl::Duration wait = ToDuration(harness_.job("a").state.back_off());
    AdvanceHeard(wait);
    EXPECT_EQ(harness_.job("a").state.generation(), generation + 1);
    return wait;
  }
  int counted() { return harness_.job("a").state.counted_restarts(); }

  JobSpec spec_;
};

TEST_F(SchedulerCoreRetryTest, ARuleLetsAJobFailAtOnce) {
  AddRule(RetryRule::ACTION_FAIL).add_exit_codes(2);
  AddRule(RetryRule::ACTION_RESTART_UNCOUNTED).add_exit_codes(2);
  Submit("a", spec_);
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 2), absl::nullopt);
  EXPECT_EQ(StateOf("a"), Job::STATE_FAILED);
  EXPECT_EQ(ReasonOf("a"), "RETRY_RULE");
  EXPECT_EQ(harness_.job("a").state.message(),
            "task worker-0 exited with code 2; a rule of its retry policy lets it fail");
}

TEST_F(SchedulerCoreRetryTest, ARuleLetsARestartNotCountButWaitLonger) {
  AddRule(RetryRule::ACTION_RESTART_UNCOUNTED).add_exit_codes(75);
  Submit("a", spec_);
  for (const int seconds : {1, 2, 4, 8, 10, 10}) {
    EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 75), absl::Seconds(seconds));
  }
  EXPECT_EQ(counted(), 0);
  // Where no rule fits restarts count.
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(1));
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(2));
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::nullopt);
  EXPECT_EQ(ReasonOf("a"), "TASK_FAILED");
}

TEST_F(SchedulerCoreRetryTest, RulesGoByCauseToo) {
  AddRule(RetryRule::ACTION_FAIL).add_causes(TaskEnd::CAUSE_OUT_OF_MEMORY);
  Submit("a", spec_);
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(1));
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_OUT_OF_MEMORY), absl::nullopt);
  EXPECT_EQ(ReasonOf("a"), "RETRY_RULE");
}

TEST_F(SchedulerCoreRetryTest, RulesGoBySignal) {
  RetryRule& rule = AddRule(RetryRule::ACTION_FAIL);
  rule.add_signals(11);
  rule.add_signals(9);
  Submit("a", spec_);
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_SIGNALED, 9), absl::nullopt);
  EXPECT_EQ(ReasonOf("a"), "RETRY_RULE");
}

TEST_F(SchedulerCoreRetryTest, NoRuleIsAskedAboutWhatThePlatformDid) {
  for (const int code : {1, 98}) AddRule(RetryRule::ACTION_FAIL).add_exit_codes(code);
  Submit("a", spec_);
  for (const TaskEnd::Cause cause :
       {TaskEnd::CAUSE_LOST, TaskEnd::CAUSE_FENCED, TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN}) {
    EXPECT_TRUE(EndAndWait(cause).has_value()) << cause;
  }
  EXPECT_TRUE(EndAndWait(TaskEnd::CAUSE_EXITED, 98).has_value());
  EXPECT_EQ(counted(), 0);
}

TEST_F(SchedulerCoreRetryTest, AnotherKindOfEndAndALongRunBeginAnew) {
  spec_.mutable_retry()->set_max_restarts(20);
  Submit("a", spec_);
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(1));
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(2));
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 2), absl::Seconds(1));
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(1));
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(2));
  executor_.PrepareAll();
  executor_.RunAll();
  AdvanceHeard(absl::Minutes(2));
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(1));
  EXPECT_EQ(counted(), 6);
}

TEST_F(SchedulerCoreRetryTest, ARuleKeepsTheJobOffTheNodeForATime) {
  RetryRule& rule = AddRule(RetryRule::ACTION_RESTART_UNCOUNTED);
  rule.add_signals(7);
  *rule.mutable_avoid_node_for() = ToProto(absl::Minutes(10));
  Submit("a", spec_);
  const std::string first = harness_.job("a").gang->nodes[0];
  EXPECT_TRUE(EndAndWait(TaskEnd::CAUSE_SIGNALED, 7).has_value());
  const std::string second = harness_.job("a").gang->nodes[0];
  EXPECT_NE(second, first);
  // Others still come to it.
  Submit("large", CoreHarness::Spec(1, 4000));
  EXPECT_EQ(harness_.job("large").gang->nodes[0], first);
  // With both avoided it waits, says so, over a new leader, and until the first time is over.
  EXPECT_EQ(harness_.job("a").state.state(), Job::STATE_PREPARING);
  executor_.PrepareAll();
  executor_.RunAll();
  executor_.End("large/1/worker-0", TaskEnd::CAUSE_EXITED, 0);
  executor_.End("a/2/worker-0", TaskEnd::CAUSE_SIGNALED, 7);
  AdvanceHeard(absl::Seconds(30));
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("a"), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(harness_.job("a").state.message(),
            "2 of 2 nodes failed Tasks of the Job, which stays off them for a time");
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  AdvanceHeard(absl::Minutes(10) - absl::Seconds(40));
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  AdvanceHeard(absl::Seconds(20));
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job("a").gang->nodes[0], first);
}

// Where the wall clock stands a part of a nanosecond before the time, nobody waits for no time at all,
// again and again.
TEST_F(SchedulerCoreRetryTest, TheTimeOffANodeEndsBetweenTwoNanoseconds) {
  RetryRule& rule = AddRule(RetryRule::ACTION_RESTART_UNCOUNTED);
  rule.add_signals(7);
  *rule.mutable_avoid_node_for() = ToProto(absl::Minutes(10));
  Submit("a", spec_);
  EXPECT_TRUE(EndAndWait(TaskEnd::CAUSE_SIGNALED, 7).has_value());
  ASSERT_EQ(harness_.job("a").state.avoided_nodes_size(), 1);
  harness_.StepWallClock(-absl::Nanoseconds(0.25));
  AdvanceHeard(absl::Minutes(10));
  EXPECT_EQ(harness_.job("a").state.avoided_nodes_size(), 0);
}

// What is counted is stored: a new leader goes on with it.
TEST_F(SchedulerCoreRetryTest, ANewLeaderKnowsTheStreak) {
  Submit("a", spec_);
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(1));
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(EndAndWait(TaskEnd::CAUSE_EXITED, 1), absl::Seconds(2));
}

}  // namespace
}  // namespace capstan::scheduler
