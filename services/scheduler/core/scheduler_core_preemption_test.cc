// Who ends for whom, what is promised to both, and what a change of leader in between does to it.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/store/store.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/records.pb.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;

// Two Nodes of 4 cores.
class PreemptionTest : public SchedulerCoreTest {
 protected:
  static JobSpec Spec(int replicas, int priority, const std::string& queue = "default") {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    spec.set_priority(priority);
    spec.set_queue(absl::StrCat("queues/", queue));
    return spec;
  }
  // `count` Jobs of one core each, low0 and so on, that nothing protects any more.
  void FillWithLow(int count) {
    executor_.Connect();
    for (int i = 0; i < count; ++i) RunJob(absl::StrCat("low", i), Spec(1, 0));
    AdvanceHeard(absl::Minutes(6));
  }
  CreateJob Creating(const std::string& id, JobSpec spec) {
    CreateJob create;
    create.call = harness_.next_call();
    create.project = "projects/p";
    create.job_id = create.uid = id;
    create.submitter = "person-1";
    ApplyDefaults("projects/p", Config(), &spec);
    create.spec = std::move(spec);
    return create;
  }
  void CreateGuaranteed(const std::string& id, int64_t cpu_millis, bool allow_non_preemptible) {
    CreateQueue create;
    create.call = harness_.next_call();
    create.queue_id = create.uid = id;
    auto& quota = *create.queue.add_quotas();
    quota.set_resource("cpu");
    quota.set_guarantee(cpu_millis);
    create.queue.set_allow_non_preemptible(allow_non_preemptible);
    const std::vector<Effect> effects = harness_.Apply(create);
    executor_.Take(effects);
    const auto replies = Of<ReplyQueue>(effects);
    ASSERT_TRUE(replies[0].queue.ok()) << replies[0].queue.status();
  }
  // Ends what was told to stop.
  void EndStopped() {
    for (const std::string& key : executor_.Keys()) {
      const auto task = executor_.tasks().find(key);
      if (task == executor_.tasks().end()) continue;
      if (task->second.desired.phase() != DesiredTask::PHASE_STOP) continue;
      executor_.End(key, TaskEnd::CAUSE_STOPPED);
    }
  }
  // Two of eight end for one; its executor is away, and `meanwhile` happens, when another leads.
  void ChangeLeadersWhileRoomIsMade(absl::FunctionRef<void()> meanwhile) {
    FillWithLow(8);
    executor_.set_slow_to_stop();
    executor_.Take(harness_.Submit("high", Spec(2, 10)));
    ASSERT_EQ(ReasonOf("high"), "MAKING_ROOM");
    executor_.Disconnect();
    meanwhile();
    harness_.Deliver(harness_.NewLeader());
    // Somebody comes before anything was heard of the Nodes.
    harness_.Deliver(harness_.Submit("early", Spec(1, 0)));
    EXPECT_EQ(ReasonOf("high"), "MAKING_ROOM");
    executor_.Connect();
    EndStopped();
    executor_.Renew();
    harness_.Deliver(harness_.Advance(absl::Seconds(1)));
    EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
    EXPECT_EQ(StateOf("early"), Job::STATE_QUEUED);
    int preempted = 0;
    for (int i = 0; i < 8; ++i) {
      preempted += harness_.job(absl::StrCat("low", i)).state.preemptions();
    }
    EXPECT_EQ(preempted, 2);
  }
  std::set<std::string> In(Job::State state) {
    std::set<std::string> uids;
    for (const auto& [uid, job] : harness_.core().model().jobs) {
      if (job.state.state() == state) uids.insert(uid);
    }
    return uids;
  }
};

TEST_F(PreemptionTest, EndsAsManyAsItTakes) {
  constexpr int kLow = 520;
  FakeExecutor wide("wide", 2, kLow / 2 * 1000, &harness_);
  wide.Connect();
  JobSpec low = Spec(1, 0);
  low.mutable_array()->set_size(kLow);
  low.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(1 << 20);
  wide.Take(harness_.Submit("low", low));
  // A step places a few of them.
  for (int step = 0; step < kLow && In(Job::STATE_RUNNING).size() < kLow; ++step) {
    wide.Take(harness_.Advance(absl::Milliseconds(1)));
    wide.PrepareAll();
    wide.RunAll();
  }
  ASSERT_EQ(In(Job::STATE_RUNNING).size(), size_t{kLow});
  for (absl::Duration past; past < absl::Minutes(6); past += absl::Seconds(10)) {
    wide.Renew();
    wide.Take(harness_.Advance(absl::Seconds(10)));
  }
  wide.set_slow_to_stop();
  JobSpec high = Spec(kLow, 10);
  high.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(1 << 20);
  wide.Take(harness_.Submit("high", high));
  EXPECT_EQ(ReasonOf("high"), "MAKING_ROOM");
  EXPECT_EQ(In(Job::STATE_STOPPING).size(), size_t{kLow});
}

