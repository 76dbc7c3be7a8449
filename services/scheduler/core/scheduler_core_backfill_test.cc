// Time limits, the room that is kept for a large gang, and what may run in it meanwhile.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/render.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;

// Two Nodes of 4 cores.
class BackfillTest : public SchedulerCoreTest {
 protected:
  static JobSpec Spec(int replicas, absl::Duration time_limit = absl::InfiniteDuration()) {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    if (time_limit != absl::InfiniteDuration()) *spec.mutable_time_limit() = ToProto(time_limit);
    return spec;
  }
  void Reconnect() {
    executor_.Disconnect();
    harness_.NewLeader();
    executor_.Connect();
  }
  absl::Duration Wait(const std::string& uid) {
    return ToTime(harness_.job(uid).state.estimated_start_time()) - harness_.now().wall;
  }
};

TEST_F(BackfillTest, AJobEndsAtItsTimeLimit) {
  executor_.Connect();
  RunJob("short", Spec(2, absl::Minutes(2)));
  AdvanceHeard(absl::Seconds(117));
  EXPECT_EQ(StateOf("short"), Job::STATE_RUNNING);
  executor_.Renew();
  const std::vector<Effect> effects = harness_.Advance(absl::Seconds(3));
  EXPECT_EQ(StateOf("short"), Job::STATE_STOPPING);
  EXPECT_EQ(ReasonOf("short"), "TIME_LIMIT");
  EXPECT_EQ(harness_.job("short").gang->head.stop_reason(), Stop::REASON_TIME_LIMIT);
  executor_.Take(effects);
  EXPECT_EQ(StateOf("short"), Job::STATE_FAILED);
  EXPECT_EQ(ReasonOf("short"), "TIME_LIMIT");
  EXPECT_EQ(harness_.job("short").state.message(), "ran for its time limit of 2m");
}

// However many of them stand before it, the first Job that can ever fit has room kept for it.
TEST_F(BackfillTest, JobsOfOneShapeThatNeverFitTakeOneTryToKeepRoom) {
  for (int i = 0; i < 6; ++i) Submit(absl::StrCat("never", i), Spec(9));
  Submit("first", Spec(4, absl::Hours(1)));
  Submit("second", Spec(8, absl::Hours(1)));
  executor_.Connect();
  EXPECT_EQ(StateOf("first"), Job::STATE_PREPARING);
  EXPECT_TRUE(harness_.job("second").state.has_estimated_start_time());
}

TEST_F(BackfillTest, ANewLeaderGoesOnCounting) {
  executor_.Connect();
  RunJob("short", Spec(2, absl::Minutes(2)));
  AdvanceHeard(absl::Seconds(90));
  Reconnect();
  AdvanceHeard(absl::Seconds(27));
  EXPECT_EQ(StateOf("short"), Job::STATE_RUNNING);
  AdvanceHeard(absl::Seconds(6));
  EXPECT_EQ(StateOf("short"), Job::STATE_FAILED);
}

