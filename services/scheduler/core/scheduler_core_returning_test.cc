// Gangs that lost a Node: they come back to the rest of their place, with others near it, before
// anybody else gets that; and wait for it no longer than they may.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::TaskEnd;

// Four Nodes of four cores in the first NVLink domain, two in the second.
class SchedulerCoreReturningTest : public ::testing::Test {
 protected:
  SchedulerCoreReturningTest() {
    for (int node = 0; node < 6; ++node) {
      const std::string domain = node < 4 ? "first" : "second";
      executor_.set_labels(node,
                           {{"capstan.dev/rack", domain}, {"capstan.dev/nvlink-domain", domain}});
    }
    executor_.Connect();
  }

  static JobSpec Spec(int replicas, Topology::Level required = Topology::LEVEL_UNSPECIFIED) {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    spec.mutable_topology()->set_required(required);
    return spec;
  }
  void Submit(const std::string& id, const JobSpec& spec) {
    executor_.Take(harness_.Submit(id, spec));
  }
  void Cancel(const std::string& id) {
    executor_.Take(
        harness_.Apply(CancelJob{harness_.next_call(), absl::StrCat("projects/p/jobs/", id), ""}));
  }
  void StartAll() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
  Job::State StateOf(const std::string& uid) const { return harness_.job(uid).state.state(); }
  std::set<std::string> NodesOf(const std::string& uid) const {
    const auto& nodes = harness_.job(uid).gang->nodes;
    return {nodes.begin(), nodes.end()};
  }
  void Pass(absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= absl::Seconds(5)) {
      executor_.Renew();
      executor_.Take(harness_.Advance(absl::Seconds(5)));
    }
  }

  // Eight Tasks run on two Nodes of the first domain, and nobody is in the second.
  void RunInTheFirst(const JobSpec& spec) {
    Submit("filler", Spec(8, Topology::LEVEL_RACK));
    Submit("gang", spec);
    StartAll();
    ASSERT_EQ(NodesOf("gang"), (std::set<std::string>{"n0", "n1"}));
    ASSERT_EQ(NodesOf("filler"), (std::set<std::string>{"n4", "n5"}));
    Cancel("filler");
  }
  // The machine breaks: it takes nothing more, and what ran there is lost.
  void Break(const std::string& node) {
    harness_.Apply(CordonNode{harness_.next_call(), "local", node, "repair", ""});
    for (const std::string& key : executor_.Keys()) {
      const auto task = executor_.tasks().find(key);
      if (task == executor_.tasks().end() || task->second.desired.node() != node) continue;
      executor_.End(key, TaskEnd::CAUSE_LOST);
      break;
    }
  }
  void Repair(const std::string& node) {
    executor_.Take(harness_.Apply(UncordonNode{harness_.next_call(), "local", node, "repair"}));
  }
  // Room for the gang is nowhere but where it is.
  void FillTheOthers() {
    Submit("beside", Spec(8, Topology::LEVEL_RACK));
    Submit("elsewhere", Spec(8, Topology::LEVEL_RACK));
    StartAll();
    ASSERT_EQ(StateOf("beside"), Job::STATE_RUNNING);
    ASSERT_EQ(StateOf("elsewhere"), Job::STATE_RUNNING);
  }

  CoreHarness harness_{CoreConfig()};
  FakeExecutor executor_{"local", 6, 4000, &harness_};
};

TEST_F(SchedulerCoreReturningTest, TakesASpareNodeOfItsDomain) {
  RunInTheFirst(Spec(8, Topology::LEVEL_RACK));
  Break("n0");
  EXPECT_EQ(StateOf("gang"), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job("gang").state.generation(), 2);
  // The second domain would be the tightest for all of it.
  EXPECT_EQ(NodesOf("gang"), (std::set<std::string>{"n1", "n2"}));
  EXPECT_EQ(harness_.job("gang").state.counted_restarts(), 0);
}

TEST_F(SchedulerCoreReturningTest, KeepsTheLevelThatItPrefers) {
  RunInTheFirst(Spec(8));
  Break("n0");
  EXPECT_EQ(NodesOf("gang"), (std::set<std::string>{"n1", "n2"}));
}

