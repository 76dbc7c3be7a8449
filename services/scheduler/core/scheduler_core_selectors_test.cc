// What Jobs ask of the labels and taints of Nodes: where they are placed, and what is said of it.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/render.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::NodeRequirement;
using capstan::type::v1::TaskEnd;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kGpu[] = "nvidia.com/gpu.product";
constexpr auto kIn = NodeRequirement::OPERATOR_IN;
constexpr auto kNotIn = NodeRequirement::OPERATOR_NOT_IN;
constexpr auto kExists = NodeRequirement::OPERATOR_EXISTS;
constexpr auto kDoesNotExist = NodeRequirement::OPERATOR_DOES_NOT_EXIST;

NodeRequirement Requires(absl::string_view key, NodeRequirement::Operator op,
                         const std::vector<std::string>& values = {}) {
  NodeRequirement requirement;
  requirement.set_key(std::string(key));
  requirement.set_operator_(op);
  requirement.mutable_values()->Assign(values.begin(), values.end());
  return requirement;
}

// Two Nodes of 4 cores; n0 has H100s, n1 A100s.
class SelectorsTest : public SchedulerCoreTest {
 protected:
  SelectorsTest() {
    executor_.set_labels(0, {{kGpu, "H100"}});
    executor_.set_labels(1, {{kGpu, "A100"}, {"spot", ""}});
  }
  static JobSpec Spec(int replicas, const NodeRequirement& requirement) {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    *spec.add_node_requirements() = requirement;
    return spec;
  }
  static JobSpec Tolerating(JobSpec spec, const std::string& key, const std::string& value,
                            bool any_value = false) {
    auto& toleration = *spec.add_tolerations();
    toleration.set_key(key);
    toleration.set_value(value);
    toleration.set_any_value(any_value);
    return spec;
  }
  void Taint(int node, std::map<std::string, std::string> taints) {
    executor_.set_taints(node, std::move(taints));
    executor_.ReportNode(node, false);
  }
  void Label(int node, std::map<std::string, std::string> labels) {
    executor_.set_labels(node, std::move(labels));
    executor_.ReportNode(node, false);
  }
  // Empty while it waits.
  std::set<std::string> NodesOf(const std::string& uid) {
    if (!harness_.job(uid).live()) return {};
    const auto& nodes = harness_.job(uid).gang->nodes;
    return {nodes.begin(), nodes.end()};
  }
  void StartAll() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
};

TEST_F(SelectorsTest, PlacesByWhatLabelsSay) {
  executor_.Connect();
  Submit("in", Spec(1, Requires(kGpu, kIn, {"A100", "B200"})));
  EXPECT_THAT(NodesOf("in"), ElementsAre("n1"));
  Submit("not-in", Spec(1, Requires(kGpu, kNotIn, {"H100"})));
  EXPECT_THAT(NodesOf("not-in"), ElementsAre("n1"));
  Submit("exists", Spec(1, Requires("spot", kExists)));
  EXPECT_THAT(NodesOf("exists"), ElementsAre("n1"));
  Submit("absent", Spec(1, Requires("spot", kDoesNotExist)));
  EXPECT_THAT(NodesOf("absent"), ElementsAre("n0"));
  // A label that is not there has none of the values.
  Submit("none", Spec(1, Requires("nowhere", kNotIn, {"x"})));
  EXPECT_EQ(StateOf("none"), Job::STATE_PREPARING);
  JobSpec both = Spec(1, Requires(kGpu, kExists));
  *both.add_node_requirements() = Requires("spot", kDoesNotExist);
  Submit("both", both);
  EXPECT_THAT(NodesOf("both"), ElementsAre("n0"));
  // However much is free elsewhere.
  Submit("wide", Spec(5, Requires(kGpu, kIn, {"H100"})));
  EXPECT_EQ(ReasonOf("wide"), "INSUFFICIENT_RESOURCES");
}

TEST_F(SelectorsTest, JobsThatDifferInThisAloneAreToldApart) {
  executor_.Connect();
  RunJob("full", Spec(4, Requires(kGpu, kIn, {"H100"})));
  // In one round: neither the first that does not fit nor the one that does says anything of the
  // others.
  executor_.Disconnect();
  Submit("h100", Spec(1, Requires(kGpu, kIn, {"H100"})));
  Submit("a100", Spec(1, Requires(kGpu, kIn, {"A100"})));
  Submit("any", CoreHarness::Spec(1, 1000));
  executor_.Connect();
  EXPECT_THAT(NodesOf("h100"), ElementsAre());
  EXPECT_THAT(NodesOf("a100"), ElementsAre("n1"));
  EXPECT_THAT(NodesOf("any"), ElementsAre("n1"));
}

