// Jobs that are held, and released.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/store/store.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/repartition_test_fixture.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/core/update_test_fixture.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::TaskEnd;

class SchedulerCoreHoldTest : public UpdateTest {
 protected:
  size_t Waiting() { return harness_.core().waiting_jobs(); }
};

TEST_F(SchedulerCoreHoldTest, DoesNotStartUntilItIsReleased) {
  Submit("a", Spec(1));
  Hold("a");
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("a"), "HELD");
  EXPECT_EQ(Waiting(), 0u);
  executor_.Connect();
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(ReasonOf("a"), "HELD");
  Reconnect();
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(ReasonOf("a"), "HELD");
  EXPECT_EQ(harness_.job("a").state.generation(), 0);
  Release("a");
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreHoldTest, MayBeHeldFromTheBeginning) {
  executor_.Connect();
  CreateJob create = harness_.SubmitEvent("a", Spec(1));
  create.hold = true;
  executor_.Take(harness_.Apply(create));
  EXPECT_EQ(ReasonOf("a"), "HELD");
  Release("a");
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreHoldTest, KeepsItsPlaceBySubmission) {
  Submit("first", Spec(8));
  Submit("second", Spec(8));
  Hold("first");
  Release("first");
  executor_.Connect();
  EXPECT_EQ(StateOf("first"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("second"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreHoldTest, KeepsNoRoomAndIsToldNoTime) {
  executor_.Connect();
  RunJob("some", Spec(4, 0, absl::Hours(10)));
  Submit("large", Spec(8));
  Submit("small", Spec(1));
  ASSERT_TRUE(harness_.job("large").state.has_estimated_start_time());
  ASSERT_EQ(ReasonOf("small"), "RESERVED");
  Hold("large");
  EXPECT_FALSE(harness_.job("large").state.has_estimated_start_time());
  EXPECT_EQ(StateOf("small"), Job::STATE_PREPARING);
  Release("large");
  EXPECT_TRUE(harness_.job("large").state.has_estimated_start_time());
}

TEST_F(SchedulerCoreHoldTest, RoomThatWasBeingMadeIsForOthers) {
  executor_.Connect();
  RunJob("low", Spec(8));
  AdvanceHeard(absl::Minutes(6));
  executor_.set_slow_to_stop();
  Submit("high", Spec(8, 5));
  ASSERT_EQ(ReasonOf("high"), "MAKING_ROOM");
  Hold("high");
  EXPECT_EQ(ReasonOf("high"), "HELD");
  EXPECT_EQ(harness_.job("high").state.making_room_size(), 0);
  for (const std::string& key : executor_.Keys()) executor_.End(key, TaskEnd::CAUSE_STOPPED);
  EXPECT_EQ(StateOf("low"), Job::STATE_PREPARING) << "nobody else wants it";
  EXPECT_EQ(harness_.job("low").state.generation(), 2);
}

TEST_F(SchedulerCoreHoldTest, WhatRunsGoesOnAndDoesNotStartAgain) {
  executor_.Connect();
  RunJob("a", Spec(1));
  Hold("a");
  AdvanceHeard(absl::Minutes(6));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_LOST);
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("a"), "HELD");
  Reconnect();
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(ReasonOf("a"), "HELD");
  Release("a");
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
}

TEST_F(SchedulerCoreHoldTest, MayEndWhileItIsHeld) {
  executor_.Connect();
  RunJob("a", Spec(1));
  Hold("a");
  Finish("a");
  EXPECT_EQ(StateOf("a"), Job::STATE_SUCCEEDED);
  Submit("b", Spec(1));
  Hold("b");
  executor_.Take(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/b", ""}));
  EXPECT_EQ(StateOf("b"), Job::STATE_CANCELLED);
}

TEST_F(SchedulerCoreHoldTest, WhoWasEndedForAnotherIsHeldThen) {
  executor_.Connect();
  RunJob("low", Spec(8));
  AdvanceHeard(absl::Minutes(6));
  Hold("low");
  Submit("high", Spec(4, 5));
  StartAll();
  EXPECT_EQ(StateOf("high"), Job::STATE_RUNNING);
  EXPECT_EQ(ReasonOf("low"), "HELD");
  EXPECT_EQ(harness_.job("low").state.preemptions(), 1);
  Finish("high");
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(ReasonOf("low"), "HELD");
  Release("low");
  EXPECT_EQ(StateOf("low"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreHoldTest, AnElasticOneDoesNotGiveUpTasksSinceItWouldNotComeBack) {
  executor_.Connect();
  JobSpec elastic = Spec(8);
  elastic.mutable_task_groups(0)->set_min_replicas(4);
  RunJob("elastic", elastic);
  AdvanceHeard(absl::Minutes(6));
  Hold("elastic");
  Submit("high", Spec(4, 5));
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("elastic"), "HELD");
  EXPECT_EQ(harness_.job("elastic").state.preemptions(), 1) << "ended, not made smaller";
}

TEST_F(SchedulerCoreHoldTest, AnElasticOneDoesNotGrow) {
  executor_.Connect();
  RunJob("other", Spec(4));
  JobSpec elastic = Spec(8);
  elastic.mutable_task_groups(0)->set_min_replicas(4);
  *elastic.mutable_checkpoint_period() = ToProto(absl::Minutes(1));
  *elastic.mutable_grow_after() = ToProto(absl::Minutes(1));
  RunJob("elastic", elastic);
  Hold("elastic");
  Finish("other");
  AdvanceHeard(absl::Minutes(30));
  EXPECT_EQ(harness_.job("elastic").state.generation(), 1);
  EXPECT_EQ(StateOf("elastic"), Job::STATE_RUNNING);
  Release("elastic");
  AdvanceHeard(absl::Minutes(3));
  EXPECT_EQ(harness_.job("elastic").state.generation(), 2);
}

TEST_F(SchedulerCoreHoldTest, ItsDataIsLoadedMeanwhile) {
  executor_.Connect();
  JobSpec spec = Spec(1);
  spec.add_datasets()->set_dataset("projects/p/datasets/d");
  Submit("a", spec);
  ASSERT_EQ(ReasonOf("a"), "AWAITING_DATA");
  Hold("a");
  EXPECT_EQ(ReasonOf("a"), "AWAITING_DATA");
  EXPECT_TRUE(absl::StrContains(Explained("a").summary(), "it is held too"));
  executor_.Take(harness_.Apply(DataReady{"a", 0, "0123456789abcdef"}));
  EXPECT_EQ(ReasonOf("a"), "HELD");
  const std::vector<Effect> effects = harness_.Apply(UpdateOf("a", Held(false)));
  EXPECT_TRUE(Of<EnsureData>(effects).empty()) << "it is there";
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreHoldTest, WaitsForOthersFirst) {
  executor_.Connect();
  RunJob("before", Spec(1));
  JobSpec spec = Spec(1);
  JobDependency& after = *spec.add_after();
  after.set_job("projects/p/jobs/before");
  after.set_condition(JobDependency::CONDITION_SUCCEEDED);
  Submit("a", spec);
  Hold("a");
  EXPECT_EQ(ReasonOf("a"), "DEPENDENCY");
  Finish("before");
  EXPECT_EQ(ReasonOf("a"), "HELD");
  Release("a");
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreHoldTest, BacksOffFirst) {
  executor_.Connect();
  JobSpec spec = Spec(1);
  *spec.mutable_retry()->mutable_initial_back_off() = ToProto(absl::Seconds(30));
  RunJob("a", spec);
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_EXITED, 1);
  ASSERT_EQ(ReasonOf("a"), "BACK_OFF");
  Hold("a");
  EXPECT_EQ(ReasonOf("a"), "BACK_OFF");
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(ReasonOf("a"), "HELD");
}

TEST_F(SchedulerCoreHoldTest, IsExplainedWithItsRemedy) {
  Submit("a", Spec(1));
  Hold("a");
  const ExplainJobResponse why = Explained("a");
  EXPECT_EQ(why.reason(), "HELD");
  EXPECT_EQ(why.summary(),
            "it is held, and does not start before it is released: `capstan job release "
            "projects/p/jobs/a`");
  executor_.Connect();
  RunJob("b", Spec(1));
  Hold("b");
  EXPECT_TRUE(absl::StrContains(
      Explained("b").summary(),
      "; it is held too, and does not start again before it is released: `capstan job release"))
      << Explained("b").summary();
}

// A version that knows no holds has led, and let it stand in its Queue.
TEST_F(SchedulerCoreHoldTest, IsHeldAgainAfterALeaderThatDidNotKnow) {
  for (const std::string reason : {"WAITING", "INSUFFICIENT_RESOURCES", "A_REASON_OF_LATER"}) {
    SCOPED_TRACE(reason);
    CoreHarness harness{Config()};
    harness.NewLeader();
    harness.Submit("a", Spec(1));
    harness.Apply(UpdateOf("a", Held(true)));
    std::vector<store::KeyValue> records;
    for (const auto& [key, value] : harness.records()) {
      records.push_back({.key = key, .value = value});
      if (key != JobStateKey("a")) continue;
      rec::JobStateRecord state;
      ASSERT_TRUE(state.ParseFromString(value));
      state.set_reason(reason);
      records.back().value = state.SerializeAsString();
    }
    auto core = SchedulerCore::Load(Config(), records);
    ASSERT_TRUE(core.ok()) << core.status();
    LeadershipGained gained;
    gained.token.set_leader_epoch(2);
    (*core)->Apply(gained, harness.now());
    EXPECT_EQ((*core)->model().jobs.at("a").state.reason(), "HELD");
    EXPECT_EQ((*core)->waiting_jobs(), 0u);
  }
}

class ArrayHoldTest : public SchedulerCoreHoldTest {
 protected:
  static JobSpec Array(int size, int max_parallel = 0) {
    JobSpec spec = Spec(1);
    spec.mutable_array()->set_size(size);
    spec.mutable_array()->set_max_parallel(max_parallel);
    return spec;
  }
  const JobEntry& Element(int index) { return harness_.job(ElementUid("sweep", index)); }
  std::string ReasonOfElement(int index) { return Element(index).state.reason(); }
};

TEST_F(ArrayHoldTest, AllElementsAreHeldAndReleased) {
  executor_.Connect();
  Submit("sweep", Array(3));
  StartAll();
  Finish(ElementUid("sweep", 0));
  Hold("sweep");
  EXPECT_EQ(ReasonOf("sweep"), "DEPENDENCY");
  EXPECT_FALSE(Element(0).state.hold()) << "it has ended";
  EXPECT_EQ(Element(1).state.state(), Job::STATE_RUNNING);
  executor_.End(absl::StrCat(ElementUid("sweep", 1), "/1/worker-0"), TaskEnd::CAUSE_LOST);
  EXPECT_EQ(ReasonOfElement(1), "HELD");
  Release("sweep");
  EXPECT_EQ(Element(1).state.state(), Job::STATE_PREPARING);
  StartAll();
  Finish(ElementUid("sweep", 1), 2);
  Finish(ElementUid("sweep", 2));
  EXPECT_EQ(StateOf("sweep"), Job::STATE_SUCCEEDED);
}

TEST_F(ArrayHoldTest, AnElementThatIsHeldLeavesItsTurnToOthers) {
  Submit("sweep", Array(4, 1));
  ASSERT_EQ(ReasonOfElement(1), "ARRAY_LIMIT");
  // One that has begun, and one that has not.
  Hold("sweep-0");
  EXPECT_EQ(ReasonOfElement(0), "HELD");
  EXPECT_FALSE(HasBegun(Element(0)));
  EXPECT_EQ(ReasonOfElement(1), "INSUFFICIENT_RESOURCES");
  Hold("sweep-2");
  EXPECT_EQ(ReasonOfElement(2), "HELD");
  executor_.Connect();
  StartAll();
  Reconnect();
  Finish(ElementUid("sweep", 1));
  EXPECT_EQ(Element(3).state.state(), Job::STATE_PREPARING);
  Release("sweep-0");
  EXPECT_EQ(ReasonOfElement(0), "ARRAY_LIMIT") << "it waits for its turn again";
  StartAll();
  Finish(ElementUid("sweep", 3));
  EXPECT_EQ(Element(0).state.state(), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOfElement(2), "HELD");
  StartAll();
  Finish(ElementUid("sweep", 0));
  Release("sweep-2");
  StartAll();
  Finish(ElementUid("sweep", 2));
  EXPECT_EQ(StateOf("sweep"), Job::STATE_SUCCEEDED);
}

TEST_F(ArrayHoldTest, IsCancelledWhileHeld) {
  Submit("sweep", Array(4, 1));
  Hold("sweep");
  executor_.Take(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/sweep", ""}));
  EXPECT_EQ(StateOf("sweep"), Job::STATE_CANCELLED);
}

TEST_F(ArrayHoldTest, ElementsOfOneThatIsSubmittedHeldAreHeld) {
  executor_.Connect();
  CreateJob create = harness_.SubmitEvent("sweep", Array(3, 2));
  create.hold = true;
  executor_.Take(harness_.Apply(create));
  for (int index = 0; index < 3; ++index) EXPECT_EQ(ReasonOfElement(index), "HELD") << index;
  Release("sweep");
  EXPECT_EQ(Element(0).state.state(), Job::STATE_PREPARING);
  EXPECT_EQ(Element(1).state.state(), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOfElement(2), "ARRAY_LIMIT");
}

// GPUs in MIG mode, whose gangs are moved where others need room in one piece.
class HeldMoveTest : public SchedulerCoreRepartitionTest {
 protected:
  void Hold(const std::string& id, bool hold) {
    UpdateJob update;
    update.call = harness_.next_call();
    update.name = absl::StrCat("projects/p/jobs/", id);
    update.change.set_hold(hold);
    harness_.Deliver(harness_.Apply(update));
  }
};

TEST_F(HeldMoveTest, WhoIsHeldIsNotMoved) {
  Scatter(Sliced(1, "1g.10gb"));
  Hold("one", true);
  Submit("whole", Sliced(1, "7g.80gb"));
  EXPECT_EQ(Mover(), "other");
}

TEST_F(HeldMoveTest, WhoIsHeldOnTheWayDoesNotArrive) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  ASSERT_NE(mover, "");
  Hold(mover, true);
  EndStopped();
  Work();
  EXPECT_EQ(ReasonOf(mover), "HELD");
  EXPECT_EQ(StateOf("whole"), Job::STATE_RUNNING);
  NewLeader();
  Pass(absl::Minutes(6));
  EXPECT_EQ(ReasonOf(mover), "HELD");
  Hold(mover, false);
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_RUNNING);
}

TEST_F(HeldMoveTest, WhoIsReleasedOnTheWayArrives) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  ASSERT_NE(mover, "");
  Hold(mover, true);
  Pass(absl::Seconds(5));
  Hold(mover, false);
  Pass(absl::Seconds(5));
  EndStopped();
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_RUNNING);
  EXPECT_EQ(StateOf("whole"), Job::STATE_RUNNING);
}

TEST_F(HeldMoveTest, WhoIsHeldWhileItsPlaceIsKeptGivesThatUp) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  Hold("whole", true);
  EXPECT_EQ(ReasonOf("whole"), "HELD");
  EndStopped();
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_RUNNING) << "it is moved all the same";
  Hold("whole", false);
  Pass(absl::Minutes(1));
  EXPECT_EQ(StateOf("whole"), Job::STATE_PREPARING);
}

}  // namespace
}  // namespace capstan::scheduler