TEST_F(SchedulerCoreReturningTest, GoesElsewhereWhereItsDomainHasNoSpare) {
  // It prefers one domain, and would rather be whole in another than in two.
  RunInTheFirst(Spec(8));
  FillTheOthers();
  Cancel("elsewhere");
  ASSERT_EQ(NodesOf("beside"), (std::set<std::string>{"n2", "n3"}));
  Break("n0");
  EXPECT_EQ(StateOf("gang"), Job::STATE_PREPARING);
  EXPECT_EQ(NodesOf("gang"), (std::set<std::string>{"n4", "n5"}));
  // Others have what it left.
  Submit("small", Spec(4));
  EXPECT_EQ(NodesOf("small"), std::set<std::string>{"n1"});
}

TEST_F(SchedulerCoreReturningTest, SpreadsWhereOnlyThatIsLeftAndAllowed) {
  RunInTheFirst(Spec(8));
  FillTheOthers();
  Cancel("elsewhere");
  Submit("half", Spec(4));
  StartAll();
  ASSERT_EQ(NodesOf("half").size(), 1u);
  Break("n0");
  EXPECT_EQ(StateOf("gang"), Job::STATE_PREPARING);
  EXPECT_EQ(NodesOf("gang").count("n1"), 1u);
  EXPECT_EQ(NodesOf("gang").size(), 2u);
}

TEST_F(SchedulerCoreReturningTest, ARepairedNodeIsItsBeforeOthers) {
  RunInTheFirst(Spec(8, Topology::LEVEL_RACK));
  FillTheOthers();
  for (int i = 0; i < 6; ++i) Submit(absl::StrCat("small", i), Spec(2));
  Break("n0");
  EXPECT_EQ(StateOf("gang"), Job::STATE_QUEUED);
  EXPECT_EQ(harness_.job("gang").state.reason(), kReturning);
  Pass(absl::Minutes(2));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(StateOf(absl::StrCat("small", i)), Job::STATE_QUEUED) << i;
  }
  // A leader that takes over keeps it no less.
  harness_.NewLeader();
  executor_.Disconnect();
  executor_.Connect();
  EXPECT_EQ(harness_.job("gang").state.reason(), kReturning);
  Repair("n0");
  EXPECT_EQ(StateOf("gang"), Job::STATE_PREPARING);
  EXPECT_EQ(NodesOf("gang"), (std::set<std::string>{"n0", "n1"}));
}

TEST_F(SchedulerCoreReturningTest, KeepsItsRoomNoLongerThanItMay) {
  RunInTheFirst(Spec(8, Topology::LEVEL_RACK));
  FillTheOthers();
  // They are over before the gang could start.
  JobSpec small = Spec(2);
  *small.mutable_time_limit() = ToProto(absl::Hours(1));
  for (int i = 0; i < 2; ++i) Submit(absl::StrCat("small", i), small);
  Break("n0");
  Pass(absl::Minutes(3));
  harness_.NewLeader();
  executor_.Disconnect();
  executor_.Connect();
  Pass(absl::Minutes(1));
  EXPECT_EQ(StateOf("small0"), Job::STATE_QUEUED);
  Pass(absl::Minutes(2));
  EXPECT_EQ(StateOf("gang"), Job::STATE_QUEUED);
  EXPECT_EQ(StateOf("small0"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("small1"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreReturningTest, AnElasticGangReturnsWithTheRest) {
  JobSpec spec = Spec(8, Topology::LEVEL_RACK);
  spec.mutable_task_groups(0)->set_min_replicas(3);
  RunInTheFirst(spec);
  FillTheOthers();
  Break("n0");
  EXPECT_EQ(StateOf("gang"), Job::STATE_PREPARING);
  EXPECT_EQ(NodesOf("gang"), std::set<std::string>{"n1"});
  EXPECT_EQ(SizeOf(harness_.job("gang"), 0), 4);
}

TEST_F(SchedulerCoreReturningTest, OneOfHigherPriorityInItsQueueGoesFirst) {
  RunInTheFirst(Spec(8, Topology::LEVEL_RACK));
  FillTheOthers();
  JobSpec high = Spec(4);
  high.set_priority(10);
  Submit("high", high);
  ASSERT_EQ(StateOf("high"), Job::STATE_QUEUED);
  Break("n0");
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("gang"), Job::STATE_QUEUED);
}

}  // namespace
}  // namespace capstan::scheduler
