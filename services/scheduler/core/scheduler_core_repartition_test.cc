// Gangs that are moved so that a MIG instance gets room in one piece. That no two instances overlap,
// that a leader made from the store knows the same, and that nobody is disrupted more often than its
// Queue says, CoreHarness checks after every step.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/repartition_test_fixture.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using ::testing::HasSubstr;

TEST_F(SchedulerCoreRepartitionTest, MovesWhatIsScatteredAndBothRun) {
  JobSpec low = Sliced(1, "1g.10gb");
  // Whose turn it is says nothing about who stands where.
  low.set_priority(100);
  *low.mutable_stop_grace() = ToProto(absl::Seconds(7));
  Scatter(low);
  Pass(absl::Seconds(80));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  ASSERT_NE(mover, "");
  EXPECT_EQ(StateOf(mover), Job::STATE_STOPPING);
  EXPECT_EQ(ReasonOf("whole"), "MAKING_ROOM");
  // An eighth of a GPU for 80 s and a minute for the act.
  EXPECT_EQ(MessageOf("whole"),
            "1 Job is being moved so that it has room in one piece, which costs 1m10s of GPU time");
  for (const auto& [key, task] : executor_.tasks()) {
    if (task.desired.key().job_uid() != mover) continue;
    EXPECT_EQ(task.desired.phase(), DesiredTask::PHASE_STOP);
    EXPECT_EQ(ToDuration(task.desired.stop().grace()), absl::Seconds(7));
  }
  // Nobody takes in between what is theirs.
  Submit("thief", Sliced(8, "1g.10gb"));
  EXPECT_EQ(StateOf("thief"), Job::STATE_QUEUED);
  EndStopped();
  EXPECT_EQ(StateOf("whole"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf(mover), Job::STATE_PREPARING);
  Work();
  for (const char* uid : {"one", "other", "whole"}) {
    EXPECT_EQ(StateOf(uid), Job::STATE_RUNNING) << uid << ": " << MessageOf(uid);
  }
  EXPECT_EQ(harness_.job("one").gang->nodes, harness_.job("other").gang->nodes);
  const rec::JobStateRecord& moved = harness_.job(mover).state;
  EXPECT_EQ(moved.generation(), 2);
  EXPECT_EQ(moved.counted_restarts(), 0);
  EXPECT_EQ(moved.preemptions(), 0);
  ASSERT_EQ(moved.disruptions_size(), 1);
  EXPECT_EQ(moved.disruptions(0).reason(), "REPARTITIONED");
  EXPECT_EQ(moved.disruptions(0).beneficiary(), "projects/p/jobs/whole");
}

TEST_F(SchedulerCoreRepartitionTest, IsOffUnlessItIsTurnedOn) {
  EXPECT_EQ(CoreConfig().repartition_max_cost, absl::ZeroDuration());
}

class RepartitionOffTest : public SchedulerCoreRepartitionTest {
 protected:
  RepartitionOffTest() : SchedulerCoreRepartitionTest(Off()) {}
  static CoreConfig Off() {
    CoreConfig config = Config();
    config.repartition_max_cost = CoreConfig().repartition_max_cost;
    return config;
  }
};

TEST_F(RepartitionOffTest, NobodyIsMoved) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  Pass(absl::Minutes(5));
  EXPECT_EQ(Mover(), "");
  EXPECT_EQ(ReasonOf("whole"), "INSUFFICIENT_RESOURCES");
}

TEST_F(SchedulerCoreRepartitionTest, MovesWithinAGpu) {
  // Alone on its GPU, in the middle of where the other is to go.
  Start("large", Sliced(1, "7g.80gb"));
  Start("first", Sliced(1, "3g.40gb"));
  Start("second", Sliced(1, "3g.40gb"));
  const std::string at_zero = StartOf("first") == 0 ? "first" : "second";
  const std::string at_four = at_zero == "first" ? "second" : "first";
  EndAll(at_four);
  // A 4g has but one place.
  Submit("four", Sliced(1, "4g.40gb"));
  EXPECT_EQ(ReasonOf(at_zero), "REPARTITIONED");
  EndStopped();
  Work();
  EXPECT_EQ(StateOf("four"), Job::STATE_RUNNING);
  EXPECT_EQ(StateOf(at_zero), Job::STATE_RUNNING);
  EXPECT_EQ(StartOf(at_zero), 4);
  EXPECT_EQ(GenerationOf("large"), 1);
}