TEST_F(SelectorsTest, EachTaskGroupMayAskForItsOwn) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(2, 1000);
  *spec.mutable_task_groups(0)->add_node_requirements() = Requires(kGpu, kIn, {"H100"});
  *spec.add_task_groups() = spec.task_groups(0);
  spec.mutable_task_groups(1)->set_name("server");
  spec.mutable_task_groups(1)->mutable_node_requirements(0)->set_values(0, "A100");
  Submit("pair", spec);
  const auto& nodes = harness_.job("pair").gang->nodes;
  EXPECT_THAT(std::vector<std::string>(nodes.begin(), nodes.end()),
              ElementsAre("n0", "n0", "n1", "n1"));
  spec.mutable_task_groups(1)->set_replicas(3);
  Submit("larger", spec);
  EXPECT_EQ(ReasonOf("larger"), "INSUFFICIENT_RESOURCES");
  const ExplainJobResponse why = Explained("larger");
  EXPECT_THAT(why.summary(), HasSubstr("1 of 1 node lacks cpu"));
  EXPECT_THAT(why.summary(), HasSubstr("1 of 2 nodes does not meet nvidia.com/gpu.product in "
                                       "[A100], which TaskGroup server asks for"));
}

TEST_F(SelectorsTest, TaintsKeepOffWhatDoesNotTolerateThem) {
  executor_.Connect();
  Taint(0, {{"team", "vision"}});
  Taint(1, {{"team", "speech"}, {"old", ""}});
  const JobSpec plain = CoreHarness::Spec(1, 1000);
  Submit("plain", plain);
  EXPECT_EQ(ReasonOf("plain"), "INSUFFICIENT_RESOURCES");
  Submit("same", Tolerating(plain, "team", "vision"));
  EXPECT_THAT(NodesOf("same"), ElementsAre("n0"));
  Submit("other", Tolerating(plain, "team", "music"));
  EXPECT_EQ(ReasonOf("other"), "INSUFFICIENT_RESOURCES");
  // Each of a Node's taints has to be tolerated.
  Submit("one-of-two", Tolerating(Spec(1, Requires("spot", kExists)), "team", "speech"));
  EXPECT_EQ(ReasonOf("one-of-two"), "INSUFFICIENT_RESOURCES");
  Submit("both",
         Tolerating(Tolerating(Spec(1, Requires("spot", kExists)), "team", "", true), "old", ""));
  EXPECT_THAT(NodesOf("both"), ElementsAre("n1"));
  Submit("every", Tolerating(CoreHarness::Spec(6, 1000), "", "", true));
  EXPECT_THAT(NodesOf("every"), ElementsAre("n0", "n1"));
}

TEST_F(SelectorsTest, WhoToleratesEveryTaintStaysOffWhatIsKeptForOthers) {
  CoreHarness harness(Config());
  FakeExecutor executor("local", 1, 4000, &harness);
  executor.set_labels(0, {{"capstan.dev/order", "more"}});
  executor.Connect();
  harness.Deliver(harness.Submit("first", CoreHarness::Spec(5, 1000)));
  CreateCapacityOrder order;
  order.call = harness.next_call();
  order.order_id = "more";
  order.order.set_cluster("clusters/local");
  order.order.set_nodes(2);
  order.order.set_job("projects/p/jobs/first");
  *order.order.mutable_expire_time() = ToProto(harness.now().wall + absl::Hours(1));
  harness.Deliver(harness.Apply(order));
  ASSERT_EQ(harness.job("first").state.reason(), "ORDERED");
  harness.Deliver(harness.Submit("greedy", Tolerating(CoreHarness::Spec(1, 1000), "", "", true)));
  EXPECT_EQ(harness.job("greedy").state.reason(), "INSUFFICIENT_RESOURCES");
}

