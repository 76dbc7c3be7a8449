// Jobs that are changed after they were submitted: who may, and what priority and time limit do.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/update_test_fixture.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;

class SchedulerCoreUpdateTest : public UpdateTest {
 protected:
  absl::Duration Wait(const std::string& uid) {
    return ToTime(harness_.job(uid).state.estimated_start_time()) - harness_.now().wall;
  }
  int PriorityOf(const std::string& uid) { return harness_.job(uid).spec.spec().priority(); }
};

TEST_F(SchedulerCoreUpdateTest, AnswersWithTheJobAsItIsThenAndTellsOfIt) {
  Submit("a", Spec(1));
  const std::string before = RenderJob(harness_.job("a")).etag();
  rec::JobChange change = Priority(7);
  *change.mutable_time_limit() = ToProto(absl::Hours(2));
  const auto changed = Update("a", change);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->spec().priority(), 7);
  EXPECT_EQ(ToDuration(changed->spec().time_limit()), absl::Hours(2));
  EXPECT_NE(changed->etag(), before);
  EXPECT_EQ(harness_.events().back().message(),
            "priority is 7, and was 0; time_limit is 2h, and was none");
  EXPECT_EQ(harness_.events().back().state(), "QUEUED");
  EXPECT_EQ(harness_.events().back().reason(), "UPDATED");
}