class RepartitionBoundTest : public SchedulerCoreRepartitionTest {
 protected:
  RepartitionBoundTest() : SchedulerCoreRepartitionTest(Bound()) {}
  static CoreConfig Bound() {
    CoreConfig config = Config();
    config.repartition_max_cost = absl::Minutes(2);
    return config;
  }
};

TEST_F(RepartitionBoundTest, MovesNobodyBeyondIt) {
  Scatter(Sliced(1, "1g.10gb"));
  // An eighth of eight minutes is one, and there is the act.
  Pass(absl::Minutes(8) + absl::Seconds(1));
  Submit("whole", Sliced(1, "7g.80gb"));
  EXPECT_EQ(Mover(), "");
  EXPECT_EQ(ReasonOf("whole"), "INSUFFICIENT_RESOURCES");
  EndAll("one");
  Work();
  EXPECT_EQ(StateOf("whole"), Job::STATE_RUNNING);
}

TEST_F(RepartitionBoundTest, WhoSavesOftenIsMovedAtLittleCost) {
  JobSpec saving = Sliced(1, "1g.10gb");
  *saving.mutable_checkpoint_period() = ToProto(absl::Minutes(2));
  Start("one", saving);
  Start("filler", Sliced(6, "1g.10gb"));
  Start("other", Sliced(1, "1g.10gb"));
  EndAll("filler");
  Pass(absl::Minutes(30));
  Submit("whole", Sliced(1, "7g.80gb"));
  EXPECT_EQ(Mover(), "one");
  EXPECT_THAT(MessageOf("whole"), HasSubstr("1m15s of GPU time"));
}

TEST_F(SchedulerCoreRepartitionTest, MovesNobodyWhoSaysNever) {
  UpdateQueue update;
  update.call = harness_.next_call();
  update.queue_id = "default";
  update.queue.set_allow_non_preemptible(true);
  update.update_mask.add_paths("allow_non_preemptible");
  harness_.Deliver(harness_.Apply(update));
  JobSpec never = Sliced(1, "1g.10gb");
  never.set_preemption(JobSpec::PREEMPTION_NEVER);
  Scatter(never);
  Submit("whole", Sliced(1, "7g.80gb"));
  Pass(absl::Minutes(5));
  EXPECT_EQ(Mover(), "");
}

TEST_F(SchedulerCoreRepartitionTest, WaitsUntilWhoIsInTheWayMayBeMoved) {
  SetMinRuntime(absl::Minutes(3));
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  Pass(absl::Seconds(170));
  EXPECT_EQ(Mover(), "");
  // Nothing but time passes.
  Pass(absl::Seconds(11));
  EXPECT_NE(Mover(), "");
}

TEST_F(SchedulerCoreRepartitionTest, ADisruptionBudgetProtects) {
  UpdateQueue update;
  update.call = harness_.next_call();
  update.queue_id = "default";
  update.queue.mutable_disruption_budget()->set_count(1);
  *update.queue.mutable_disruption_budget()->mutable_period() = ToProto(absl::Hours(1));
  update.update_mask.add_paths("disruption_budget");
  harness_.Deliver(harness_.Apply(update));
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string first = Mover();
  ASSERT_NE(first, "");
  EndStopped();
  Work();
  EndAll("whole");
  // They stand on one GPU now: again they are in the way of nobody.
  Submit("again", Sliced(2, "7g.80gb"));
  Pass(absl::Minutes(30));
  EXPECT_EQ(StateOf("again"), Job::STATE_QUEUED);
  EXPECT_EQ(GenerationOf(first), 2);
}