TEST_F(PreemptionTest, TheLargestDecisionFitsIntoARecord) {
  rec::JobStateRecord decision;
  for (size_t i = 0; i < kMaxVictims; ++i) {
    rec::JobStateRecord::Victim& victim = *decision.add_making_room();
    victim.set_job_uid("0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b");
    victim.set_generation(int64_t{1} << 40);
    victim.set_shrinks(true);
    victim.mutable_need()->set_kind(rec::JobStateRecord::Need::KIND_ROOM);
    victim.mutable_need()->set_tasks(kMaxVictims);
  }
  // With room for all else that is said of a Job.
  EXPECT_LT(decision.ByteSizeLong(), store::kMaxValueBytes * 3 / 4);
}

TEST_F(PreemptionTest, EndsOneWhereOneSuffices) {
  FillWithLow(8);
  const std::vector<Effect> effects = harness_.Submit("high", Spec(1, 10));
  ASSERT_EQ(In(Job::STATE_STOPPING).size(), 1u);
  const std::string victim = *In(Job::STATE_STOPPING).begin();
  EXPECT_EQ(ReasonOf(victim), "PREEMPTED");
  EXPECT_EQ(StateOf("high"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("high"), "MAKING_ROOM");
  const auto& record = harness_.job("high").state.making_room();
  ASSERT_EQ(record.size(), 1);
  EXPECT_EQ(record[0].need().kind(), rec::JobStateRecord::Need::KIND_ROOM);
  EXPECT_EQ(record[0].need().tasks(), 0);
  ASSERT_EQ(harness_.job(victim).state.disruptions_size(), 1);
  EXPECT_EQ(harness_.job(victim).state.disruptions(0).need(), "otherwise it would have no room");
  // Its Tasks are told why, and get their grace.
  bool told = false;
  for (const SendDown& send : Of<SendDown>(effects)) {
    for (const DesiredTask& task : send.message.desired().tasks()) {
      if (task.phase() != DesiredTask::PHASE_STOP) continue;
      told = true;
      EXPECT_EQ(task.key().job_uid(), victim);
      EXPECT_EQ(task.stop().reason(), Stop::REASON_PREEMPTED);
      EXPECT_EQ(ToDuration(task.stop().grace()), absl::Seconds(30));
    }
  }
  EXPECT_TRUE(told);
  executor_.Take(effects);
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf(victim), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf(victim), "PREEMPTED");
  EXPECT_EQ(harness_.job(victim).state.preemptions(), 1);
  EXPECT_EQ(harness_.job(victim).state.counted_restarts(), 0);
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 7u);
}

TEST_F(PreemptionTest, NobodyElseTakesTheRoomThatIsMade) {
  FillWithLow(8);
  const std::vector<Effect> ending = harness_.Submit("high", Spec(1, 10));
  ASSERT_EQ(ReasonOf("high"), "MAKING_ROOM");
  // While the victim drains, and as it ends, others come; even one that goes first by priority.
  harness_.Submit("other", Spec(1, 0));
  harness_.Submit("more", Spec(1, 9));
  executor_.Take(ending);
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("other"), Job::STATE_QUEUED);
}

TEST_F(PreemptionTest, WaitsForWhatEndsAnywayRatherThanEndAnother) {
  executor_.Connect();
  RunJob("wide", Spec(4, 0));
  for (int i = 0; i < 4; ++i) RunJob(absl::StrCat("low", i), Spec(1, 1));
  AdvanceHeard(absl::Minutes(6));
  const std::vector<Effect> ending = harness_.Submit("high0", Spec(2, 10));
  ASSERT_EQ(In(Job::STATE_STOPPING), std::set<std::string>{"wide"});
  harness_.Submit("high1", Spec(2, 10));
  EXPECT_EQ(In(Job::STATE_STOPPING), std::set<std::string>{"wide"});
  executor_.Take(ending);
  EXPECT_EQ(StateOf("high0"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("high1"), Job::STATE_PREPARING);
}

TEST_F(PreemptionTest, EndsNobodyWhereTheWholeGangWouldNotFit) {
  FillWithLow(8);
  Submit("high", Spec(9, 10));
  EXPECT_TRUE(In(Job::STATE_STOPPING).empty());
  EXPECT_EQ(ReasonOf("high"), "INSUFFICIENT_RESOURCES");
}

TEST_F(PreemptionTest, EndsWholeGangsAndAmongThemTheOneThatLosesLeast) {
  executor_.Connect();
  RunJob("saves", [] {
    JobSpec spec = Spec(4, 0);
    *spec.mutable_checkpoint_period() = ToProto(absl::Minutes(1));
    return spec;
  }());
  RunJob("never", Spec(4, 0));
  AdvanceHeard(absl::Minutes(6));
  Submit("high", Spec(1, 10));
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("saves"), "PREEMPTED");
  for (const rec::TaskRecord& task : harness_.job("saves").gang->tasks) {
    EXPECT_EQ(task.end().cause(), TaskEnd::CAUSE_STOPPED);
  }
  EXPECT_EQ(StateOf("never"), Job::STATE_RUNNING);
}

