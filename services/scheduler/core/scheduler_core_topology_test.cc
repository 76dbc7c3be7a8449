// Jobs of several groups that must stand in a domain each. That all of a placed group is in one
// CoreHarness checks after every step.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::TaskEnd;

// Two racks of two Nodes of 5 cores each.
class SchedulerCoreTopologyTest : public ::testing::Test {
 protected:
  SchedulerCoreTopologyTest() {
    for (int node = 0; node < 4; ++node) {
      executor_.set_labels(node, {{"capstan.dev/rack", node < 2 ? "first" : "second"}});
    }
    executor_.Connect();
  }
  // Four workers, which take a rack but for a core of each Node, and a server beside them.
  static JobSpec Trainer(int priority = 0) {
    JobSpec spec = CoreHarness::Spec(4, 2000);
    spec.mutable_task_groups(0)->mutable_topology()->set_required(Topology::LEVEL_RACK);
    *spec.add_task_groups() = CoreHarness::Spec(1, 1000).task_groups(0);
    spec.mutable_task_groups(1)->set_name("server");
    spec.set_priority(priority);
    return spec;
  }
  void Submit(const std::string& id, const JobSpec& spec) {
    harness_.Deliver(harness_.Submit(id, spec));
  }
  void Run(absl::Duration d) {
    for (const BootTime end = harness_.now().boot + d; harness_.now().boot < end;) {
      executor_.Renew();
      harness_.Deliver(harness_.Advance(absl::Seconds(3)));
      Work();
    }
  }
  void Work() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
  Job::State StateOf(const std::string& uid) const { return harness_.job(uid).state.state(); }
  std::set<std::string> NodesInUse(const std::string& uid) const {
    const std::vector<std::string>& nodes = harness_.job(uid).gang->nodes;
    return {nodes.begin(), nodes.end()};
  }
  // Of the workers.
  std::set<std::string> NodesOf(const std::string& uid) const {
    const std::vector<std::string>& nodes = harness_.job(uid).gang->nodes;
    return {nodes.begin(), nodes.begin() + 4};
  }

  CoreHarness harness_{CoreConfig()};
  FakeExecutor executor_{"local", 4, 5000, &harness_};
};

