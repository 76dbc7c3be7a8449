// Elastic Jobs that grow while they run: when, into what, and that nothing of it is lost or taken
// from others on the way.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/elastic_test_fixture.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;
using rec::GangHeadRecord;

class SchedulerCoreGrowthTest : public ElasticTest {
 protected:
  static JobSpec Growing(int least, int most) {
    JobSpec spec = Elastic(least, most);
    *spec.mutable_checkpoint_period() = ToProto(absl::Minutes(1));
    *spec.mutable_grow_after() = ToProto(absl::Minutes(10));
    return spec;
  }
  // It runs with five Tasks and three cores beside it have become free.
  void RunFiveOfEight(JobSpec spec = Growing(2, 8)) {
    RunJob("before", CoreHarness::Spec(3, 1000));
    RunJob("elastic", std::move(spec));
    ASSERT_EQ(SizeNow("elastic"), 5);
    Cancel("before");
  }
  // Up to the step in which it is told to grow. What that tells others comes to nobody.
  void AdvanceToGrowth() {
    AdvanceHeard(absl::Minutes(10) + absl::Seconds(50));
    for (int i = 0; i < 30 && harness_.job("elastic").gang->head.stop_reason() == 0; ++i) {
      executor_.Renew();
      harness_.Advance(absl::Seconds(1));
    }
    ASSERT_EQ(harness_.job("elastic").gang->head.stop_reason(), Stop::REASON_GROWN);
    ASSERT_EQ(StateOf("elastic"), Job::STATE_STOPPING);
  }
  void Reconnect() {
    executor_.Disconnect();
    executor_.Connect();
  }
};

TEST_F(SchedulerCoreGrowthTest, GrowsIntoRoomThatWasSpareForAWhile) {
  RunFiveOfEight();
  AdvanceHeard(absl::Minutes(10));
  EXPECT_EQ(GenerationOf("elastic"), 1) << "the room was not spare for long enough";
  AdvanceHeard(absl::Minutes(2));
  EXPECT_EQ(GenerationOf("elastic"), 2);
  EXPECT_EQ(SizeNow("elastic"), 8);
  EXPECT_EQ(StateOf("elastic"), Job::STATE_PREPARING);
  StartAll();
  const JobEntry& job = harness_.job("elastic");
  EXPECT_EQ(job.state.message(), "runs as generation 2 with 8 of 2..8 Tasks");
  EXPECT_EQ(executor_.tasks().at("elastic/2/worker-7").desired.rendezvous().world_size(), 8);
  EXPECT_EQ(job.state.counted_restarts(), 0);
  EXPECT_EQ(job.state.uncounted_streak(), 0);
  EXPECT_EQ(job.state.preemptions(), 0);
  EXPECT_EQ(Told("GROWN"), 1);
  // It has all of it.
  AdvanceHeard(absl::Minutes(30));
  EXPECT_EQ(GenerationOf("elastic"), 2);
}

TEST_F(SchedulerCoreGrowthTest, DoesNotGrowUnlessAsked) {
  JobSpec spec = Growing(2, 8);
  spec.clear_grow_after();
  RunFiveOfEight(spec);
  AdvanceHeard(absl::Hours(1));
  EXPECT_EQ(GenerationOf("elastic"), 1);
  EXPECT_EQ(Told("GROWN"), 0);
}