TEST_F(SchedulerCoreRepartitionTest, NothingIsBegunWhereWhoIsMovedWouldNotFitAgain) {
  // Of 16 slices 9 are free, but not beside each other, and beside a 7g there is nothing.
  Start("one", Sliced(1, "1g.10gb"));
  Start("filler", Sliced(6, "1g.10gb"));
  Start("others", Sliced(7, "1g.10gb"));
  EndAll("filler");
  Submit("whole", Sliced(1, "7g.80gb"));
  Pass(absl::Minutes(5));
  EXPECT_EQ(ReasonOf("whole"), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(StateOf("one"), Job::STATE_RUNNING);
  EXPECT_EQ(StateOf("others"), Job::STATE_RUNNING);
  EXPECT_EQ(GenerationOf("one"), 1);
}

TEST_F(SchedulerCoreRepartitionTest, OtherResourcesOfTheNodeCount) {
  // Memory slices there are enough, but n0 and n1 have no cores left for whoever would be moved.
  JobSpec thirsty = Sliced(1, "1g.10gb");
  thirsty.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(2500);
  Start("one", thirsty);
  Start("other", thirsty);
  ASSERT_NE(harness_.job("one").gang->nodes, harness_.job("other").gang->nodes);
  Submit("whole", Sliced(1, "7g.80gb"));
  Pass(absl::Minutes(5));
  EXPECT_EQ(Mover(), "");
  EXPECT_EQ(ReasonOf("whole"), "INSUFFICIENT_RESOURCES");
}

TEST_F(SchedulerCoreRepartitionTest, ALimitOfTheQueueIsNoReasonToMove) {
  UpdateQueue limit;
  limit.call = harness_.next_call();
  limit.queue_id = "default";
  auto& quota = *limit.queue.add_quotas();
  quota.set_resource("mig/h100-80gb");
  quota.mutable_borrowing_limit()->set_amount(8);
  limit.update_mask.add_paths("quotas");
  Scatter(Sliced(1, "1g.10gb"));
  harness_.Deliver(harness_.Apply(limit));
  Submit("whole", Sliced(1, "7g.80gb"));
  Pass(absl::Minutes(5));
  EXPECT_EQ(ReasonOf("whole"), "QUEUE_LIMIT");
  EXPECT_EQ(Mover(), "");
}

TEST_F(SchedulerCoreRepartitionTest, RatherMovesThanEnds) {
  JobSpec low = Sliced(1, "1g.10gb");
  low.set_priority(-5);
  Scatter(low);
  Submit("whole", Sliced(1, "7g.80gb"));
  EXPECT_NE(Mover(), "");
  EndStopped();
  Work();
  EXPECT_EQ(harness_.job("one").state.preemptions() + harness_.job("other").state.preemptions(), 0);
  EXPECT_EQ(StateOf("whole"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreRepartitionTest, ACancelInTheMiddleLeavesNobodyBehind) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  ASSERT_NE(mover, "");
  Cancel("whole");
  EXPECT_EQ(StateOf("whole"), Job::STATE_CANCELLED);
  // What was kept for it is anybody's at once: all but three places of fourteen.
  Submit("next", Sliced(11, "1g.10gb"));
  EXPECT_EQ(StateOf("next"), Job::STATE_PREPARING) << MessageOf("next");
  EndStopped();
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_RUNNING);
  EXPECT_EQ(GenerationOf(mover), 2);
}

TEST_F(SchedulerCoreRepartitionTest, WhoIsMovedMayBeCancelledToo) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  Cancel(mover);
  EndStopped();
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_CANCELLED);
  EXPECT_EQ(StateOf("whole"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreRepartitionTest, WhoWasDoneBeforeItHeardOfItHasSucceeded) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  EndAll(mover, TaskEnd::CAUSE_EXITED);
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_SUCCEEDED);
  EXPECT_EQ(StateOf("whole"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreRepartitionTest, AFailureOnTheWayIsNotCounted) {
  JobSpec spec = Sliced(1, "1g.10gb");
  spec.mutable_retry()->set_max_restarts(0);
  Scatter(spec);
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  EndAll(mover, TaskEnd::CAUSE_SIGNALED);
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job(mover).state.counted_restarts(), 0);
}