TEST_F(SchedulerCoreUpdateTest, RefusesWhatIsStaleGoneOrOver) {
  executor_.Connect();
  EXPECT_EQ(Update("absent", Priority(1)).status().code(), absl::StatusCode::kNotFound);
  Submit("a", Spec(1));
  UpdateJob stale = UpdateOf("a", Priority(1));
  stale.etag = "\"12345\"";
  EXPECT_EQ(Apply(stale).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(PriorityOf("a"), 0);
  stale.etag = RenderJob(harness_.job("a")).etag();
  EXPECT_TRUE(Apply(stale).ok());
  StartAll();
  Finish("a");
  ASSERT_EQ(StateOf("a"), Job::STATE_SUCCEEDED);
  const auto over = Update("a", Priority(1));
  EXPECT_EQ(over.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(over.status()), "JOB_ENDED");
  EXPECT_TRUE(absl::StrContains(over.status().message(), "is SUCCEEDED")) << over.status();
}

TEST_F(SchedulerCoreUpdateTest, WritesNothingIfNothingChangesOrItIsOnlyToBeChecked) {
  Submit("a", Spec(1, 3, absl::Hours(1)));
  const auto stored = harness_.records();
  const size_t events = harness_.events().size();
  rec::JobChange same = Priority(3);
  same.set_hold(false);
  *same.mutable_time_limit() = ToProto(absl::Hours(1));
  const auto unchanged = Update("a", same);
  ASSERT_TRUE(unchanged.ok());
  EXPECT_EQ(unchanged->spec().priority(), 3);
  EXPECT_TRUE(harness_.records() == stored);
  UpdateJob check = UpdateOf("a", TimeLimit(absl::ZeroDuration()));
  check.validate_only = true;
  check.change.set_hold(true);
  const auto checked = Apply(check);
  ASSERT_TRUE(checked.ok());
  EXPECT_FALSE(checked->spec().has_time_limit());
  EXPECT_TRUE(checked->hold());
  EXPECT_TRUE(harness_.records() == stored);
  EXPECT_EQ(harness_.events().size(), events);
  EXPECT_TRUE(harness_.job("a").spec.spec().has_time_limit());
}

TEST_F(SchedulerCoreUpdateTest, AWaitingJobTakesTheTurnOfItsNewPriority) {
  for (const bool new_leader : {false, true}) {
    const std::string n = new_leader ? "2" : "1";
    if (!executor_.connected()) executor_.Connect();
    Submit("all" + n, Spec(8));
    Submit("first" + n, Spec(8));
    Submit("second" + n, Spec(8));
    Submit("third" + n, Spec(8));
    StartAll();
    ASSERT_TRUE(Update("third" + n, Priority(5)).ok());
    ASSERT_TRUE(Update("first" + n, Priority(-5)).ok());
    if (new_leader) Reconnect();
    Finish("all" + n);
    EXPECT_EQ(StateOf("third" + n), Job::STATE_PREPARING);
    StartAll();
    Finish("third" + n);
    EXPECT_EQ(StateOf("second" + n), Job::STATE_PREPARING);
    StartAll();
    Finish("second" + n);
    EXPECT_EQ(StateOf("first" + n), Job::STATE_PREPARING);
    StartAll();
    Finish("first" + n);
    ASSERT_EQ(StateOf("first" + n), Job::STATE_SUCCEEDED);
  }
}

// Of one priority who came first goes first, whatever it was in between.
TEST_F(SchedulerCoreUpdateTest, KeepsItsPlaceBySubmission) {
  Submit("first", Spec(8));
  Submit("second", Spec(8));
  ASSERT_TRUE(Update("first", Priority(-5)).ok());
  ASSERT_TRUE(Update("first", Priority(0)).ok());
  executor_.Connect();
  EXPECT_EQ(StateOf("first"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("second"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreUpdateTest, WhoRunsIsEndedOrNotByItsNewPriority) {
  executor_.Connect();
  RunJob("low", Spec(8, 5));
  Submit("high", Spec(8, 1));
  AdvanceHeard(absl::Minutes(6));
  EXPECT_EQ(StateOf("low"), Job::STATE_RUNNING);
  ASSERT_TRUE(Update("low", Priority(-1)).ok());
  EXPECT_EQ(harness_.job("low").gang->head.stop_reason(), Stop::REASON_PREEMPTED);
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING) << "the room is given at once";
}

TEST_F(SchedulerCoreUpdateTest, WhoRunsIsProtectedByAHigherPriority) {
  executor_.Connect();
  RunJob("a", Spec(4, 0));
  RunJob("b", Spec(4, 0));
  ASSERT_TRUE(Update("a", Priority(9)).ok());
  AdvanceHeard(absl::Minutes(6));
  Submit("high", Spec(4, 5));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("b").gang->head.stop_reason(), Stop::REASON_PREEMPTED);
}

TEST_F(SchedulerCoreUpdateTest, AWaitingJobThatIsRaisedHasOthersEnded) {
  executor_.Connect();
  RunJob("low", Spec(8, 5));
  Submit("waits", Spec(8, 5));
  AdvanceHeard(absl::Minutes(6));
  EXPECT_EQ(StateOf("low"), Job::STATE_RUNNING);
  ASSERT_TRUE(Update("waits", Priority(6)).ok());
  EXPECT_EQ(StateOf("waits"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("low"), "PREEMPTED");
}

TEST_F(SchedulerCoreUpdateTest, RoomThatIsMadeStaysMade) {
  executor_.Connect();
  RunJob("low", Spec(8, 0));
  AdvanceHeard(absl::Minutes(6));
  executor_.set_slow_to_stop();
  Submit("high", Spec(8, 5));
  ASSERT_EQ(ReasonOf("high"), "MAKING_ROOM");
  ASSERT_TRUE(Update("high", Priority(6)).ok());
  EXPECT_EQ(ReasonOf("high"), "MAKING_ROOM");
  Reconnect();
  for (const std::string& key : executor_.Keys()) executor_.End(key, TaskEnd::CAUSE_STOPPED);
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreUpdateTest, AShorterLimitCountsFromTheStart) {
  for (const bool new_leader : {false, true}) {
    if (!executor_.connected()) executor_.Connect();
    const std::string uid = new_leader ? "b" : "a";
    RunJob(uid, Spec(1, 0, absl::Hours(10)));
    AdvanceHeard(absl::Minutes(20));
    ASSERT_TRUE(Update(uid, TimeLimit(absl::Minutes(25))).ok());
    if (new_leader) Reconnect();
    AdvanceHeard(absl::Minutes(4));
    EXPECT_EQ(StateOf(uid), Job::STATE_RUNNING);
    AdvanceHeard(absl::Minutes(2));
    EXPECT_EQ(StateOf(uid), Job::STATE_FAILED);
    EXPECT_EQ(ReasonOf(uid), "TIME_LIMIT");
    EXPECT_EQ(harness_.job(uid).state.message(), "ran for its time limit of 25m");
  }
}

TEST_F(SchedulerCoreUpdateTest, ALimitThatIsOverEndsItAtOnce) {
  executor_.Connect();
  RunJob("a", Spec(1));
  AdvanceHeard(absl::Minutes(20));
  ASSERT_TRUE(Update("a", TimeLimit(absl::Minutes(10))).ok());
  EXPECT_LE(*harness_.core().NextDeadline(), harness_.now().boot);
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(StateOf("a"), Job::STATE_FAILED);
  EXPECT_EQ(ReasonOf("a"), "TIME_LIMIT");
}

TEST_F(SchedulerCoreUpdateTest, ALongerLimitOrNoneLetsItRunOn) {
  executor_.Connect();
  RunJob("longer", Spec(1, 0, absl::Minutes(10)));
  RunJob("endless", Spec(1, 0, absl::Minutes(10)));
  AdvanceHeard(absl::Minutes(9));
  ASSERT_TRUE(Update("longer", TimeLimit(absl::Minutes(30))).ok());
  ASSERT_TRUE(Update("endless", TimeLimit(absl::ZeroDuration())).ok());
  EXPECT_FALSE(harness_.job("endless").spec.spec().has_time_limit());
  AdvanceHeard(absl::Minutes(15));
  EXPECT_EQ(StateOf("longer"), Job::STATE_RUNNING);
  EXPECT_EQ(StateOf("endless"), Job::STATE_RUNNING);
  AdvanceHeard(absl::Minutes(7));
  EXPECT_EQ(StateOf("longer"), Job::STATE_FAILED);
  EXPECT_EQ(StateOf("endless"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreUpdateTest, EstimatesFollowTheLimitsOfWhoRuns) {
  executor_.Connect();
  RunJob("all", Spec(8, 0, absl::Hours(10)));
  Submit("kept", Spec(8));
  const absl::Duration at_first = Wait("kept");
  EXPECT_GT(at_first, absl::Hours(9));
  ASSERT_TRUE(Update("all", TimeLimit(absl::Hours(1))).ok());
  EXPECT_LT(Wait("kept"), absl::Hours(2));
  ASSERT_TRUE(Update("all", TimeLimit(absl::Hours(20))).ok());
  EXPECT_GT(Wait("kept"), absl::Hours(19));
}

TEST_F(SchedulerCoreUpdateTest, WithALimitItMayRunInRoomThatIsKept) {
  executor_.Connect();
  RunJob("some", Spec(4, 0, absl::Hours(10)));
  Submit("kept", Spec(8));
  Submit("small", Spec(1));
  EXPECT_EQ(ReasonOf("small"), "RESERVED");
  ASSERT_TRUE(Update("small", TimeLimit(absl::Hours(1))).ok());
  EXPECT_EQ(StateOf("small"), Job::STATE_PREPARING);
}

class ArrayUpdateTest : public SchedulerCoreUpdateTest {
 protected:
  static JobSpec Array(int size, int max_parallel = 0) {
    JobSpec spec = Spec(8);
    spec.mutable_array()->set_size(size);
    spec.mutable_array()->set_max_parallel(max_parallel);
    return spec;
  }
  const JobEntry& Element(int index) { return harness_.job(ElementUid("sweep", index)); }
  int PriorityOfElement(int index) { return Element(index).spec.spec().priority(); }
};

TEST_F(ArrayUpdateTest, ElementsThatHaveNotEndedFollow) {
  executor_.Connect();
  Submit("sweep", Array(3));
  StartAll();
  Finish(ElementUid("sweep", 0));
  ASSERT_EQ(Element(0).state.state(), Job::STATE_SUCCEEDED);
  const auto changed = Update("sweep", Priority(4));
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->spec().priority(), 4);
  EXPECT_EQ(PriorityOfElement(0), 0);
  EXPECT_EQ(PriorityOfElement(1), 4);
  EXPECT_EQ(PriorityOfElement(2), 4);
  EXPECT_FALSE(harness_.job("sweep").state.elements().has_change());
}

TEST_F(ArrayUpdateTest, AnElementIsChangedByItselfAndFollowsTheNextTime) {
  Submit("sweep", Array(3));
  ASSERT_TRUE(Update("sweep-2", Priority(4)).ok());
  EXPECT_EQ(PriorityOfElement(1), 0);
  EXPECT_EQ(PriorityOfElement(2), 4);
  EXPECT_EQ(PriorityOf("sweep"), 0);
  const auto stored = harness_.records();
  ASSERT_TRUE(Update("sweep-2", Priority(4)).ok());
  EXPECT_TRUE(harness_.records() == stored);
  executor_.Connect();
  EXPECT_EQ(Element(2).state.state(), Job::STATE_PREPARING) << "it goes first";
  ASSERT_TRUE(Update("sweep", Priority(0)).ok()) << "as the array is, but not all of it";
  EXPECT_EQ(PriorityOfElement(2), 0);
}

TEST_F(ArrayUpdateTest, AnUpdateThatIsCutShortIsGoneOnWith) {
  for (size_t writes = 0; writes < 8; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness{Config()};
    harness.NewLeader();
    harness.Submit("sweep", Array(4));
    UpdateJob update = UpdateOf("sweep", Priority(4));
    update.change.set_hold(true);
    harness.CrashIn(update, writes);
    const bool decided = writes > 0;
    EXPECT_EQ(harness.job("sweep").spec.spec().priority(), decided ? 4 : 0);
    EXPECT_EQ(harness.job("sweep").state.hold(), decided);
    EXPECT_FALSE(harness.job("sweep").state.elements().has_change());
    for (int index = 0; index < 4; ++index) {
      const JobEntry& element = harness.job(ElementUid("sweep", index));
      EXPECT_EQ(element.spec.spec().priority(), decided ? 4 : 0) << index;
      EXPECT_EQ(element.state.hold(), decided) << index;
      EXPECT_EQ(element.state.reason() == "HELD", decided) << index;
    }
  }
}

}  // namespace
}  // namespace capstan::scheduler
