// The ledger of voluntary disruptions, and the budgets that protect Jobs from more of them.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/render.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Disruption;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two Nodes of 4 cores; nobody is protected for having run shortly.
class DisruptionTest : public SchedulerCoreTest {
 protected:
  DisruptionTest() {
    executor_.Connect();
    Queue queue;
    *queue.mutable_min_runtime() = ToProto(absl::ZeroDuration());
    Update("default", queue, "min_runtime");
  }
  void Update(const std::string& id, const Queue& queue, const std::string& field) {
    UpdateQueue update;
    update.call = harness_.next_call();
    update.queue_id = id;
    update.queue = queue;
    update.update_mask.add_paths(field);
    const std::vector<Effect> effects = harness_.Apply(update);
    ASSERT_TRUE(Of<ReplyQueue>(effects)[0].queue.ok()) << Of<ReplyQueue>(effects)[0].queue.status();
    executor_.Take(effects);
  }
  void SetBudget(int count, absl::Duration period) {
    Queue queue;
    queue.mutable_disruption_budget()->set_count(count);
    *queue.mutable_disruption_budget()->mutable_period() = ToProto(period);
    Update("default", queue, "disruption_budget");
  }
  static JobSpec Spec(int priority, const std::string& queue = "default") {
    JobSpec spec = CoreHarness::Spec(8, 1000);
    spec.set_priority(priority);
    spec.set_queue(absl::StrCat("queues/", queue));
    return spec;
  }
  void StartAll() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
  // Submits one that needs all, and lets it end if it got it.
  bool Disrupt(const std::string& id) {
    Submit(id, Spec(9));
    StartAll();
    if (StateOf(id) != Job::STATE_RUNNING) return false;
    EndAll(id);
    StartAll();
    return true;
  }
  void EndAll(const std::string& id) {
    for (const std::string& key : executor_.Keys()) {
      if (key.rfind(absl::StrCat(id, "/"), 0) == 0) executor_.End(key, TaskEnd::CAUSE_EXITED);
    }
  }
  std::vector<std::string> Reasons(const std::string& uid) {
    std::vector<std::string> reasons;
    const Job job = RenderJob(harness_.job(uid));
    for (const Disruption& one : job.disruptions()) {
      reasons.push_back(absl::StrCat(one.reason(), " ", one.beneficiary()));
    }
    return reasons;
  }
  void NewLeader() {
    executor_.Disconnect();
    harness_.NewLeader();
    executor_.Connect();
  }
};

TEST_F(DisruptionTest, WhoWasDisruptedSoOftenIsProtectedUntilTheOldestIsPast) {
  SetBudget(2, absl::Hours(1));
  RunJob("low", Spec(0));
  EXPECT_TRUE(Disrupt("a"));
  AdvanceHeard(absl::Minutes(10));
  EXPECT_TRUE(Disrupt("b"));
  EXPECT_THAT(Reasons("low"),
              ElementsAre("PREEMPTED projects/p/jobs/a", "PREEMPTED projects/p/jobs/b"));
  ASSERT_EQ(StateOf("low"), Job::STATE_RUNNING);
  EXPECT_FALSE(Disrupt("c"));
  EXPECT_EQ(ReasonOf("c"), "INSUFFICIENT_RESOURCES");
  EXPECT_THAT(Explained("c").summary(),
              HasSubstr("1 Job of lower priority may not be ended for it by the "
                        "disruption budget of the Queue before "));
  AdvanceHeard(absl::Minutes(50) - absl::Seconds(3));
  EXPECT_EQ(StateOf("low"), Job::STATE_RUNNING);
  // Nothing else happens then.
  AdvanceHeard(absl::Seconds(3));
  StartAll();
  EXPECT_EQ(StateOf("c"), Job::STATE_RUNNING);
  EXPECT_EQ(Reasons("low").size(), 3u);
}

TEST_F(DisruptionTest, ANewLeaderKnowsTheLedgerAndWakesWhoWaits) {
  SetBudget(1, absl::Hours(1));
  RunJob("low", Spec(0));
  EXPECT_TRUE(Disrupt("a"));
  EXPECT_FALSE(Disrupt("b"));
  NewLeader();
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
  AdvanceHeard(absl::Minutes(30));
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
  AdvanceHeard(absl::Minutes(30));
  StartAll();
  EXPECT_EQ(StateOf("b"), Job::STATE_RUNNING);
}

TEST_F(DisruptionTest, ALargerBudgetHelpsAtOnceAndNoneLetsAll) {
  SetBudget(1, absl::Hours(1));
  RunJob("low", Spec(0));
  EXPECT_TRUE(Disrupt("a"));
  EXPECT_FALSE(Disrupt("b"));
  SetBudget(2, absl::Hours(1));
  StartAll();
  EXPECT_EQ(StateOf("b"), Job::STATE_RUNNING);
  EndAll("b");
  StartAll();
  EXPECT_FALSE(Disrupt("c"));
  Update("default", Queue(), "disruption_budget");
  StartAll();
  EXPECT_EQ(StateOf("c"), Job::STATE_RUNNING);
}