// Each search goes over all Nodes: what changes soon after one that was in vain waits for the next.
TEST_F(SchedulerCoreRepartitionTest, AfterASearchInVainTheNextOneIsLater) {
  Start("a", Sliced(1, "1g.10gb"));
  Start("filler", Sliced(6, "1g.10gb"));
  Start("b", Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  ASSERT_EQ(ReasonOf("whole"), "INSUFFICIENT_RESOURCES");
  Pass(absl::Seconds(2));
  EndAll("filler");
  Pass(absl::Seconds(7));
  EXPECT_EQ(ReasonOf("whole"), "INSUFFICIENT_RESOURCES");
  Pass(absl::Seconds(2));
  EXPECT_EQ(ReasonOf("whole"), "MAKING_ROOM");
}

TEST_F(SchedulerCoreRepartitionTest, ANewLeaderGoesOn) {
  for (const bool all_ended : {false, true}) {
    SCOPED_TRACE(all_ended);
    for (const char* uid : {"one", "other", "whole"}) {
      if (harness_.jobs().Find(uid) != nullptr) Cancel(uid);
    }
    EndStopped();
    Pass(absl::Minutes(2));
    const std::string n = absl::StrCat(all_ended ? 2 : 1);
    Start(absl::StrCat("a", n), Sliced(1, "1g.10gb"));
    Start(absl::StrCat("filler", n), Sliced(6, "1g.10gb"));
    Start(absl::StrCat("b", n), Sliced(1, "1g.10gb"));
    EndAll(absl::StrCat("filler", n));
    const std::string whole = absl::StrCat("whole", n);
    Submit(whole, Sliced(1, "7g.80gb"));
    ASSERT_EQ(ReasonOf(whole), "MAKING_ROOM");
    const std::string mover = ReasonOf(absl::StrCat("a", n)) == "REPARTITIONED"
                                  ? absl::StrCat("a", n)
                                  : absl::StrCat("b", n);
    ASSERT_EQ(ReasonOf(mover), "REPARTITIONED");
    executor_.Disconnect();
    if (all_ended) EndStopped();
    harness_.Deliver(harness_.NewLeader());
    // Somebody comes before anything was heard of the Nodes.
    Submit(absl::StrCat("early", n), Sliced(1, "1g.10gb"));
    EXPECT_EQ(ReasonOf(whole), "MAKING_ROOM");
    executor_.Connect();
    Submit(absl::StrCat("thief", n), Sliced(8, "1g.10gb"));
    EndStopped();
    Work();
    Pass(absl::Seconds(3));
    Work();
    EXPECT_EQ(StateOf(whole), Job::STATE_RUNNING) << MessageOf(whole);
    EXPECT_EQ(StateOf(mover), Job::STATE_RUNNING) << MessageOf(mover);
    EXPECT_EQ(GenerationOf(mover), 2);
    for (const char* uid : {"a", "b", "whole", "early", "thief"}) Cancel(absl::StrCat(uid, n));
    EndStopped();
    Pass(absl::Minutes(2));
  }
}

// With a leader that dies after each of the writes of the step that decides.
TEST_F(SchedulerCoreRepartitionTest, ADecisionThatWasStoredInPartIsCarriedOut) {
  for (size_t writes = 0; writes <= 3; ++writes) {
    SCOPED_TRACE(writes);
    const auto name = [writes](const char* of) { return absl::StrCat(of, writes); };
    Start(name("a"), Sliced(1, "1g.10gb"));
    Start(name("filler"), Sliced(6, "1g.10gb"));
    Start(name("b"), Sliced(1, "1g.10gb"));
    EndAll(name("filler"));
    harness_.Deliver(
        harness_.CrashIn(harness_.SubmitEvent(name("whole"), Sliced(1, "7g.80gb")), writes));
    executor_.Disconnect();
    executor_.Connect();
    // What was not stored was not acknowledged.
    if (harness_.jobs().Find(name("whole")) == nullptr) {
      Submit(name("whole"), Sliced(1, "7g.80gb"));
    }
    Pass(absl::Seconds(2));
    EXPECT_EQ(ReasonOf(name("whole")), "MAKING_ROOM");
    EndStopped();
    Work();
    for (const char* uid : {"a", "b", "whole"}) {
      EXPECT_EQ(StateOf(name(uid)), Job::STATE_RUNNING) << MessageOf(name(uid));
      Cancel(name(uid));
    }
    EXPECT_EQ(GenerationOf(name("a")) + GenerationOf(name("b")), 3);
    EndStopped();
    Pass(absl::Minutes(2));
  }
}

TEST_F(SchedulerCoreRepartitionTest, ANodeThatFallsSilentHoldsNobodyUp) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  ASSERT_NE(mover, "");
  const int node = harness_.job(mover).gang->nodes[0] == "n0" ? 0 : 1;
  executor_.ReportNode(node, /*silent=*/true);
  Pass(absl::Seconds(1));
  // It waits like others, and no more is kept for it than for those.
  EXPECT_EQ(ReasonOf("whole"), "INSUFFICIENT_RESOURCES");
  JobSpec small = Sliced(5, "1g.10gb");
  *small.mutable_time_limit() = ToProto(absl::Minutes(1));
  Submit("small", small);
  EXPECT_EQ(StateOf("small"), Job::STATE_PREPARING) << MessageOf("small");
  executor_.ReportNode(node, /*silent=*/false);
  EndStopped();
  Work();
  Pass(absl::Seconds(3));
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_RUNNING) << MessageOf(mover);
}