TEST_F(PreemptionTest, WhoHasNotRunForLongIsProtectedAndThenNot) {
  executor_.Connect();
  for (int i = 0; i < 8; ++i) RunJob(absl::StrCat("low", i), Spec(1, 0));
  Submit("high", Spec(1, 10));
  EXPECT_EQ(ReasonOf("high"), "INSUFFICIENT_RESOURCES");
  AdvanceHeard(absl::Minutes(4));
  EXPECT_EQ(StateOf("high"), Job::STATE_QUEUED);
  AdvanceHeard(absl::Minutes(2));
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
}

TEST_F(PreemptionTest, EqualPriorityAndOtherQueuesEndNobody) {
  FillWithLow(8);
  CreateGuaranteed("b", 0, false);
  Submit("same", Spec(1, 0));
  Submit("other", Spec(1, 1000, "b"));
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 8u);
}

TEST_F(PreemptionTest, ItIsSaidOfEachVictimWhyItIsNeeded) {
  FillWithLow(4);
  CreateQueue create;
  create.call = harness_.next_call();
  create.queue_id = create.uid = "narrow";
  auto& quota = *create.queue.add_quotas();
  quota.set_resource("cpu");
  quota.mutable_borrowing_limit()->set_amount(2000);
  executor_.Take(harness_.Apply(create));
  // Three cores are free.
  RunJob("own", Spec(1, 0, "narrow"));
  AdvanceHeard(absl::Minutes(6));
  executor_.set_slow_to_stop();
  executor_.Take(harness_.Submit("high", Spec(5, 10)));
  ASSERT_EQ(ReasonOf("high"), "MAKING_ROOM");
  const auto& ends = harness_.job("high").state.making_room();
  ASSERT_EQ(ends.size(), 2);
  for (const auto& victim : ends) {
    EXPECT_EQ(victim.need().kind(), rec::JobStateRecord::Need::KIND_ROOM);
    EXPECT_EQ(victim.need().tasks(), 4);
  }
  EndStopped();
  executor_.PrepareAll();
  executor_.RunAll();
  executor_.Take(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/high", ""}));
  EndStopped();
  // There is room, but both together are beyond the limit of their Queue.
  executor_.Take(harness_.Submit("second", Spec(2, 10, "narrow")));
  ASSERT_EQ(ReasonOf("second"), "MAKING_ROOM");
  const auto& second = harness_.job("second").state.making_room();
  ASSERT_EQ(second.size(), 1);
  EXPECT_EQ(second[0].job_uid(), "own");
  EXPECT_EQ(second[0].need().kind(), rec::JobStateRecord::Need::KIND_QUEUES);
  EXPECT_EQ(harness_.job("own").state.disruptions(0).need(),
            "otherwise its Queues would not let it start");
}

// One that its Queue's limit keeps back does not let go of room that is kept for others of it.
TEST_F(PreemptionTest, RoomThatIsKeptForALesserJobKeepsNobodyFromEndingOthers) {
  executor_.Connect();
  CreateQueue create;
  create.call = harness_.next_call();
  create.queue_id = create.uid = "narrow";
  auto& quota = *create.queue.add_quotas();
  quota.set_resource("cpu");
  quota.set_guarantee(0);
  quota.mutable_borrowing_limit()->set_amount(6000);
  executor_.Take(harness_.Apply(create));
  RunJob("low", Spec(4, 0, "narrow"));
  RunJob("beside", Spec(4, 0));
  // What runs is protected yet.
  Submit("high", Spec(3, 5, "narrow"));
  EXPECT_EQ(ReasonOf("high"), "QUEUE_LIMIT");
  Submit("kept", Spec(2, 0, "narrow"));
  ASSERT_TRUE(harness_.job("kept").state.has_estimated_start_time());
  AdvanceHeard(absl::Minutes(6));
  EXPECT_EQ(harness_.job("low").state.preemptions(), 1);
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
}

TEST_F(PreemptionTest, AQueueGetsItsGuaranteeBackAndNoMore) {
  FillWithLow(8);
  CreateGuaranteed("own", 4000, false);
  Submit("mine", Spec(4, -10, "own"));
  EXPECT_EQ(StateOf("mine"), Job::STATE_PREPARING);
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 4u);
  executor_.PrepareAll();
  executor_.RunAll();
  Submit("beyond", Spec(1, -10, "own"));
  AdvanceHeard(absl::Minutes(12));
  // Nor is there a way back for those that made room, however long all of it runs.
  EXPECT_EQ(StateOf("beyond"), Job::STATE_QUEUED);
  EXPECT_EQ(StateOf("mine"), Job::STATE_RUNNING);
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 5u);
}