TEST_F(DisruptionTest, AQueueHasTheBudgetOfTheOneAboveUnlessItSaysOtherwise) {
  const auto create = [this](const std::string& id, const std::string& parent, int count) {
    CreateQueue event;
    event.call = harness_.next_call();
    event.queue_id = event.uid = id;
    event.queue.set_parent(parent);
    *event.queue.mutable_min_runtime() = ToProto(absl::ZeroDuration());
    if (count > 0) {
      event.queue.mutable_disruption_budget()->set_count(count);
      *event.queue.mutable_disruption_budget()->mutable_period() = ToProto(absl::Hours(1));
    }
    executor_.Take(harness_.Apply(event));
  };
  create("above", "", 1);
  create("as-above", "queues/above", 0);
  create("own", "queues/above", 2);
  JobEntry job;
  const auto left = [&](const std::string& queue, int times) {
    job.spec = {};
    rec::JobSpecRecord spec;
    spec.mutable_spec()->set_queue(absl::StrCat("queues/", queue));
    job.spec = spec;
    job.state.clear_disruptions();
    for (int i = 0; i < times; ++i) {
      AddDisruption(Stop::REASON_PREEMPTED, "", "", harness_.now().wall, &job.state);
    }
    return ProtectedByBudget(harness_.core().model(), job, harness_.now().wall);
  };
  EXPECT_EQ(left("as-above", 1), absl::Hours(1));
  EXPECT_EQ(left("own", 1), absl::ZeroDuration());
  EXPECT_EQ(left("own", 2), absl::Hours(1));
  EXPECT_EQ(left("default", 50), absl::ZeroDuration());
  EXPECT_EQ(left("own", 150), absl::Hours(1));
  EXPECT_EQ(job.state.disruptions_size(), kMaxDisruptions);
}

TEST_F(DisruptionTest, OperatorsActsTakeFromItAndAreNotRefused) {
  SetBudget(1, absl::Hours(1));
  RunJob("low", Spec(0));
  Queue drained;
  drained.set_drain(true);
  Update("default", drained, "drain");
  Update("default", Queue(), "drain");
  StartAll();
  ASSERT_EQ(harness_.job("low").state.generation(), 2);
  EXPECT_FALSE(Disrupt("a"));
  CreateMaintenanceWindow window;
  window.call = harness_.next_call();
  window.cluster = "local";
  window.window_id = window.uid = "disks";
  window.window.set_all_nodes(true);
  window.window.set_evict(true);
  *window.window.mutable_end_time() = ToProto(harness_.now().wall + absl::Minutes(1));
  executor_.Take(harness_.Apply(window));
  EXPECT_EQ(StateOf("low"), Job::STATE_QUEUED);
  EXPECT_THAT(Reasons("low"), ElementsAre("QUEUE_DRAINED queues/default",
                                          "MAINTENANCE clusters/local/maintenanceWindows/disks"));
}

TEST_F(DisruptionTest, GivingUpTasksCounts) {
  SetBudget(1, absl::Hours(1));
  JobSpec elastic = Spec(0);
  elastic.mutable_task_groups(0)->set_min_replicas(4);
  RunJob("elastic", elastic);
  JobSpec half = CoreHarness::Spec(4, 1000);
  half.set_priority(1);
  Submit("half", half);
  StartAll();
  ASSERT_EQ(StateOf("half"), Job::STATE_RUNNING);
  EXPECT_THAT(Reasons("elastic"), ElementsAre("SHRUNK projects/p/jobs/half"));
  // And no other one ends it.
  JobSpec more = CoreHarness::Spec(4, 1000);
  more.set_priority(1);
  Submit("more", more);
  StartAll();
  EXPECT_EQ(StateOf("more"), Job::STATE_QUEUED);
}

TEST_F(DisruptionTest, AFailureAndACancelAreNone) {
  JobSpec spec = Spec(0);
  RunJob("low", spec);
  executor_.End("low/1/worker-0", TaskEnd::CAUSE_LOST);
  StartAll();
  ASSERT_EQ(harness_.job("low").state.generation(), 2);
  executor_.Take(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/low", ""}));
  EXPECT_EQ(StateOf("low"), Job::STATE_CANCELLED);
  EXPECT_TRUE(Reasons("low").empty());
}

TEST_F(DisruptionTest, OtherProjectsJobsAreNotNamed) {
  JobEntry job;
  rec::JobSpecRecord spec;
  spec.set_name("projects/p/jobs/j");
  job.spec = spec;
  AddDisruption(Stop::REASON_PREEMPTED, "projects/q/jobs/secret", "its 8 Tasks",
                harness_.now().wall, &job.state);
  AddDisruption(Stop::REASON_PREEMPTED, "projects/p/jobs/own", "its 6 Tasks", harness_.now().wall,
                &job.state);
  const Job shown = RenderJob(job);
  ASSERT_EQ(shown.disruptions_size(), 2);
  EXPECT_EQ(shown.disruptions(0).beneficiary(), "");
  EXPECT_EQ(shown.disruptions(0).need(), "");
  EXPECT_EQ(shown.disruptions(1).beneficiary(), "projects/p/jobs/own");
  EXPECT_EQ(shown.disruptions(1).need(), "its 6 Tasks");
}

}  // namespace
}  // namespace capstan::scheduler
