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
