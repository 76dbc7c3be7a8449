#include "services/scheduler/core/what_if.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;
using capstan::scheduler::v1::Topology;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

constexpr char kNode0[] = "clusters/local/nodes/n0";
constexpr char kNode1[] = "clusters/local/nodes/n1";

// Two Nodes of 4 cores in one rack.
class WhatIfTest : public ::testing::Test {
 protected:
  void SetUp() override {
    request_.set_parent("projects/p");
    for (int i = 0; i < 2; ++i) executor_.set_labels(i, {{"capstan.dev/rack", "r"}});
    executor_.Connect();
  }
  void RunJob(const std::string& id, const JobSpec& spec) {
    harness_.Deliver(harness_.Submit(id, spec));
    executor_.PrepareAll();
    executor_.RunAll();
    ASSERT_EQ(harness_.job(id).state.state(), Job::STATE_RUNNING);
  }
  void AdvanceHeard(absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= absl::Seconds(3)) {
      executor_.Renew();
      harness_.Deliver(harness_.Advance(absl::Seconds(3)));
    }
  }
  void CreateQueueWith(const std::string& id, const std::function<void(v1::Queue*)>& set) {
    CreateQueue create;
    create.call = harness_.next_call();
    create.queue_id = create.uid = id;
    set(&create.queue);
    harness_.Deliver(harness_.Apply(create));
  }
  static JobSpec In(const std::string& queue, JobSpec spec) {
    spec.set_queue(absl::StrCat("queues/", queue));
    return spec;
  }
  SimulatePlacementRequest& Ask(const JobSpec& spec) {
    *request_.add_jobs() = spec;
    return request_;
  }
  absl::StatusOr<SimulatePlacementResponse> Try() {
    const SimulatePlacementRequest request = WithDefaults(harness_.config(), request_);
    Simulation simulation(harness_.config(), StateForSimulation(harness_.core().model(), request),
                          harness_.now());
    return simulation.Run(request, "person-1");
  }
  SimulatePlacementResponse Simulate() {
    auto response = Try();
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *std::move(response) : SimulatePlacementResponse();
  }
  std::vector<std::string> WrongFields() {
    status::FieldErrors errors;
    ValidateSimulatePlacement(harness_.config(), WithDefaults(harness_.config(), request_),
                              &errors);
    std::vector<std::string> fields;
    for (const auto& violation : errors.violations()) fields.push_back(violation.field);
    return fields;
  }

  CoreHarness harness_{CoreConfig()};
  FakeExecutor executor_{"local", 2, 4000, &harness_};
  SimulatePlacementRequest request_;
};

TEST_F(WhatIfTest, EachJobSeesWhatThoseBeforeItTook) {
  Ask(CoreHarness::Spec(3, 2000));
  Ask(CoreHarness::Spec(1, 2000));
  Ask(CoreHarness::Spec(1, 2000));
  const SimulatePlacementResponse response = Simulate();
  ASSERT_EQ(response.jobs_size(), 3);
  const JobOutcome& first = response.jobs(0);
  EXPECT_EQ(first.outcome(), JobOutcome::OUTCOME_STARTS);
  EXPECT_EQ(first.cluster(), "clusters/local");
  EXPECT_EQ(first.level(), Topology::LEVEL_RACK);
  EXPECT_EQ(first.summary(), "starts on 2 nodes of clusters/local, all in one rack");
  ASSERT_EQ(first.nodes_size(), 2);
  EXPECT_EQ(first.nodes(0).node(), kNode0);
  EXPECT_EQ(first.nodes(0).tasks(), 2);
  EXPECT_EQ(first.nodes(1).node(), kNode1);
  EXPECT_EQ(response.jobs(1).outcome(), JobOutcome::OUTCOME_STARTS);
  EXPECT_EQ(response.jobs(1).level(), Topology::LEVEL_NODE);
  EXPECT_EQ(response.jobs(1).summary(), "starts on 1 node of clusters/local");
  EXPECT_EQ(response.jobs(2).outcome(), JobOutcome::OUTCOME_STARTS_LATER);
  EXPECT_TRUE(harness_.jobs().empty());
}

