// Jobs of several Queues: who is next, what limits hold back, what a tree of Queues may look like.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::ResourceQuota;
using capstan::type::v1::TaskEnd;

// Two Nodes of four cores each.
class SchedulerCoreQueueTest : public SchedulerCoreTest {
 protected:
  static Queue Below(const std::string& parent, int64_t weight = 100) {
    Queue queue;
    queue.set_weight(weight);
    if (!parent.empty()) queue.set_parent(absl::StrCat("queues/", parent));
    return queue;
  }
  static ResourceQuota* Cpu(Queue* queue) {
    ResourceQuota* quota = queue->add_quotas();
    quota->set_resource("cpu");
    return quota;
  }
  absl::Status Create(const std::string& id, const Queue& queue) {
    CreateQueue create;
    create.call = harness_.next_call();
    create.queue_id = id;
    create.uid = absl::StrCat("uid-", id);
    create.queue = queue;
    const std::vector<Effect> effects = harness_.Apply(create);
    executor_.Take(effects);
    return Of<ReplyQueue>(effects)[0].queue.status();
  }
  absl::Status Update(const std::string& id, const std::vector<std::string>& fields, Queue queue) {
    UpdateQueue update;
    update.call = harness_.next_call();
    update.queue_id = id;
    update.etag = queue.etag();
    for (const std::string& field : fields) update.update_mask.add_paths(field);
    update.queue = std::move(queue);
    const std::vector<Effect> effects = harness_.Apply(update);
    executor_.Take(effects);
    return Of<ReplyQueue>(effects)[0].queue.status();
  }
  static JobSpec In(const std::string& queue, int replicas = 1, int64_t cpu_millis = 1000) {
    JobSpec spec = CoreHarness::Spec(replicas, cpu_millis);
    spec.set_queue(absl::StrCat("queues/", queue));
    return spec;
  }
  absl::Status Refused(const JobSpec& spec) {
    CreateJob create;
    create.call = harness_.next_call();
    create.project = "projects/p";
    create.job_id = create.uid = "refused";
    create.spec = spec;
    const std::vector<Effect> effects = harness_.Apply(create);
    const std::vector<ReplyJob> replies = Of<ReplyJob>(effects);
    return replies.empty() ? absl::OkStatus() : replies[0].job.status();
  }
  std::string FieldOf(const absl::Status& status) {
    const auto violations = status::GetFieldViolations(status);
    return violations.size() == 1 ? violations[0].field : status.ToString();
  }
};