TEST_F(SchedulerCoreGrowthTest, DoesNotGrowForLessThanAnEighth) {
  executor_.Disconnect();
  FakeExecutor wide("wide", 1, 16'000, &harness_);
  wide.Connect();
  wide.Take(harness_.Submit("before", CoreHarness::Spec(1, 1000)));
  JobSpec spec = Growing(2, 16);
  wide.Take(harness_.Submit("elastic", spec));
  wide.PrepareAll();
  wide.RunAll();
  ASSERT_EQ(SizeNow("elastic"), 15);
  const auto pass = [&](absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= absl::Seconds(5)) {
      wide.Renew();
      wide.Take(harness_.Advance(absl::Seconds(5)));
    }
  };
  wide.Take(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/before", ""}));
  pass(absl::Minutes(20));
  // One more of 15 is less than an eighth.
  EXPECT_EQ(GenerationOf("elastic"), 1);
}

TEST_F(SchedulerCoreGrowthTest, AShortGapBetweenTwoJobsDoesNotStopIt) {
  RunFiveOfEight();
  AdvanceHeard(absl::Minutes(10) + absl::Seconds(30));
  RunJob("next", CoreHarness::Spec(3, 1000));
  AdvanceHeard(absl::Minutes(1));
  Cancel("next");
  AdvanceHeard(absl::Seconds(50));
  EXPECT_EQ(GenerationOf("elastic"), 1) << "the gap before does not count";
  AdvanceHeard(absl::Seconds(30));
  EXPECT_EQ(GenerationOf("elastic"), 2);
}

TEST_F(SchedulerCoreGrowthTest, TakesNoRoomThatIsKeptForAnother) {
  RunFiveOfEight();
  Submit("wide", CoreHarness::Spec(8, 1000));
  ASSERT_TRUE(harness_.job("wide").state.has_estimated_start_time());
  AdvanceHeard(absl::Minutes(20));
  EXPECT_EQ(GenerationOf("elastic"), 1);
  Cancel("wide");
  AdvanceHeard(absl::Minutes(2));
  EXPECT_EQ(GenerationOf("elastic"), 2);
}

TEST_F(SchedulerCoreGrowthTest, TakesNoMoreThanItsQueueMayHave) {
  CreateCpuQueue("limited", 6000, 0);
  JobSpec spec = Growing(2, 8);
  spec.set_queue("queues/limited");
  RunFiveOfEight(spec);
  AdvanceHeard(absl::Minutes(12));
  EXPECT_EQ(GenerationOf("elastic"), 2);
  EXPECT_EQ(SizeNow("elastic"), 6);
}

TEST_F(SchedulerCoreGrowthTest, TakesNothingOfWhatAnotherQueueIsGuaranteedAndAsksFor) {
  CreateCpuQueue("guaranteed", 8000);
  RunFiveOfEight();
  // It fits no Node.
  JobSpec claim = CoreHarness::Spec(5, 1000);
  claim.set_queue("queues/guaranteed");
  claim.mutable_topology()->set_required(Topology::LEVEL_NODE);
  Submit("claim", claim);
  ASSERT_FALSE(harness_.job("claim").state.has_estimated_start_time());
  AdvanceHeard(absl::Minutes(20));
  EXPECT_EQ(GenerationOf("elastic"), 1);
  Cancel("claim");
  AdvanceHeard(absl::Minutes(2));
  EXPECT_EQ(GenerationOf("elastic"), 2);
}

TEST_F(SchedulerCoreGrowthTest, StartsNothingInAQueueThatIsHeld) {
  RunFiveOfEight();
  UpdateQueue update;
  update.call = harness_.next_call();
  update.queue_id = "default";
  update.update_mask.add_paths("hold");
  update.queue.set_hold(true);
  harness_.Apply(update);
  AdvanceHeard(absl::Minutes(20));
  EXPECT_EQ(GenerationOf("elastic"), 1);
}

TEST_F(SchedulerCoreGrowthTest, GrowsWithinItsDomain) {
  JobSpec spec = Growing(1, 8);
  spec.mutable_topology()->set_required(Topology::LEVEL_NODE);
  RunJob("before", CoreHarness::Spec(2, 1000));
  RunJob("elastic", spec);
  ASSERT_EQ(SizeNow("elastic"), 4);
  AdvanceHeard(absl::Minutes(20));
  EXPECT_EQ(GenerationOf("elastic"), 1) << "its Node is full";
}

TEST_F(SchedulerCoreGrowthTest, WhatItIsToHaveIsHeldWhileItStops) {
  RunFiveOfEight();
  AdvanceToGrowth();
  // Of higher priority, and it fits what is free.
  JobSpec high = CoreHarness::Spec(2, 1000);
  high.set_priority(5);
  harness_.Submit("high", high);
  EXPECT_EQ(StateOf("high"), Job::STATE_QUEUED);
  Reconnect();
  EXPECT_EQ(StateOf("elastic"), Job::STATE_PREPARING);
  EXPECT_EQ(SizeNow("elastic"), 8);
  EXPECT_EQ(StateOf("high"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreGrowthTest, ANewLeaderGoesOnWithIt) {
  RunFiveOfEight();
  AdvanceToGrowth();
  harness_.NewLeader();
  EXPECT_EQ(harness_.job("elastic").gang->head.additions_size(), 1);
  harness_.Submit("other", CoreHarness::Spec(1, 1000));
  Reconnect();
  EXPECT_EQ(SizeNow("elastic"), 8);
  EXPECT_EQ(StateOf("other"), Job::STATE_QUEUED);
  StartAll();
  EXPECT_EQ(StateOf("elastic"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("elastic").gang->head.additions_size(), 0);
}

// The leader dies after none, and after each of the writes of the step in which the last Task ends.
TEST_F(SchedulerCoreGrowthTest, ALeaderMayDieAsTheLastTaskEnds) {
  for (size_t writes = 0; writes < 3; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness(Config());
    FakeExecutor executor("local", 2, 4000, &harness);
    executor.Connect();
    executor.Take(harness.Submit("before", CoreHarness::Spec(3, 1000)));
    executor.Take(harness.Submit("elastic", Growing(2, 8)));
    executor.PrepareAll();
    executor.RunAll();
    executor.Take(harness.Apply(CancelJob{harness.next_call(), "projects/p/jobs/before", ""}));
    for (int i = 0; i < 140 && harness.job("elastic").gang->head.stop_reason() == 0; ++i) {
      executor.Renew();
      harness.Advance(absl::Seconds(5));
    }
    ASSERT_EQ(harness.job("elastic").gang->head.stop_reason(), Stop::REASON_GROWN);
    ObservationsReceived ends;
    ends.session = executor.session();
    ends.observations.set_journal_sequence(1'000'000);
    for (const auto& [key, task] : executor.tasks()) {
      auto& observed = *ends.observations.add_tasks() = task.observed;
      observed.set_state(capstan::type::v1::TaskObservation::STATE_ENDED);
      observed.mutable_end()->set_cause(TaskEnd::CAUSE_STOPPED);
    }
    harness.CrashIn(ends, writes);
    // Something comes before the executor is back.
    harness.Submit("other", CoreHarness::Spec(1, 1000));
    executor.Disconnect();
    executor.Connect();
    EXPECT_EQ(SizeOf(harness.job("elastic"), 0), 8);
    EXPECT_EQ(harness.job("elastic").state.state(), Job::STATE_PREPARING);
    EXPECT_EQ(harness.job("elastic").state.generation(), 2);
    EXPECT_EQ(harness.job("other").state.state(), Job::STATE_QUEUED);
  }
}

TEST_F(SchedulerCoreGrowthTest, IsCancelledOnTheWay) {
  RunFiveOfEight();
  AdvanceToGrowth();
  Submit("other", CoreHarness::Spec(2, 1000));
  ASSERT_EQ(StateOf("other"), Job::STATE_QUEUED);
  Cancel("elastic");
  EXPECT_EQ(StateOf("other"), Job::STATE_PREPARING) << "nothing is held any more";
  Reconnect();
  EXPECT_EQ(StateOf("elastic"), Job::STATE_CANCELLED);
}

TEST_F(SchedulerCoreGrowthTest, WhatIsDoneWhenItIsStoppedIsDone) {
  RunFiveOfEight();
  AdvanceToGrowth();
  for (const std::string& key : executor_.Keys()) executor_.End(key, TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(StateOf("elastic"), Job::STATE_SUCCEEDED);
}

// Somebody who ends it for a part of its room, again and again, and goes.
TEST_F(SchedulerCoreGrowthTest, ShrinksAndGrowsNoOftenerThanItMay) {
  RunJob("elastic", Growing(2, 8));
  ASSERT_EQ(SizeNow("elastic"), 8);
  for (int i = 0; i < 4; ++i) {
    AdvanceHeard(absl::Minutes(6));
    JobSpec high = CoreHarness::Spec(3, 1000);
    high.set_priority(5);
    Submit(absl::StrCat("high", i), high);
    StartAll();
    AdvanceHeard(absl::Seconds(90));
    Cancel(absl::StrCat("high", i));
    AdvanceHeard(absl::Seconds(90));
    StartAll();
  }
  // In 36 min.
  EXPECT_GT(Told("SHRUNK"), 0);
  EXPECT_LE(Told("GROWN"), 3);
  AdvanceHeard(absl::Minutes(12));
  StartAll();
  EXPECT_EQ(SizeNow("elastic"), 8);
}

TEST_F(SchedulerCoreGrowthTest, RecordsThatAddTooMuchAreRefused) {
  RunFiveOfEight();
  AdvanceToGrowth();
  ModelBuilder builder;
  for (const auto& [key, value] : harness_.records()) {
    GangHeadRecord head;
    std::string stored = value;
    if (absl::StrContains(key, "gangs/head") && head.ParseFromString(stored) &&
        head.additions_size() > 0) {
      head.mutable_additions(0)->set_count(4);
      stored = head.SerializeAsString();
    }
    ASSERT_TRUE(builder.Apply(key, stored).ok());
  }
  EXPECT_EQ(builder.Resolve().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace capstan::scheduler