TEST_F(PreemptionTest, WhoIsNotPreemptibleStaysAndIsTakenOnlyWhereTheQueueSaysSo) {
  JobSpec never = Spec(8, 0);
  never.set_preemption(JobSpec::PREEMPTION_NEVER);
  const auto refused = Of<ReplyJob>(harness_.Apply(Creating("never", never)));
  ASSERT_EQ(refused.size(), 1u);
  const auto violations = status::GetFieldViolations(refused[0].job.status());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "job.spec.preemption");
  executor_.Connect();
  CreateGuaranteed("steady", 0, true);
  never.set_queue("queues/steady");
  RunJob("never", never);
  AdvanceHeard(absl::Minutes(6));
  Submit("high", Spec(1, 10, "steady"));
  EXPECT_EQ(StateOf("never"), Job::STATE_RUNNING);
  EXPECT_EQ(StateOf("high"), Job::STATE_QUEUED);
}

TEST_F(PreemptionTest, ANewLeaderCarriesOutWhatWasDecided) {
  // Of the decision's writes all prefixes but the empty one: first who it is for, then the victims.
  for (size_t writes = 1; writes <= 3; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness{Config()};
    FakeExecutor executor("local", 2, 4000, &harness);
    executor.Connect();
    for (int i = 0; i < 2; ++i) {
      executor.Take(harness.Submit(absl::StrCat("low", i), Spec(4, 0)));
      executor.PrepareAll();
      executor.RunAll();
    }
    for (int i = 0; i < 120; ++i) {
      executor.Renew();
      executor.Take(harness.Advance(absl::Seconds(3)));
    }
    JobSpec spec = Spec(8, 10);
    ApplyDefaults("projects/p", Config(), &spec);
    CreateJob create;
    create.call = harness.next_call();
    create.project = "projects/p";
    create.job_id = create.uid = "high";
    create.spec = spec;
    harness.CrashIn(create, writes);
    for (const char* low : {"low0", "low1"}) {
      EXPECT_EQ(harness.job(low).state.reason(), "PREEMPTED");
      EXPECT_EQ(harness.job(low).state.state(), Job::STATE_STOPPING);
    }
    EXPECT_EQ(harness.job("high").state.reason(), "MAKING_ROOM");
    executor.Disconnect();
    executor.Connect();
    EXPECT_EQ(harness.job("high").state.state(), Job::STATE_PREPARING);
    EXPECT_EQ(harness.job("high").state.generation(), 1);
    EXPECT_EQ(harness.job("low0").state.preemptions(), 1);
  }
}

// A round in which nothing is known of the Nodes yet says nothing of what has become of the room.
TEST_F(PreemptionTest, ANewLeaderKeepsThePromiseUntilItHasHeardOfTheNodes) {
  ChangeLeadersWhileRoomIsMade([] {});
}

TEST_F(PreemptionTest, ANewLeaderKeepsThePromiseThatHasComeTrueUnheard) {
  ChangeLeadersWhileRoomIsMade([this] { EndStopped(); });
}

// One whose Cluster stays away waits as all others do.
TEST_F(PreemptionTest, APromiseEndsWhereNothingIsHeardForLong) {
  FillWithLow(8);
  executor_.set_slow_to_stop();
  executor_.Take(harness_.Submit("high", Spec(2, 10)));
  ASSERT_EQ(ReasonOf("high"), "MAKING_ROOM");
  executor_.Disconnect();
  harness_.Deliver(harness_.NewLeader());
  harness_.Deliver(harness_.Submit("early", Spec(1, 10)));
  EXPECT_EQ(ReasonOf("high"), "MAKING_ROOM");
  for (int i = 0; i < 20 && ReasonOf("high") == "MAKING_ROOM"; ++i) {
    harness_.Deliver(harness_.Advance(absl::Minutes(1)));
  }
  EXPECT_NE(ReasonOf("high"), "MAKING_ROOM");
}

TEST_F(PreemptionTest, WhoIsCancelledMeanwhileLeavesTheRoomToOthers) {
  FillWithLow(8);
  const std::vector<Effect> ending = harness_.Submit("high", Spec(1, 10));
  const std::string victim = *In(Job::STATE_STOPPING).begin();
  harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/high", ""});
  EXPECT_EQ(StateOf("high"), Job::STATE_CANCELLED);
  executor_.Take(ending);
  Advance(absl::Seconds(1));
  EXPECT_EQ(StateOf(victim), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job(victim).state.generation(), 2);
}

}  // namespace
}  // namespace capstan::scheduler