TEST_F(WhatIfTest, SaysWhenItStartsWhereThatWasDeclared) {
  JobSpec limited = CoreHarness::Spec(2, 4000);
  *limited.mutable_time_limit() = ToProto(absl::Minutes(10));
  RunJob("runs", limited);
  Ask(CoreHarness::Spec(1, 4000));
  Ask(CoreHarness::Spec(1, 9000));
  const SimulatePlacementResponse response = Simulate();
  const JobOutcome& later = response.jobs(0);
  EXPECT_EQ(later.outcome(), JobOutcome::OUTCOME_STARTS_LATER);
  EXPECT_FALSE(later.estimate_assumed());
  // With the grace of the stop.
  EXPECT_EQ(ToTime(later.estimated_start_time()) - harness_.now().wall,
            absl::Minutes(10) + absl::Seconds(30));
  const JobOutcome& never = response.jobs(1);
  EXPECT_EQ(never.outcome(), JobOutcome::OUTCOME_WAITS);
  EXPECT_EQ(never.reason(), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(never.jobs_ahead(), 1);
  ASSERT_EQ(never.constraints_size(), 1);
  EXPECT_EQ(never.constraints(0).type(), "cpu");
  EXPECT_EQ(never.constraints(0).requested(), 9000);
}

TEST_F(WhatIfTest, NamesVictimsOfTheProjectAlone) {
  RunJob("mine", CoreHarness::Spec(1, 4000));
  CreateJob foreign;
  foreign.call = harness_.next_call();
  foreign.project = "projects/other";
  foreign.uid = foreign.job_id = "foreign";
  foreign.spec = WithDefaults(harness_.config(), Ask(CoreHarness::Spec(1, 4000))).jobs(0);
  request_.clear_jobs();
  harness_.Deliver(harness_.Apply(foreign));
  executor_.PrepareAll();
  executor_.RunAll();
  AdvanceHeard(absl::Minutes(6));
  JobSpec urgent = CoreHarness::Spec(2, 4000);
  urgent.set_priority(9);
  Ask(urgent);
  const JobOutcome outcome = Simulate().jobs(0);
  EXPECT_EQ(outcome.outcome(), JobOutcome::OUTCOME_MAKES_ROOM);
  EXPECT_EQ(outcome.summary(), "2 Jobs are being ended to make room for it");
  EXPECT_EQ(outcome.victim_count(), 2);
  ASSERT_EQ(outcome.victims_size(), 1);
  EXPECT_EQ(outcome.victims(0), "projects/p/jobs/mine");
  EXPECT_EQ(harness_.job("mine").state.state(), Job::STATE_RUNNING);
}

TEST_F(WhatIfTest, SaysWhoOnlyGivesUpTasks) {
  JobSpec elastic = CoreHarness::Spec(8, 1000);
  elastic.mutable_task_groups(0)->set_min_replicas(2);
  RunJob("elastic", elastic);
  AdvanceHeard(absl::Minutes(6));
  JobSpec urgent = CoreHarness::Spec(3, 1000);
  urgent.set_priority(9);
  Ask(urgent);
  const JobOutcome outcome = Simulate().jobs(0);
  EXPECT_EQ(outcome.summary(), "1 Job is giving up Tasks to make room for it");
  EXPECT_EQ(outcome.victim_count(), 1);
  EXPECT_EQ(outcome.shrinking_count(), 1);
  ASSERT_EQ(outcome.shrinking_size(), 1);
  EXPECT_EQ(outcome.shrinking(0).job(), "projects/p/jobs/elastic");
  EXPECT_EQ(outcome.shrinking(0).gives_up(), 6);
  EXPECT_EQ(outcome.shrinking(0).tasks(), 8);
}

TEST_F(WhatIfTest, WhoIsHeldDoesNotStartWhateverComes) {
  RunJob("all", CoreHarness::Spec(8, 1000));
  harness_.Deliver(harness_.Submit("held", CoreHarness::Spec(1, 1000)));
  harness_.Deliver(harness_.Submit("waits", CoreHarness::Spec(1, 1000)));
  for (const char* id : {"held", "all"}) {
    UpdateJob hold;
    hold.name = absl::StrCat("projects/p/jobs/", id);
    hold.change.set_hold(true);
    harness_.Deliver(harness_.Apply(hold));
  }
  auto& added = *request_.add_node_changes()->mutable_add();
  added.set_count(4);
  added.set_like(kNode0);
  SimulatePlacementResponse response = Simulate();
  EXPECT_EQ(response.others().waiting(), 1);
  ASSERT_EQ(response.others().started_jobs_size(), 1);
  EXPECT_EQ(response.others().started_jobs(0), "projects/p/jobs/waits");
  // Who runs is lost with its Node, and is not placed again.
  request_.add_node_changes()->set_remove(kNode1);
  response = Simulate();
  EXPECT_EQ(response.others().displaced(), 1);
  EXPECT_EQ(response.others().displaced_started(), 0);
}

TEST_F(WhatIfTest, SaysWhatItsQueueDoesNotLetStart) {
  CreateQueueWith("held", [](v1::Queue* queue) { queue->set_hold(true); });
  CreateQueueWith("closed", [](v1::Queue* queue) { queue->set_cordon(true); });
  CreateQueueWith("small", [](v1::Queue* queue) {
    auto& quota = *queue->add_quotas();
    quota.set_resource("cpu");
    quota.mutable_borrowing_limit()->set_amount(1000);
  });
  CreateQueueWith("slow", [](v1::Queue* queue) {
    queue->mutable_start_rate()->set_count(1);
    *queue->mutable_start_rate()->mutable_period() = ToProto(absl::Hours(1));
  });
  for (const char* queue : {"held", "closed", "small", "slow", "slow"}) {
    Ask(In(queue, CoreHarness::Spec(1, 1500)));
  }
  SimulatePlacementResponse response = Simulate();
  EXPECT_EQ(response.jobs(0).reason(), "QUEUE_HELD");
  EXPECT_EQ(response.jobs(1).outcome(), JobOutcome::OUTCOME_REFUSED);
  EXPECT_EQ(response.jobs(1).reason(), "QUEUE_CORDONED");
  EXPECT_EQ(response.jobs(2).reason(), "QUEUE_LIMIT");
  EXPECT_EQ(response.jobs(3).outcome(), JobOutcome::OUTCOME_STARTS);
  EXPECT_EQ(response.jobs(4).reason(), "QUEUE_RATE");
  // A rate that somebody waits for is used up, though nobody stored that.
  harness_.Deliver(harness_.Submit("one", In("slow", CoreHarness::Spec(1, 100))));
  harness_.Deliver(harness_.Submit("two", In("slow", CoreHarness::Spec(1, 100))));
  ASSERT_EQ(harness_.job("two").state.reason(), "QUEUE_RATE");
  response = Simulate();
  EXPECT_EQ(response.jobs(3).reason(), "QUEUE_RATE");
  EXPECT_EQ(response.others().waiting(), 1);
}

TEST_F(WhatIfTest, TakesDataToBeThereAndWaitsForOtherJobs) {
  RunJob("prepare", CoreHarness::Spec(1, 100));
  JobSpec spec = CoreHarness::Spec(1, 100);
  spec.add_datasets()->set_dataset("projects/p/datasets/d");
  spec.mutable_datasets(0)->set_mount_path("/data");
  Ask(spec);
  spec = CoreHarness::Spec(1, 100);
  spec.add_after()->set_job("projects/p/jobs/prepare");
  Ask(spec);
  const SimulatePlacementResponse response = Simulate();
  EXPECT_EQ(response.jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
  EXPECT_TRUE(response.jobs(0).data_assumed());
  EXPECT_EQ(response.jobs(1).outcome(), JobOutcome::OUTCOME_WAITS);
  EXPECT_EQ(response.jobs(1).reason(), "DEPENDENCY");
}

TEST_F(WhatIfTest, CountsWhoStartsOnNodesThatCome) {
  RunJob("runs", CoreHarness::Spec(2, 4000));
  for (int i = 0; i < 3; ++i) {
    harness_.Deliver(harness_.Submit(absl::StrCat("waits", i), CoreHarness::Spec(1, 4000)));
  }
  auto& add = *request_.add_node_changes()->mutable_add();
  add.set_count(2);
  add.set_like(kNode0);
  Ask(CoreHarness::Spec(1, 4000));
  SimulatePlacementResponse response = Simulate();
  EXPECT_EQ(response.others().waiting(), 3);
  EXPECT_EQ(response.others().started(), 2);
  ASSERT_EQ(response.others().started_jobs_size(), 2);
  EXPECT_EQ(response.others().started_jobs(0), "projects/p/jobs/waits0");
  EXPECT_EQ(response.others().started_jobs(1), "projects/p/jobs/waits1");
  EXPECT_NE(response.jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
  // Others see their number alone.
  request_.set_parent("projects/other");
  response = Simulate();
  EXPECT_EQ(response.others().started(), 2);
  EXPECT_EQ(response.others().started_jobs_size(), 0);
  request_.set_parent("projects/p");
  // One more, of another shape and place.
  auto& more = *request_.add_node_changes()->mutable_add();
  more.set_count(1);
  more.set_cluster("clusters/local");
  more.mutable_allocatable()->set_cpu_millis(8000);
  more.mutable_allocatable()->set_memory_bytes(int64_t{1} << 30);
  (*more.mutable_labels())["capstan.dev/rack"] = "other";
  response = Simulate();
  EXPECT_EQ(response.others().started(), 3);
  EXPECT_EQ(response.jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
  EXPECT_EQ(response.jobs(0).nodes(0).node().find("clusters/local/nodes/simulated-"), 0u);
}

TEST_F(WhatIfTest, NodesThatComeHaveLabelsAndTaints) {
  JobSpec spec = CoreHarness::Spec(1, 1000);
  auto& requirement = *spec.add_node_requirements();
  requirement.set_key("gpu");
  requirement.set_operator_(capstan::scheduler::v1::NodeRequirement::OPERATOR_IN);
  requirement.add_values("h100");
  Ask(spec);
  EXPECT_EQ(Simulate().jobs(0).summary(), "2 of 2 nodes do not meet gpu in [h100]");
  auto& add = *request_.add_node_changes()->mutable_add();
  add.set_count(1);
  add.set_like(kNode0);
  (*add.mutable_labels())["gpu"] = "h100";
  EXPECT_EQ(Simulate().jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
  // As the Node that it is like.
  executor_.set_taints(0, {{"team", "vision"}});
  executor_.ReportNode(0, false);
  EXPECT_EQ(Simulate().jobs(0).outcome(), JobOutcome::OUTCOME_WAITS);
  add.add_taints()->set_key("old");
  EXPECT_EQ(Simulate().jobs(0).summary(),
            "2 of 3 nodes do not meet gpu in [h100]; 1 of 3 nodes has the taint old, which the Job "
            "does not tolerate");
  request_.mutable_jobs(0)->add_tolerations()->set_key("old");
  EXPECT_EQ(Simulate().jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
  add.add_taints()->set_key("old");
  add.add_taints()->set_key("/order");
  add.mutable_taints(0)->set_value("-");
  EXPECT_EQ(WrongFields(), (std::vector<std::string>{"node_changes[0].add.taints[0].value",
                                                     "node_changes[0].add.taints[1].key",
                                                     "node_changes[0].add.taints[2].key"}));
}

TEST_F(WhatIfTest, CordonedNodesTakeNothingNew) {
  request_.add_node_changes()->set_cordon(kNode0);
  Ask(CoreHarness::Spec(2, 3000));
  Ask(CoreHarness::Spec(1, 3000));
  SimulatePlacementResponse response = Simulate();
  EXPECT_EQ(response.jobs(0).outcome(), JobOutcome::OUTCOME_WAITS);
  EXPECT_EQ(response.jobs(0).summary(),
            "1 of 1 node lacks cpu: a Task asks 3, at most 1 free; 1 of 2 nodes is cordoned");
  EXPECT_EQ(response.jobs(1).nodes(0).node(), kNode1);
  harness_.Apply(CordonNode{0, "local", "n0", "me", ""});
  harness_.Apply(CordonNode{0, "local", "n0", "another", ""});
  request_.mutable_node_changes(0)->set_uncordon(kNode0);
  EXPECT_EQ(Simulate().jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
  EXPECT_EQ(harness_.core().model().nodes.at({"local", "n0"}).cordons_size(), 2);
}

TEST_F(WhatIfTest, GangsOfNodesThatGoAreDisplaced) {
  RunJob("wide", CoreHarness::Spec(2, 2500));
  RunJob("narrow", CoreHarness::Spec(1, 1000));
  const std::string node = harness_.job("narrow").gang->node(0).Name();
  request_.add_node_changes()->set_remove(node);
  Ask(CoreHarness::Spec(1, 100));
  SimulatePlacementResponse response = Simulate();
  EXPECT_EQ(response.others().displaced(), 2);
  EXPECT_EQ(response.others().displaced_started(), 1);  // the narrow one
  ASSERT_EQ(response.jobs(0).nodes_size(), 1);
  EXPECT_NE(response.jobs(0).nodes(0).node(), node);
  // In exchange for one like it both find a place.
  auto& add = *request_.add_node_changes()->mutable_add();
  add.set_count(1);
  add.set_like(node);
  response = Simulate();
  EXPECT_EQ(response.others().displaced_started(), 2);
  EXPECT_EQ(harness_.job("wide").state.state(), Job::STATE_RUNNING);
}

TEST_F(WhatIfTest, ARemovedNodeIsNoneThatExplainCounts) {
  request_.add_node_changes()->set_remove(kNode1);
  Ask(CoreHarness::Spec(2, 3000));
  EXPECT_EQ(Simulate().jobs(0).summary(),
            "after 1 of 2 Tasks, 1 of 1 node lacks cpu: a Task asks 3, at most 1 free");
}

TEST_F(WhatIfTest, NamesFieldsThatAreWrongWithWhatIsStored) {
  Ask(In("nowhere", CoreHarness::Spec(1, 100)));
  JobSpec spec = CoreHarness::Spec(1, 100);
  spec.add_after()->set_job("projects/p/jobs/absent");
  Ask(spec);
  auto violations = status::GetFieldViolations(Try().status());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field, "jobs[0].queue");
  EXPECT_EQ(violations[1].field, "jobs[1].after[0].job");
  request_.clear_jobs();
  request_.add_node_changes()->set_cordon("clusters/local/nodes/absent");
  request_.add_node_changes()->mutable_add()->set_count(1);
  request_.mutable_node_changes(1)->mutable_add()->set_cluster("clusters/moon");
  violations = status::GetFieldViolations(Try().status());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field, "node_changes[0].cordon");
  EXPECT_EQ(violations[1].field, "node_changes[1].add.cluster");
}

TEST_F(WhatIfTest, RefusesWhatIsTooMuchOrMalformed) {
  using Fields = std::vector<std::string>;
  EXPECT_EQ(WrongFields(), Fields({"jobs"}));
  for (int i = 0; i < kMaxSimulatedJobs; ++i) Ask(CoreHarness::Spec(1, 100));
  EXPECT_EQ(WrongFields(), Fields());
  request_.mutable_jobs(3)->mutable_task_groups(0)->set_replicas(0);
  EXPECT_EQ(WrongFields(), Fields({"jobs[3].task_groups[0].replicas"}));
  Ask(CoreHarness::Spec(1, 100));
  EXPECT_EQ(WrongFields(), Fields({"jobs"}));
  request_.clear_jobs();
  auto& add = *request_.add_node_changes()->mutable_add();
  add.set_count(kMaxSimulatedNodes);
  add.set_like(kNode0);
  EXPECT_EQ(WrongFields(), Fields());
  request_.add_node_changes()->set_remove(kNode0);
  EXPECT_EQ(WrongFields(), Fields({"node_changes"}));
  request_.clear_node_changes();
  request_.add_node_changes();
  request_.add_node_changes()->set_remove("n0");
  request_.add_node_changes()->set_cordon(kNode0);
  request_.add_node_changes()->set_uncordon(kNode0);
  EXPECT_EQ(WrongFields(),
            Fields({"node_changes[0]", "node_changes[1].remove", "node_changes[3].uncordon"}));
  request_.clear_node_changes();
  request_.add_node_changes()->mutable_add()->set_count(0);
  EXPECT_EQ(WrongFields(), Fields({"node_changes[0].add.count", "node_changes[0].add.like"}));
  auto& bare = *request_.mutable_node_changes(0)->mutable_add();
  bare.set_count(1);
  bare.set_cluster("local");
  EXPECT_EQ(WrongFields(),
            Fields({"node_changes[0].add.cluster", "node_changes[0].add.allocatable.cpu_millis",
                    "node_changes[0].add.allocatable.memory_bytes"}));
}

TEST_F(WhatIfTest, LooksAtSoManyWaitingJobs) {
  Model model;
  for (size_t i = 0; i < kMaxSimulatedWaiting + 5; ++i) {
    JobEntry job;
    job.spec.set_uid(absl::StrCat("u", i));
    job.spec.set_submit_sequence(static_cast<int64_t>(i));
    job.state.set_state(Job::STATE_QUEUED);
    job.state.set_reason("INSUFFICIENT_RESOURCES");
    model.jobs.Add(std::move(job));
  }
  const std::string last = absl::StrCat("u", kMaxSimulatedWaiting + 4);
  *model.jobs.Find(last)->state.mutable_estimated_start_time() = ToProto(absl::UnixEpoch());
  model.jobs.Rest();
  const SimulatedState state = StateForSimulation(model, request_);
  EXPECT_EQ(state.waiting, static_cast<int>(kMaxSimulatedWaiting));
  EXPECT_EQ(state.left_out, 5);
  EXPECT_EQ(state.model.jobs.size(), kMaxSimulatedWaiting);
  EXPECT_EQ(state.model.jobs.count(last), 1u);
  EXPECT_EQ(state.model.jobs.count(absl::StrCat("u", kMaxSimulatedWaiting - 1)), 0u);
  EXPECT_EQ(state.model.jobs.count("u0"), 1u);
}

}  // namespace
}  // namespace capstan::scheduler