TEST_F(SelectorsTest, WhatRunsGoesOnWhereATaintOrALabelChanges) {
  executor_.Connect();
  RunJob("runs", Spec(2, Requires(kGpu, kIn, {"H100"})));
  Taint(0, {{"team", "vision"}});
  Label(0, {{kGpu, "H200"}});
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(StateOf("runs"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("runs").state.generation(), 1);
  EXPECT_THAT(NodesOf("runs"), ElementsAre("n0"));
  // Its next generation is placed by what the Nodes say then.
  Label(1, {{kGpu, "H100"}});
  executor_.End(executor_.Keys().front(), TaskEnd::CAUSE_EXITED, 1);
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(harness_.job("runs").state.generation(), 2);
  EXPECT_THAT(NodesOf("runs"), ElementsAre("n1"));
}

TEST_F(SelectorsTest, WhoReturnsToItsPlaceGoesElsewhereIfThatIsTaintedByThen) {
  executor_.Connect();
  RunJob("returns", CoreHarness::Spec(2, 1000));
  const std::set<std::string> before = NodesOf("returns");
  ASSERT_EQ(before.size(), 1u);
  const int at = *before.begin() == "n0" ? 0 : 1;
  Taint(at, {{"broken", ""}});
  executor_.End(executor_.Keys().front(), TaskEnd::CAUSE_LOST);
  AdvanceHeard(absl::Seconds(30));
  EXPECT_EQ(harness_.job("returns").state.generation(), 2);
  EXPECT_THAT(NodesOf("returns"), ElementsAre(executor_.NodeName(1 - at)));
}

TEST_F(SelectorsTest, WhatWaitsIsPlacedOnceALabelComesOrATaintGoes) {
  executor_.Connect();
  Taint(0, {{"broken", ""}});
  Submit("selects", Spec(1, Requires("fast", kExists)));
  Submit("plain", Spec(1, Requires("spot", kDoesNotExist)));
  EXPECT_EQ(StateOf("selects"), Job::STATE_QUEUED);
  EXPECT_EQ(StateOf("plain"), Job::STATE_QUEUED);
  Label(1, {{"fast", "yes"}, {"spot", ""}});
  EXPECT_THAT(NodesOf("selects"), ElementsAre("n1"));
  Taint(0, {});
  EXPECT_THAT(NodesOf("plain"), ElementsAre("n0"));
}

TEST_F(SelectorsTest, SaysWhichRequirementAndWhichTaintIsInTheWay) {
  executor_.Connect();
  Taint(1, {{"team", "vision"}});
  JobSpec spec = Spec(1, Requires(kGpu, kNotIn, {"H100", "H200"}));
  *spec.add_node_requirements() = Requires("spot", kExists);
  Submit("waits", spec);
  const ExplainJobResponse why = Explained("waits");
  ASSERT_EQ(why.constraints_size(), 2);
  EXPECT_EQ(why.constraints(0).type(), "node_requirements");
  EXPECT_EQ(why.constraints(0).nodes(), 1);
  EXPECT_EQ(why.constraints(0).message(),
            "1 of 2 nodes does not meet nvidia.com/gpu.product not in [H100, H200]");
  EXPECT_EQ(why.constraints(0).node_fits(0).node(), "clusters/local/nodes/n0");
  EXPECT_EQ(why.constraints(1).type(), "taint");
  EXPECT_EQ(why.constraints(1).message(),
            "1 of 2 nodes has the taint team=vision, which the Job does not tolerate");
  EXPECT_EQ(why.summary(), why.constraints(0).message() + "; " + why.constraints(1).message());
  EXPECT_EQ(harness_.job("waits").state.message(), why.summary());
  Submit("none", Spec(1, Requires("gpu", kIn, {"a", "b", "c", "d", "e", "f"})));
  EXPECT_EQ(Explained("none").summary(), "2 of 2 nodes do not meet gpu in [a, b, c, d and 2 more]");
  EXPECT_FALSE(harness_.job("none").state.has_estimated_start_time());
}

TEST_F(SelectorsTest, NobodyIsEndedWhereTheOneThatWaitsCouldNotBe) {
  executor_.Connect();
  RunJob("on-h100", Spec(4, Requires(kGpu, kIn, {"H100"})));
  RunJob("on-a100", Spec(4, Requires(kGpu, kIn, {"A100"})));
  AdvanceHeard(absl::Hours(1));
  JobSpec high = Spec(1, Requires(kGpu, kIn, {"A100"}));
  high.set_priority(5);
  Submit("high", high);
  EXPECT_EQ(StateOf("on-h100"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("on-a100").state.preemptions(), 1);
  EXPECT_THAT(NodesOf("high"), ElementsAre("n1"));
  // Ending all of them would not help.
  high.mutable_node_requirements(0)->set_values(0, "B200");
  high.set_priority(9);
  Submit("nowhere", high);
  AdvanceHeard(absl::Hours(1));
  EXPECT_EQ(ReasonOf("nowhere"), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(StateOf("on-h100"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("high").state.preemptions(), 0);
}

TEST_F(SelectorsTest, RoomIsKeptOnlyWhereTheOneThatWaitsMayBe) {
  executor_.Connect();
  JobSpec limited = Spec(3, Requires(kGpu, kIn, {"H100"}));
  *limited.mutable_time_limit() = ToProto(absl::Minutes(10));
  RunJob("h100", limited);
  RunJob("a100", Spec(3, Requires(kGpu, kIn, {"A100"})));
  Submit("head", Spec(2, Requires(kGpu, kIn, {"H100"})));
  EXPECT_TRUE(harness_.job("head").state.has_estimated_start_time());
  EXPECT_FALSE(harness_.job("head").state.estimate_assumed());
  // Beside it on the Node that is none of its, and not before it on the one that is.
  Submit("beside", Spec(1, Requires("spot", kExists)));
  EXPECT_THAT(NodesOf("beside"), ElementsAre("n1"));
  Submit("behind", Spec(2, Requires(kGpu, kIn, {"H100"})));
  EXPECT_THAT(NodesOf("behind"), ElementsAre());
}

TEST_F(SelectorsTest, ElasticGangsGrowOnlyWhereTheyMayBe) {
  executor_.Connect();
  JobSpec spec = Spec(8, Requires(kGpu, kIn, {"H100"}));
  spec.mutable_task_groups(0)->set_min_replicas(1);
  Submit("elastic", spec);
  EXPECT_EQ(harness_.job("elastic").gang->nodes.size(), 4u);
  EXPECT_THAT(NodesOf("elastic"), ElementsAre("n0"));
}

TEST_F(SelectorsTest, ANewLeaderPlacesByWhatIsStored) {
  executor_.Connect();
  Taint(1, {{"team", "vision"}});
  RunJob("full", Spec(4, Requires(kGpu, kIn, {"H100"})));
  Submit("h100", Spec(1, Requires(kGpu, kIn, {"H100"})));
  Submit("plain", CoreHarness::Spec(1, 1000));
  executor_.Disconnect();
  executor_.Take(harness_.NewLeader());
  executor_.Connect();
  EXPECT_EQ(StateOf("h100"), Job::STATE_QUEUED);
  EXPECT_EQ(StateOf("plain"), Job::STATE_QUEUED);
  for (const std::string& key : executor_.Keys()) executor_.End(key, TaskEnd::CAUSE_EXITED);
  EXPECT_THAT(NodesOf("h100"), ElementsAre("n0"));
  EXPECT_THAT(NodesOf("plain"), ElementsAre("n0"));
}

TEST_F(SelectorsTest, DropsTaintsThatAreMalformedAndShowsTheOthers) {
  executor_.Connect();
  std::map<std::string, std::string> taints = {
      {"", "x"}, {"/order", "o"}, {"bad value", "x"}, {"b", "white space"}, {"a/b/c", ""}};
  Taint(0, taints);
  const NodeId id{"local", "n0"};
  const auto& node = harness_.core().model().nodes.at(id);
  EXPECT_EQ(node.observation().taints_size(), 0);
  for (int i = 0; i < 40; ++i) taints["k" + std::to_string(100 + i)] = "v";
  Taint(0, taints);
  EXPECT_EQ(node.observation().taints_size(), 32);
  Taint(0, {{"z.dev/b", "1"}, {"a", ""}});
  const auto shown = RenderNode(id, node, {}, {});
  ASSERT_EQ(shown.taints_size(), 2);
  EXPECT_EQ(shown.taints(0).key(), "a");
  EXPECT_EQ(shown.taints(1).key(), "z.dev/b");
  EXPECT_EQ(shown.taints(1).value(), "1");
}

}  // namespace
}  // namespace capstan::scheduler