TEST_F(SchedulerCoreRepartitionTest, WhereItsNewNodeIsLostItGoesElsewhere) {
  Scatter(Sliced(1, "1g.10gb"));
  Submit("whole", Sliced(1, "7g.80gb"));
  const std::string mover = Mover();
  const std::string stays = mover == "one" ? "other" : "one";
  const int to = harness_.job(stays).gang->nodes[0] == "n0" ? 0 : 1;
  executor_.ReportNode(to, /*silent=*/true);
  EndStopped();
  // The room of the one that waits comes first.
  EXPECT_EQ(StateOf("whole"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf(mover), "RETURNING");
  EXPECT_THAT(MessageOf(mover), HasSubstr("cannot be used any more"));
  // Its new place is held for nobody else, and it is placed before anybody else is.
  Work();
  EndAll("whole");
  Submit("thief", Sliced(7, "1g.10gb"));
  Work();
  EXPECT_EQ(StateOf(mover), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreRepartitionTest, OneAtATimeAndNotAtOnceAgain) {
  executor_.set_mig_gpus(2, {"H100-80GB"});
  executor_.ReportNode(2, false);
  // One 1g on each of three GPUs.
  Start("one", Sliced(1, "1g.10gb"));
  Start("filler", Sliced(6, "1g.10gb"));
  Start("other", Sliced(1, "1g.10gb"));
  Start("filler2", Sliced(6, "1g.10gb"));
  Start("third", Sliced(1, "1g.10gb"));
  EndAll("filler");
  EndAll("filler2");
  Submit("first", Sliced(1, "7g.80gb"));
  Submit("second", Sliced(1, "7g.80gb"));
  EXPECT_EQ(ReasonOf("first"), "MAKING_ROOM");
  EXPECT_EQ(ReasonOf("second"), "INSUFFICIENT_RESOURCES");
  const absl::Time begun = harness_.now().wall;
  Pass(absl::Seconds(10));
  EXPECT_EQ(ReasonOf("second"), "INSUFFICIENT_RESOURCES");
  EndStopped();
  Work();
  EXPECT_EQ(StateOf("first"), Job::STATE_RUNNING);
  EXPECT_EQ(ReasonOf("second"), "INSUFFICIENT_RESOURCES");
  // Nor does a new leader begin sooner.
  NewLeader();
  while (ReasonOf("second") != "MAKING_ROOM" && harness_.now().wall < begun + absl::Minutes(5)) {
    Pass(absl::Seconds(1));
  }
  EXPECT_EQ(harness_.now().wall - begun, absl::Minutes(1));
  EndStopped();
  Work();
  for (const char* uid : {"one", "other", "third", "first", "second"}) {
    EXPECT_EQ(StateOf(uid), Job::STATE_RUNNING) << uid;
  }
}

TEST_F(SchedulerCoreRepartitionTest, MovesAGangWholeWithAllItsTasks) {
  // Two Tasks on either GPU, of which one GPU has to be empty.
  Start("pair", Sliced(2, "3g.40gb"));
  Start("filler", Sliced(1, "3g.40gb"));
  ASSERT_EQ(StateOf("filler"), Job::STATE_RUNNING);
  EndAll("pair");
  JobSpec gang = Sliced(3, "1g.10gb");
  Start("gang", gang);
  Start("more", Sliced(4, "1g.10gb"));
  EndAll("filler");
  EndAll("more");
  Submit("whole", Sliced(1, "7g.80gb"));
  Work();
  if (ReasonOf("whole") == "MAKING_ROOM") {
    EndStopped();
    Work();
  }
  EXPECT_EQ(StateOf("whole"), Job::STATE_RUNNING) << MessageOf("whole");
  EXPECT_EQ(StateOf("gang"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("gang").gang->nodes.size(), 3u);
}

}  // namespace
}  // namespace capstan::scheduler