// Of many that wait, each would be a record and an event.
TEST_F(BackfillTest, ANewLeaderFindsTheReasonsOfThoseThatWaitAndKeepsTheRoom) {
  executor_.Connect();
  RunJob("all", Spec(8, absl::Hours(1)));
  Submit("kept", Spec(8, absl::Hours(1)));
  Submit("waits", Spec(1));
  const absl::Duration wait = Wait("kept");
  executor_.Disconnect();
  const size_t events = harness_.events().size();
  harness_.NewLeader();
  harness_.Advance(absl::Seconds(1));
  EXPECT_EQ(ReasonOf("kept"), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(ReasonOf("waits"), "INSUFFICIENT_RESOURCES");
  executor_.Connect();
  EXPECT_EQ(harness_.events().size(), events);
  EXPECT_EQ(Wait("kept"), wait - absl::Seconds(1));
}

TEST_F(BackfillTest, TheLimitIsEachGenerationsOwn) {
  executor_.Connect();
  JobSpec spec = Spec(1, absl::Minutes(2));
  RunJob("short", spec);
  AdvanceHeard(absl::Seconds(90));
  executor_.End("short/1/worker-0", TaskEnd::CAUSE_LOST);
  executor_.PrepareAll();
  executor_.RunAll();
  ASSERT_EQ(harness_.job("short").state.generation(), 2);
  AdvanceHeard(absl::Seconds(90));
  EXPECT_EQ(StateOf("short"), Job::STATE_RUNNING);
  AdvanceHeard(absl::Seconds(33));
  EXPECT_EQ(StateOf("short"), Job::STATE_FAILED);
}

TEST_F(BackfillTest, NobodyEndsForAJobThatMightDelayTheOneThatRoomIsKeptFor) {
  const auto spec = [](int replicas, int priority,
                       absl::Duration time_limit = absl::InfiniteDuration()) {
    JobSpec made = Spec(replicas, time_limit);
    made.set_priority(priority);
    return made;
  };
  executor_.Connect();
  RunJob("high", spec(4, 2));
  Submit("kept", spec(8, 1));
  ASSERT_TRUE(harness_.job("kept").state.has_estimated_start_time());
  RunJob("low", spec(2, -1, absl::Minutes(20)));
  // Nothing protects it any more.
  AdvanceHeard(absl::Minutes(6));
  Submit("endless", spec(4, 0));
  EXPECT_EQ(StateOf("endless"), Job::STATE_QUEUED);
  EXPECT_EQ(StateOf("low"), Job::STATE_RUNNING) << "it would not start in free room either";
  Submit("over-in-time", spec(4, 0, absl::Minutes(20)));
  EXPECT_EQ(ReasonOf("low"), "PREEMPTED");
  EXPECT_EQ(StateOf("over-in-time"), Job::STATE_PREPARING);
}

TEST_F(BackfillTest, ALargeGangStartsUnderAStreamOfSmallJobs) {
  executor_.Connect();
  std::vector<std::string> running;
  for (int i = 0; i < 8; ++i) {
    running.push_back(absl::StrCat("small", i));
    RunJob(running.back(), Spec(1));
  }
  Submit("large", Spec(8));
  int ends = 0;
  for (; ends < 20 && StateOf("large") == Job::STATE_QUEUED; ++ends) {
    // One ends, two come: without a reservation the large one would never see eight cores free.
    for (int i = 0; i < 2; ++i) Submit(absl::StrCat("new", ends, "-", i), Spec(1));
    executor_.End(absl::StrCat(running[ends], "/1/worker-0"), TaskEnd::CAUSE_EXITED);
    executor_.PrepareAll();
    executor_.RunAll();
  }
  EXPECT_EQ(StateOf("large"), Job::STATE_RUNNING);
  EXPECT_EQ(ends, 8) << "one end of each that ran before it came";
  EXPECT_EQ(ReasonOf("new0-0"), "INSUFFICIENT_RESOURCES");
}

TEST_F(BackfillTest, OnlyWhatIsOverInTimeRunsInTheRoomThatIsKept) {
  executor_.Connect();
  RunJob("first", Spec(4, absl::Minutes(20)));
  Submit("large", Spec(8));
  ASSERT_EQ(StateOf("large"), Job::STATE_QUEUED);
  // 20 min and the 30 s of grace.
  EXPECT_NEAR(absl::ToDoubleSeconds(Wait("large")), 1230, 1);
  EXPECT_FALSE(harness_.job("large").state.estimate_assumed());
  EXPECT_TRUE(RenderJob(harness_.job("large")).has_estimated_start_time());
  Submit("long", Spec(2, absl::Hours(1)));
  Submit("endless", Spec(2));
  Submit("short", Spec(2, absl::Minutes(10)));
  EXPECT_EQ(ReasonOf("long"), "RESERVED");
  EXPECT_EQ(ReasonOf("endless"), "RESERVED");
  EXPECT_EQ(StateOf("short"), Job::STATE_PREPARING);
  EXPECT_NE(Explained("large").summary().find(
                "room is kept for it, and it can start by 2023-11-14T22:33:50Z "
                "at the latest"),
            std::string::npos)
      << Explained("large").summary();
  EXPECT_NE(Explained("long").summary().find("might delay a Job that room is kept for"),
            std::string::npos)
      << Explained("long").summary();
  // The estimate holds: whatever comes, the large one starts by it.
  executor_.PrepareAll();
  executor_.RunAll();
  AdvanceHeard(absl::Seconds(1230));
  EXPECT_EQ(StateOf("first"), Job::STATE_FAILED);
  EXPECT_EQ(StateOf("large"), Job::STATE_PREPARING);
  EXPECT_FALSE(harness_.job("large").state.has_estimated_start_time());
}

TEST_F(BackfillTest, TheReservationOutlivesTheLeader) {
  executor_.Connect();
  RunJob("first", Spec(4, absl::Minutes(20)));
  Submit("large", Spec(8));
  AdvanceHeard(absl::Minutes(5));
  Reconnect();
  Submit("endless", Spec(2));
  EXPECT_EQ(ReasonOf("endless"), "RESERVED");
  EXPECT_NEAR(absl::ToDoubleSeconds(Wait("large")), 930, 10);
}

TEST_F(BackfillTest, WhatCanNeverFitKeepsNoRoom) {
  executor_.Connect();
  RunJob("first", Spec(4));
  Submit("too-large", Spec(9));
  EXPECT_FALSE(harness_.job("too-large").state.has_estimated_start_time());
  Submit("small", Spec(4));
  EXPECT_EQ(StateOf("small"), Job::STATE_PREPARING);
}

TEST_F(BackfillTest, WithoutLimitsTheEstimateIsAGuess) {
  executor_.Connect();
  RunJob("first", Spec(4));
  Submit("large", Spec(8));
  EXPECT_TRUE(harness_.job("large").state.estimate_assumed());
  EXPECT_NEAR(absl::ToDoubleHours(Wait("large")), 24, 0.1);
  EXPECT_NE(Explained("large").summary().find("if Jobs without a time_limit run for a day at most"),
            std::string::npos);
}

TEST_F(BackfillTest, AReservationYieldsToAHigherPriorityAndIsGivenUpWithItsJob) {
  executor_.Connect();
  RunJob("first", Spec(4, absl::Minutes(20)));
  Submit("large", Spec(8));
  JobSpec urgent = Spec(6);
  urgent.set_priority(5);
  Submit("urgent", urgent);
  Advance(absl::Seconds(1));
  EXPECT_TRUE(harness_.job("urgent").state.has_estimated_start_time());
  EXPECT_FALSE(harness_.job("large").state.has_estimated_start_time());
  Submit("endless", Spec(2));
  // Two cores are left when the urgent one has its six.
  EXPECT_EQ(StateOf("endless"), Job::STATE_PREPARING);
  executor_.Take(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/urgent", ""}));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(harness_.job("large").state.has_estimated_start_time());
}

// Where many wait, a Node that comes free does not write all their records.
TEST_F(BackfillTest, WhyManyWaitIsRevisedForFewAtATime) {
  constexpr int kWaiting = 300;
  executor_.Connect();
  RunJob("first", CoreHarness::Spec(1, 4000));
  RunJob("last", CoreHarness::Spec(1, 4000));
  Submit("large", CoreHarness::Spec(2, 4000));
  for (int i = 0; i < kWaiting; ++i) Submit(absl::StrCat("job-", i), CoreHarness::Spec(1, 4000));
  const auto count = [&](const std::string& reason) {
    int jobs = 0;
    for (int i = 0; i < kWaiting; ++i) jobs += ReasonOf(absl::StrCat("job-", i)) == reason ? 1 : 0;
    return jobs;
  };
  EXPECT_EQ(count("INSUFFICIENT_RESOURCES"), kWaiting);
  // Room for one of them, which is kept for the large one.
  executor_.End("last/1/worker-0", TaskEnd::CAUSE_EXITED);
  Advance(absl::ZeroDuration());
  EXPECT_EQ(count("RESERVED"), 0) << "they were told a moment ago";
  AdvanceHeard(absl::Seconds(61));
  harness_.Apply(CordonNode{1, "local", "n0", "alice", ""});
  harness_.Apply(UncordonNode{2, "local", "n0", "alice"});
  EXPECT_GT(count("RESERVED"), 0);
  EXPECT_LE(count("RESERVED"), 64);
}

}  // namespace
}  // namespace capstan::scheduler
