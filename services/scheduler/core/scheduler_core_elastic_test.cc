// Jobs whose gangs may have fewer Tasks than they ask for. That each generation has the size that
// is recorded, within its bounds, CoreHarness checks after every step.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/elastic_test_fixture.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/render.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;

using SchedulerCoreElasticTest = ElasticTest;

TEST_F(SchedulerCoreElasticTest, StartsWithAsManyTasksAsFit) {
  RunJob("before", CoreHarness::Spec(3, 1000));
  RunJob("elastic", Elastic(2, 8));
  EXPECT_EQ(SizeNow("elastic"), 5);
  const JobEntry& job = harness_.job("elastic");
  EXPECT_EQ(RenderJob(job).tasks_size(), 5);
  EXPECT_EQ(job.state.message(), "runs as generation 1 with 5 of 2..8 Tasks");
  EXPECT_EQ(ExplainJob(harness_.core().model(), job, {}, harness_.now().wall).summary(),
            "runs as generation 1 on 2 nodes with 5 of 2..8 Tasks");
  int told = 0;
  for (const auto& [key, task] : executor_.tasks()) {
    if (task.desired.key().job_uid() != "elastic") continue;
    ++told;
    EXPECT_EQ(task.desired.rendezvous().world_size(), 5) << key;
    EXPECT_EQ(task.desired.rendezvous().peers_size(), 5) << key;
  }
  EXPECT_EQ(told, 5);
  // Nothing is left.
  Submit("after", CoreHarness::Spec(1, 1000));
  EXPECT_EQ(StateOf("after"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreElasticTest, GetsAllOfItOrWaitsForTheLeast) {
  RunJob("whole", Elastic(2, 4));
  EXPECT_EQ(SizeNow("whole"), 4);
  RunJob("beside", CoreHarness::Spec(3, 1000));
  Submit("elastic", Elastic(2, 8));
  EXPECT_EQ(StateOf("elastic"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("elastic"), "INSUFFICIENT_RESOURCES");
  EXPECT_TRUE(
      absl::StrContains(harness_.job("elastic").state.message(), "after 1 of at least 2 Tasks, "))
      << harness_.job("elastic").state.message();
  Cancel("beside");
  EXPECT_EQ(StateOf("elastic"), Job::STATE_PREPARING);
  EXPECT_EQ(SizeNow("elastic"), 4);
}

TEST_F(SchedulerCoreElasticTest, AnotherGenerationMayHaveAnotherSize) {
  RunJob("before", CoreHarness::Spec(4, 1000));
  RunJob("elastic", Elastic(1, 8));
  EXPECT_EQ(SizeNow("elastic"), 4);
  Cancel("before");
  executor_.End("elastic/1/worker-3", TaskEnd::CAUSE_LOST);
  // The executor has stopped the others.
  ASSERT_EQ(harness_.job("elastic").gang->head.generation(), 2);
  EXPECT_EQ(SizeNow("elastic"), 8);
  executor_.PrepareAll();
  executor_.RunAll();
  ASSERT_EQ(StateOf("elastic"), Job::STATE_RUNNING);
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(SizeNow("elastic"), 8);
  EXPECT_EQ(StateOf("elastic"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreElasticTest, GroupsGrowInTheirOrderAndLeaveTheOthersTheirLeast) {
  JobSpec spec = Elastic(1, 20);
  *spec.add_task_groups() = CoreHarness::Spec(3, 1000).task_groups(0);
  spec.mutable_task_groups(1)->set_name("server");
  spec.mutable_task_groups(1)->set_min_replicas(2);
  RunJob("elastic", spec);
  EXPECT_EQ(SizeNow("elastic", 0), 6);
  EXPECT_EQ(SizeNow("elastic", 1), 2);
  // Ranks go by groups as placed.
  const JobEntry& job = harness_.job("elastic");
  EXPECT_EQ(RankOf(job, "server", 0), 6);
  EXPECT_EQ(RankOf(job, "worker", 6), -1);
  EXPECT_EQ(GroupOf(job, 7), std::make_pair(1, 1));
  EXPECT_EQ(executor_.tasks().count("elastic/1/server-1"), 1u);
}

TEST_F(SchedulerCoreElasticTest, GrowsWithinItsDomain) {
  JobSpec spec = Elastic(1, 8);
  spec.mutable_topology()->set_required(Topology::LEVEL_NODE);
  RunJob("first", spec);
  EXPECT_EQ(SizeNow("first"), 4);
  RunJob("second", spec);
  EXPECT_EQ(SizeNow("second"), 4);
}

TEST_F(SchedulerCoreElasticTest, TakesNoMoreThanItsQueueMayHave) {
  CreateCpuQueue("limited", 5000, 0);
  JobSpec spec = Elastic(1, 3);
  spec.set_queue("queues/limited");
  RunJob("first", spec);
  EXPECT_EQ(SizeNow("first"), 3);
  RunJob("second", spec);
  EXPECT_EQ(SizeNow("second"), 2) << "what is in use is what was placed";
  Submit("third", spec);
  EXPECT_EQ(ReasonOf("third"), "QUEUE_LIMIT");
  Cancel("first");
  EXPECT_EQ(SizeNow("third"), 3);
}

// Of two that come in one round, the second is asked with what the first has taken.
TEST_F(SchedulerCoreElasticTest, CountsInTheOrderOfARoundAsUsingWhatItGot) {
  executor_.Disconnect();
  for (const char* id : {"a", "b"}) CreateCpuQueue(id, 0);
  const auto submit = [this](const std::string& id, const std::string& queue, int most) {
    JobSpec spec = Elastic(1, most);
    spec.set_queue(absl::StrCat("queues/", queue));
    Submit(id, spec);
  };
  submit("a1", "a", 4);
  submit("a2", "a", 1);
  submit("b1", "b", 1);
  submit("b2", "b", 1);
  submit("b3", "b", 1);
  submit("b4", "b", 1);
  executor_.Connect();
  // After a1, with 4 cores, all of b comes before a2.
  EXPECT_EQ(SizeNow("a1"), 4);
  for (const char* id : {"b1", "b2", "b3", "b4"}) EXPECT_EQ(StateOf(id), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("a2"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreElasticTest, OthersEndForItsLeastAlone) {
  RunJob("low", CoreHarness::Spec(4, 1000));
  RunJob("lower", CoreHarness::Spec(4, 1000));
  AdvanceHeard(absl::Minutes(10));
  JobSpec spec = Elastic(2, 8);
  spec.set_priority(5);
  Submit("elastic", spec);
  // Its executor has carried out the stop.
  ASSERT_EQ(StateOf("elastic"), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job("low").state.preemptions() + harness_.job("lower").state.preemptions(), 1);
  EXPECT_EQ(SizeNow("elastic"), 4) << "all that the victim left";
}

TEST_F(SchedulerCoreElasticTest, GivesUpTasksRatherThanEndingForAnother) {
  RunJob("elastic", Elastic(2, 8));
  ASSERT_EQ(SizeNow("elastic"), 8);
  AdvanceHeard(absl::Minutes(10));
  JobSpec spec = CoreHarness::Spec(3, 1000);
  spec.set_priority(5);
  Submit("high", spec);
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
  // It does not wait, and has what the other leaves.
  EXPECT_EQ(StateOf("elastic"), Job::STATE_PREPARING);
  EXPECT_EQ(SizeNow("elastic"), 5);
  EXPECT_EQ(harness_.job("elastic").gang->head.generation(), 2);
  EXPECT_EQ(harness_.job("elastic").state.preemptions(), 0);
  EXPECT_EQ(harness_.job("elastic").state.counted_restarts(), 0);
  EXPECT_EQ(Told("SHRUNK"), 1);
  for (const auto& event : harness_.events()) {
    if (event.reason() == "MAKING_ROOM") {
      EXPECT_EQ(event.message(), "1 Job is giving up Tasks to make room for it");
    }
  }
}

TEST_F(SchedulerCoreElasticTest, EndsWholeWhereItsSpareTasksAreNotEnough) {
  RunJob("elastic", Elastic(4, 8));
  AdvanceHeard(absl::Minutes(10));
  JobSpec spec = CoreHarness::Spec(6, 1000);
  spec.set_priority(5);
  Submit("high", spec);
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("elastic"), Job::STATE_QUEUED);
  EXPECT_EQ(harness_.job("elastic").state.preemptions(), 1);
}

TEST_F(SchedulerCoreElasticTest, ItsRoomIsKeptWhileItShrinks) {
  RunJob("elastic", Elastic(3, 8));
  AdvanceHeard(absl::Minutes(10));
  // The stops come to nobody: a new leader goes on with the decision.
  JobSpec high = CoreHarness::Spec(5, 1000);
  high.set_priority(5);
  harness_.CrashIn(harness_.SubmitEvent("high", high), 2);
  ASSERT_EQ(ReasonOf("high"), "MAKING_ROOM");
  ASSERT_TRUE(harness_.job("high").state.making_room(0).shrinks());
  EXPECT_EQ(harness_.job("elastic").gang->head.stop_reason(), Stop::REASON_SHRUNK);
  Submit("other", CoreHarness::Spec(1, 1000));
  executor_.Disconnect();
  executor_.Connect();
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("elastic"), Job::STATE_PREPARING);
  EXPECT_EQ(SizeNow("elastic"), 3);
  EXPECT_EQ(StateOf("other"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreElasticTest, GivesBackWhatIsGuaranteedToOthersAndNoMore) {
  for (const char* id : {"guaranteed", "borrower"}) CreateCpuQueue(id, 4000);
  JobSpec spec = Elastic(4, 8);
  spec.set_queue("queues/borrower");
  RunJob("elastic", spec);
  AdvanceHeard(absl::Minutes(10));
  JobSpec claim = CoreHarness::Spec(3, 1000);
  claim.set_queue("queues/guaranteed");
  Submit("claim", claim);
  EXPECT_EQ(StateOf("claim"), Job::STATE_PREPARING);
  EXPECT_EQ(SizeNow("elastic"), 5);
  EXPECT_EQ(harness_.job("elastic").state.preemptions(), 0);
}

TEST_F(SchedulerCoreElasticTest, RecordsThatSayAnotherSizeAreRefused) {
  RunJob("elastic", Elastic(1, 2));
  auto records = harness_.records();
  ModelBuilder builder;
  for (const auto& [key, value] : records) {
    rec::GangHeadRecord head;
    std::string stored = value;
    if (absl::StrContains(key, "gangs/head") && head.ParseFromString(stored)) {
      head.set_group_sizes(0, 1);
      stored = head.SerializeAsString();
    }
    ASSERT_TRUE(builder.Apply(key, stored).ok());
  }
  EXPECT_EQ(builder.Resolve().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace capstan::scheduler