TEST_F(SchedulerCoreTopologyTest, EachGroupHasADomainOfItsOwnOrTheJobWaits) {
  Submit("a", Trainer());
  Submit("b", Trainer());
  EXPECT_EQ(NodesOf("a"), (std::set<std::string>{"n0", "n1"}));
  EXPECT_EQ(NodesOf("b"), (std::set<std::string>{"n2", "n3"}));
  harness_.Deliver(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/a", ""}));
  JobSpec half = CoreHarness::Spec(1, 2000);
  half.mutable_task_groups(0)->mutable_topology()->set_required(Topology::LEVEL_RACK);
  Submit("half", half);
  Submit("c", Trainer());
  EXPECT_EQ(StateOf("c"), Job::STATE_QUEUED);
  EXPECT_EQ(harness_.job("c").state.message(),
            "all of TaskGroup worker must be in one rack: after 3 of 5 Tasks, 2 of 2 nodes lack "
            "cpu: a Task asks 2, at most 1 free");
  harness_.Deliver(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/half", ""}));
  EXPECT_EQ(NodesOf("c"), (std::set<std::string>{"n0", "n1"}));
}

TEST_F(SchedulerCoreTopologyTest, ALostTaskMovesTheWholeGroup) {
  Submit("a", Trainer());
  Work();
  ASSERT_EQ(NodesOf("a"), (std::set<std::string>{"n0", "n1"}));
  harness_.Deliver(harness_.Apply(CordonNode{harness_.next_call(), "local", "n1", "me", ""}));
  const int on_n1 = harness_.job("a").gang->nodes[0] == "n1" ? 0 : 3;
  executor_.End(absl::StrCat("a/1/worker-", on_n1), TaskEnd::CAUSE_LOST);
  Run(absl::Seconds(3));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
  EXPECT_EQ(NodesOf("a"), (std::set<std::string>{"n2", "n3"}));
}

TEST_F(SchedulerCoreTopologyTest, ANewLeaderGoesOnWithIt) {
  Submit("a", Trainer());
  Submit("b", Trainer());
  Submit("c", Trainer());
  Work();
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(StateOf("c"), Job::STATE_QUEUED);
  EXPECT_EQ(harness_.job("c").spec.spec().task_groups(0).topology().required(),
            Topology::LEVEL_RACK);
  harness_.Deliver(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/b", ""}));
  EXPECT_EQ(NodesOf("c"), (std::set<std::string>{"n2", "n3"}));
}

TEST_F(SchedulerCoreTopologyTest, VictimsAreOfOneRack) {
  for (int i = 0; i < 8; ++i) Submit(absl::StrCat("low", i), CoreHarness::Spec(1, 2000));
  Run(absl::Minutes(6));
  Submit("high", Trainer(10));
  Run(absl::Seconds(3));
  EXPECT_EQ(StateOf("high"), Job::STATE_RUNNING);
  std::set<std::string> left;
  int running = 0;
  for (const auto& [uid, job] : harness_.jobs()) {
    if (uid == "high" || job.state.state() != Job::STATE_RUNNING) continue;
    ++running;
    left.insert(job.gang->nodes[0]);
  }
  EXPECT_EQ(running, 4);
  EXPECT_EQ(left.size(), 2u);
  for (const std::string& node : NodesOf("high")) EXPECT_EQ(left.count(node), 0u);
}

// Two rails of two racks each, of a Node of 5 cores.
class RailTest : public SchedulerCoreTopologyTest {
 protected:
  RailTest() {
    for (int node = 0; node < 4; ++node) {
      executor_.set_labels(node, {{"capstan.dev/rail", node < 2 ? "s1" : "s2"},
                                  {"capstan.dev/rack", absl::StrCat("r", node)}});
    }
    executor_.Disconnect();
    executor_.Connect();
  }
  static JobSpec InOneRail(int replicas) {
    JobSpec spec = CoreHarness::Spec(replicas, 2000);
    spec.mutable_topology()->set_required(Topology::LEVEL_RAIL);
    return spec;
  }
};

TEST_F(RailTest, AGangStandsInOneRailOverItsRacks) {
  Submit("a", InOneRail(4));
  Submit("b", InOneRail(4));
  EXPECT_EQ(NodesOf("a"), (std::set<std::string>{"n0", "n1"}));
  EXPECT_EQ(NodesOf("b"), (std::set<std::string>{"n2", "n3"}));
  Submit("large", InOneRail(5));
  EXPECT_EQ(StateOf("large"), Job::STATE_QUEUED);
  const std::string& why = harness_.job("large").state.message();
  EXPECT_EQ(why.find("all of it must be in one rail group: "), 0u) << why;
}

TEST_F(RailTest, ALostTaskComesBackWithinTheRail) {
  Submit("a", InOneRail(3));
  Work();
  const std::string first = *NodesInUse("a").begin();
  const std::set<std::string> rail =
      first < "n2" ? std::set<std::string>{"n0", "n1"} : std::set<std::string>{"n2", "n3"};
  ASSERT_EQ(NodesInUse("a"), rail);
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_LOST);
  Run(absl::Seconds(3));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
  EXPECT_EQ(NodesInUse("a"), rail);
}

// Each two Tasks in a rack, all in one rail.
TEST_F(RailTest, SlicesOfRacksLieInOneRail) {
  Submit("in-the-way", CoreHarness::Spec(1, 4000));
  ASSERT_EQ(NodesInUse("in-the-way"), (std::set<std::string>{"n0"}));
  JobSpec spec = InOneRail(4);
  auto& slice = *spec.mutable_task_groups(0)->add_slices();
  slice.set_level(Topology::LEVEL_RACK);
  slice.set_size(2);
  Submit("a", spec);
  EXPECT_EQ(NodesOf("a"), (std::set<std::string>{"n2", "n3"}));
}

}  // namespace
}  // namespace capstan::scheduler