TEST_F(SchedulerCoreQueueTest, QueuesShareByWeightWhateverCameFirst) {
  ASSERT_TRUE(Create("a", Below("")).ok());
  ASSERT_TRUE(Create("b", Below("", 300)).ok());
  for (int i = 0; i < 8; ++i) Submit(absl::StrCat("a", i), In("a"));
  for (int i = 0; i < 8; ++i) Submit(absl::StrCat("b", i), In("b"));
  executor_.Connect();
  int placed_a = 0, placed_b = 0;
  for (int i = 0; i < 8; ++i) {
    placed_a += StateOf(absl::StrCat("a", i)) == Job::STATE_PREPARING ? 1 : 0;
    placed_b += StateOf(absl::StrCat("b", i)) == Job::STATE_PREPARING ? 1 : 0;
  }
  EXPECT_EQ(placed_a, 2);
  EXPECT_EQ(placed_b, 6);
  EXPECT_EQ(StateOf("a0"), Job::STATE_PREPARING) << "within a Queue the first goes first";
  EXPECT_EQ(StateOf("a1"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreQueueTest, ALimitHoldsBackUntilItsQueueUsesLess) {
  executor_.Connect();
  Queue limited = Below("");
  Cpu(&limited)->set_guarantee(2000);
  limited.mutable_quotas(0)->mutable_borrowing_limit()->set_amount(0);
  ASSERT_TRUE(Create("limited", limited).ok());
  Submit("first", In("limited", 2));
  Submit("second", In("limited", 2));
  EXPECT_EQ(StateOf("first"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("second"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("second"), "QUEUE_LIMIT");
  EXPECT_EQ(
      harness_.job("second").state.message(),
      "queue \"limited\" may have 2000 of cpu; the Job needs 2000 beside what runs there or is "
      "kept for others");
  // A new leader comes to the same.
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(ReasonOf("second"), "QUEUE_LIMIT");
  executor_.PrepareAll();
  executor_.RunAll();
  const auto stored = harness_.job("second").state.SerializeAsString();
  executor_.End("first/1/worker-0", TaskEnd::CAUSE_EXITED);
  // Less is in use, and nothing of what waits on is written.
  EXPECT_EQ(harness_.job("second").state.SerializeAsString(), stored);
  executor_.End("first/1/worker-1", TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(StateOf("second"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreQueueTest, AGangComesBackOnlyWithinItsLimit) {
  executor_.Connect();
  Queue limited = Below("");
  Cpu(&limited)->set_guarantee(2000);
  limited.mutable_quotas(0)->mutable_borrowing_limit()->set_amount(0);
  ASSERT_TRUE(Create("limited", limited).ok());
  Submit("gang", In("limited", 2));
  Submit("other", In("limited"));
  executor_.PrepareAll();
  executor_.RunAll();
  // One has done its work, and another Job begins in what it has left.
  executor_.End("gang/1/worker-0", TaskEnd::CAUSE_EXITED);
  ASSERT_EQ(StateOf("other"), Job::STATE_PREPARING);
  // Both would run again.
  executor_.End("gang/1/worker-1", TaskEnd::CAUSE_LOST);
  EXPECT_EQ(StateOf("gang"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("gang"), "QUEUE_LIMIT");
  executor_.PrepareAll();
  executor_.RunAll();
  executor_.End("other/1/worker-0", TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(StateOf("gang"), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job("gang").state.generation(), 2);
}

TEST_F(SchedulerCoreQueueTest, WhatIsNotLentStaysFree) {
  executor_.Connect();
  Queue keeps = Below("");
  Cpu(&keeps)->set_guarantee(6000);
  keeps.mutable_quotas(0)->mutable_lending_limit()->set_amount(0);
  ASSERT_TRUE(Create("keeps", keeps).ok());
  Submit("other", CoreHarness::Spec(2, 1000));
  Submit("more", CoreHarness::Spec(1, 1000));
  EXPECT_EQ(StateOf("other"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("more"), "QUEUE_LIMIT");
  Submit("own", In("keeps", 6));
  EXPECT_EQ(StateOf("own"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("more"), "QUEUE_LIMIT");
}

TEST_F(SchedulerCoreQueueTest, AChangedLimitBindsWhatStartsFromThenOn) {
  executor_.Connect();
  Queue limited = Below("");
  Cpu(&limited)->set_guarantee(2000);
  limited.mutable_quotas(0)->mutable_borrowing_limit()->set_amount(0);
  ASSERT_TRUE(Create("limited", limited).ok());
  Submit("first", In("limited", 2));
  Submit("second", In("limited", 2));
  ASSERT_EQ(ReasonOf("second"), "QUEUE_LIMIT");
  limited.mutable_quotas(0)->set_guarantee(4000);
  ASSERT_TRUE(Update("limited", {"quotas"}, limited).ok());
  EXPECT_EQ(StateOf("second"), Job::STATE_PREPARING);
  limited.mutable_quotas(0)->set_guarantee(1000);
  ASSERT_TRUE(Update("limited", {"quotas"}, limited).ok());
  EXPECT_EQ(StateOf("first"), Job::STATE_PREPARING) << "nothing is stopped by it";
  Submit("third", In("limited", 1));
  EXPECT_EQ(ReasonOf("third"), "QUEUE_LIMIT");
}

TEST_F(SchedulerCoreQueueTest, UpdatesAreWholeOrRefused) {
  ASSERT_TRUE(Create("team", Below("", 300)).ok());
  ASSERT_TRUE(Create("part", Below("team")).ok());
  Queue change;
  change.set_weight(7);
  change.set_cordon(true);
  const std::string created = harness_.core().model().queues.at("team").queue().etag();
  ASSERT_TRUE(Update("team", {"weight"}, change).ok());
  const Queue& team = harness_.core().model().queues.at("team").queue();
  EXPECT_EQ(team.weight(), 7);
  EXPECT_FALSE(team.cordon()) << "not in the mask";
  EXPECT_NE(team.etag(), created);
  change.set_etag(created);
  EXPECT_EQ(Update("team", {"weight"}, change).code(), absl::StatusCode::kAborted);
  change.set_etag("7");
  EXPECT_EQ(FieldOf(Update("team", {"weight"}, change)), "etag");
  change.set_etag(team.etag());
  EXPECT_TRUE(Update("team", {"weight"}, change).ok());
  change.clear_etag();
  change.set_parent("queues/part");
  EXPECT_EQ(FieldOf(Update("team", {"parent"}, change)), "queue.parent");
  EXPECT_EQ(FieldOf(Update("team", {"no_such"}, change)), "update_mask");
  EXPECT_EQ(Update("absent", {"weight"}, change).code(), absl::StatusCode::kNotFound);
  Cpu(&change)->set_guarantee(-1);
  EXPECT_EQ(FieldOf(Update("team", {"quotas"}, change)), "queue.quotas[0].guarantee");
  EXPECT_EQ(harness_.core().model().queues.at("team").queue().quotas_size(), 0);
}

TEST_F(SchedulerCoreQueueTest, AHeldQueueTakesJobsAndStartsNone) {
  executor_.Connect();
  ASSERT_TRUE(Create("team", Below("")).ok());
  ASSERT_TRUE(Create("part", Below("team")).ok());
  RunJob("before", In("part"));
  Submit("large", In("part", 80));
  ASSERT_EQ(ReasonOf("large"), "INSUFFICIENT_RESOURCES");
  Queue change;
  change.set_hold(true);
  ASSERT_TRUE(Update("team", {"hold"}, change).ok());
  Submit("held", In("part"));
  Submit("other", CoreHarness::Spec(1, 1000));
  EXPECT_EQ(ReasonOf("held"), "QUEUE_HELD");
  EXPECT_EQ(harness_.job("held").state.message(),
            "queues/team is held or drained: nothing starts in it");
  EXPECT_EQ(ReasonOf("large"), "QUEUE_HELD");
  EXPECT_EQ(StateOf("before"), Job::STATE_RUNNING);
  EXPECT_EQ(StateOf("other"), Job::STATE_PREPARING);
  // Nobody is woken for it, under this leader or the next.
  EXPECT_NE(harness_.core().NextDeadline(), BootTime::InfinitePast());
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  Advance(absl::Seconds(1));
  EXPECT_EQ(ReasonOf("held"), "QUEUE_HELD");
  EXPECT_NE(harness_.core().NextDeadline(), BootTime::InfinitePast());
  change.set_hold(false);
  ASSERT_TRUE(Update("team", {"hold"}, change).ok());
  EXPECT_EQ(StateOf("held"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("large"), "INSUFFICIENT_RESOURCES");
}

TEST_F(SchedulerCoreQueueTest, ACordonedQueueTakesNoJobsAndGoesOn) {
  executor_.Connect();
  ASSERT_TRUE(Create("team", Below("")).ok());
  ASSERT_TRUE(Create("part", Below("team")).ok());
  Submit("large", In("part", 8));
  Submit("waits", In("part"));
  Queue change;
  change.set_cordon(true);
  ASSERT_TRUE(Update("team", {"cordon"}, change).ok());
  EXPECT_EQ(status::Reason(Refused(In("part"))), "QUEUE_CORDONED");
  executor_.PrepareAll();
  executor_.RunAll();
  for (int i = 0; i < 8; ++i) {
    executor_.End(absl::StrCat("large/1/worker-", i), TaskEnd::CAUSE_EXITED);
  }
  EXPECT_EQ(StateOf("waits"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreQueueTest, ADrainedQueueIsEmptiedAndLendsWhatItKept) {
  executor_.Connect();
  Queue keeps = Below("");
  Cpu(&keeps)->set_guarantee(6000);
  keeps.mutable_quotas(0)->mutable_lending_limit()->set_amount(0);
  ASSERT_TRUE(Create("keeps", keeps).ok());
  RunJob("own", In("keeps", 2));
  Submit("wide", CoreHarness::Spec(3, 1000));
  EXPECT_EQ(ReasonOf("wide"), "QUEUE_LIMIT");
  Queue change;
  change.set_drain(true);
  ASSERT_TRUE(Update("keeps", {"drain"}, change).ok());
  EXPECT_EQ(StateOf("own"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("own"), "QUEUE_HELD");
  EXPECT_EQ(harness_.job("own").state.counted_restarts(), 0);
  EXPECT_EQ(StateOf("wide"), Job::STATE_PREPARING);
  EXPECT_EQ(status::Reason(Refused(In("keeps"))), "QUEUE_CORDONED");
}

TEST_F(SchedulerCoreQueueTest, SubmissionsAboveTheRateAreRefusedUntilThereIsRoomAgain) {
  Queue team = Below("");
  team.mutable_submit_rate()->set_count(2);
  team.mutable_submit_rate()->mutable_period()->set_seconds(10);
  ASSERT_TRUE(Create("team", team).ok());
  ASSERT_TRUE(Create("part", Below("team")).ok());
  ASSERT_TRUE(Create("other", Below("team")).ok());
  Submit("first", In("part"));
  Submit("second", In("other"));
  const absl::Status refused = Refused(In("part"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status::Reason(refused), "QUEUE_RATE");
  EXPECT_EQ(status::GetRetryDelay(refused), absl::Seconds(5));
  EXPECT_EQ(refused.message(),
            "job.spec.queue: queues/team takes at most 2 Jobs in 10s, with all Queues below it; "
            "submit again later");
  EXPECT_EQ(harness_.jobs().count("refused"), 0u);
  Submit("elsewhere", CoreHarness::Spec(1, 1000));
  // A new Queue fills no bucket.
  ASSERT_TRUE(Create("third", Below("team")).ok());
  EXPECT_EQ(status::Reason(Refused(In("third"))), "QUEUE_RATE");
  Advance(absl::Seconds(5));
  EXPECT_TRUE(Refused(In("part")).ok());
  Advance(absl::Seconds(5));
  // What is lifted holds nothing back.
  ASSERT_TRUE(Update("team", {"submit_rate"}, Queue()).ok());
  for (int i = 0; i < 5; ++i) Submit(absl::StrCat("more", i), In("part"));
  EXPECT_EQ(harness_.jobs().count("more4"), 1u);
}

TEST_F(SchedulerCoreQueueTest, StartsAboveTheRateWaitAndAreWokenInTime) {
  Queue team = Below("");
  team.mutable_start_rate()->set_count(2);
  team.mutable_start_rate()->mutable_period()->set_seconds(20);
  team.mutable_start_rate()->set_burst(1);
  ASSERT_TRUE(Create("team", team).ok());
  executor_.Connect();
  for (const char* id : {"first", "second", "third"}) Submit(id, In("team"));
  Submit("other", CoreHarness::Spec(1, 1000));
  EXPECT_EQ(StateOf("first"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("other"), Job::STATE_PREPARING);
  for (const char* id : {"second", "third"}) {
    EXPECT_EQ(ReasonOf(id), "QUEUE_RATE");
    EXPECT_EQ(harness_.job(id).state.message(), "queues/team starts at most 2 Jobs in 20s");
  }
  const auto stored = harness_.job("third").state.SerializeAsString();
  AdvanceHeard(absl::Seconds(9));
  EXPECT_EQ(StateOf("second"), Job::STATE_QUEUED);
  ASSERT_TRUE(harness_.core().NextDeadline().has_value());
  EXPECT_LE(*harness_.core().NextDeadline(), harness_.now().boot + absl::Seconds(1));
  AdvanceHeard(absl::Seconds(1));
  EXPECT_EQ(StateOf("second"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("third"), Job::STATE_QUEUED);
  EXPECT_EQ(harness_.job("third").state.SerializeAsString(), stored) << "nothing new to write";
  // The same under the next leader, which knows of no start before it.
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(StateOf("third"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreQueueTest, NobodyIsEndedForAJobThatMayNotStartYet) {
  executor_.Connect();
  Queue team = Below("");
  Cpu(&team)->set_guarantee(4000);
  team.mutable_start_rate()->set_count(1);
  team.mutable_start_rate()->mutable_period()->set_seconds(3600);
  ASSERT_TRUE(Create("team", team).ok());
  RunJob("one", In("team"));
  RunJob("borrows", CoreHarness::Spec(7, 1000));
  AdvanceHeard(absl::Minutes(6));
  Submit("next", In("team"));
  EXPECT_EQ(ReasonOf("next"), "QUEUE_RATE");
  AdvanceHeard(absl::Minutes(50));
  EXPECT_EQ(StateOf("borrows"), Job::STATE_RUNNING);
  AdvanceHeard(absl::Minutes(5));
  EXPECT_NE(StateOf("borrows"), Job::STATE_RUNNING) << "it is within its guarantee";
  EXPECT_EQ(StateOf("next"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreQueueTest, JobsGoToLeavesOnly) {
  ASSERT_TRUE(Create("team", Below("")).ok());
  ASSERT_TRUE(Create("group", Below("team")).ok());
  EXPECT_EQ(FieldOf(Refused(In("team"))), "job.spec.queue");
  EXPECT_TRUE(Refused(In("group")).ok());
  EXPECT_EQ(status::Reason(Create("below", Below("group"))), "QUEUE_HAS_JOBS");
  EXPECT_TRUE(Create("beside", Below("team")).ok());
}

TEST_F(SchedulerCoreQueueTest, RefusesWhatIsNoTreeOfQuotas) {
  EXPECT_EQ(FieldOf(Create("a", Below("absent"))), "queue.parent");
  EXPECT_EQ(FieldOf(Create("a", Below("a"))), "queue.parent");
  Queue team = Below("");
  Cpu(&team)->set_guarantee(-1);
  EXPECT_EQ(FieldOf(Create("team", team)), "queue.quotas[0].guarantee");
  team.mutable_quotas(0)->set_guarantee(4000);
  team.mutable_quotas(0)->mutable_lending_limit()->set_amount(-1);
  EXPECT_EQ(FieldOf(Create("team", team)), "queue.quotas[0].lending_limit");
  team.mutable_quotas(0)->clear_lending_limit();
  ASSERT_TRUE(Create("team", team).ok());
  Queue part = Below("team");
  Cpu(&part)->set_guarantee(3000);
  ASSERT_TRUE(Create("part", part).ok());
  EXPECT_EQ(FieldOf(Create("part2", part)), "queue.quotas") << "more than the parent's";
  part.mutable_quotas(0)->set_guarantee(1000);
  EXPECT_TRUE(Create("part2", part).ok());
  const Queue& stored = harness_.core().model().queues.at("part2").queue();
  EXPECT_EQ(stored.parent(), "queues/team");
  EXPECT_EQ(stored.quotas(0).guarantee(), 1000);
}

}  // namespace
}  // namespace capstan::scheduler
