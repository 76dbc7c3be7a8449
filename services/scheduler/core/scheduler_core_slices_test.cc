// Jobs in slices and sections. That all of a slice and of a section is in one domain CoreHarness
// checks after every step.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/core_harness.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::TaskEnd;

// Two rows of two racks of two Nodes of 5 cores each.
class SchedulerCoreSlicesTest : public ::testing::Test {
 protected:
  static constexpr int kNodes = 8;

  SchedulerCoreSlicesTest() {
    for (int node = 0; node < kNodes; ++node) {
      executor_.set_labels(node, {{"topology.kubernetes.io/zone", "z"},
                                  {"capstan.dev/row", absl::StrCat("w", node / 4)},
                                  {"capstan.dev/rack", absl::StrCat("r", node / 2)}});
    }
    executor_.Connect();
  }
  static void AddSlice(Topology::Level level, int size, JobSpec* spec) {
    capstan::scheduler::v1::TaskSlice& slice = *spec->mutable_task_groups(0)->add_slices();
    slice.set_level(level);
    slice.set_size(size);
  }
  // Tasks of which a Node holds two, in fours in a rack and in twos on a Node.
  static JobSpec Sliced(int replicas, int priority = 0) {
    JobSpec spec = CoreHarness::Spec(replicas, 2000);
    AddSlice(Topology::LEVEL_RACK, 4, &spec);
    AddSlice(Topology::LEVEL_NODE, 2, &spec);
    spec.set_priority(priority);
    return spec;
  }
  void AddSection(const std::string& name, const std::string& parent, Topology::Level level,
                  JobSpec* spec) {
    capstan::scheduler::v1::Section& section = *spec->add_sections();
    section.set_name(name);
    section.set_parent(parent);
    section.mutable_topology()->set_required(level);
  }
  void Submit(const std::string& id, const JobSpec& spec) {
    harness_.Deliver(harness_.Submit(id, spec));
  }
  void Cancel(const std::string& id) {
    harness_.Deliver(
        harness_.Apply(CancelJob{harness_.next_call(), absl::StrCat("projects/p/jobs/", id), ""}));
  }
  void Cordon(int node) {
    harness_.Deliver(harness_.Apply(
        CordonNode{harness_.next_call(), "local", absl::StrCat("n", node), "me", ""}));
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
  const std::vector<std::string>& NodesOf(const std::string& uid) const {
    return harness_.job(uid).gang->nodes;
  }

  CoreHarness harness_{CoreConfig()};
  FakeExecutor executor_{"local", kNodes, 5000, &harness_};
};

TEST_F(SchedulerCoreSlicesTest, EachRunOfRanksIsInItsDomainOrTheJobWaits) {
  Cordon(7);
  Submit("a", Sliced(12));
  EXPECT_EQ(NodesOf("a"), (std::vector<std::string>{"n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3",
                                                    "n4", "n4", "n5", "n5"}));
  // A core is left on each of six, and all of n6.
  Submit("b", Sliced(4));
  ASSERT_EQ(StateOf("b"), Job::STATE_QUEUED);
  EXPECT_EQ(harness_.job("b").state.message(),
            "each 4 of TaskGroup worker must be in one rack, of these each 2 in one Node: no rack "
            "has room for 4 more: at most 2; 6 of 7 nodes lack cpu: a Task asks 2, at most 5 free; "
            "1 of 8 nodes is cordoned");
  JobSpec pairs = CoreHarness::Spec(6, 1000);
  AddSlice(Topology::LEVEL_NODE, 2, &pairs);
  Submit("c", pairs);
  ASSERT_EQ(StateOf("c"), Job::STATE_QUEUED);
  EXPECT_TRUE(absl::StrContains(harness_.job("c").state.message(),
                                "after 4 of 6 Tasks, no Node has room for 2 more: at most 1"))
      << harness_.job("c").state.message();
  Cancel("a");
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("c"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreSlicesTest, ALostTaskMovesWhatItsSliceNeeds) {
  Submit("a", Sliced(8));
  Work();
  Cordon(1);
  executor_.End("a/1/worker-2", TaskEnd::CAUSE_LOST);
  Run(absl::Seconds(3));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
  for (const std::string& node : NodesOf("a")) EXPECT_NE(node, "n1");
}

TEST_F(SchedulerCoreSlicesTest, ANewLeaderGoesOnWithIt) {
  Submit("a", Sliced(12));
  Submit("b", Sliced(8));
  Work();
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  ASSERT_EQ(StateOf("b"), Job::STATE_QUEUED);
  Cancel("a");
  Run(absl::Seconds(3));
  EXPECT_EQ(StateOf("b"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreSlicesTest, AnElasticGroupHasWholeSlices) {
  JobSpec spec = Sliced(16);
  spec.mutable_task_groups(0)->set_min_replicas(4);
  // Three racks hold four each, the fourth two.
  Cordon(7);
  Submit("a", spec);
  EXPECT_EQ(NodesOf("a").size(), 12u);
  Cancel("a");
  Cordon(5);
  Submit("b", spec);
  EXPECT_EQ(NodesOf("b").size(), 8u);
}

TEST_F(SchedulerCoreSlicesTest, VictimsMakeRoomForWholeSlicesAndNoMore) {
  for (int i = 0; i < 16; ++i) Submit(absl::StrCat("low", i), CoreHarness::Spec(1, 2000));
  Run(absl::Minutes(6));
  Submit("high", Sliced(8, 10));
  Run(absl::Seconds(3));
  EXPECT_EQ(StateOf("high"), Job::STATE_RUNNING);
  int running = 0;
  for (const auto& [uid, job] : harness_.jobs()) running += job.state.state() == Job::STATE_RUNNING;
  EXPECT_EQ(running, 9);
}

TEST_F(SchedulerCoreSlicesTest, RoomIsKeptForSlices) {
  JobSpec limited = CoreHarness::Spec(1, 2000);
  limited.mutable_time_limit()->set_seconds(120);
  for (int i = 0; i < 16; ++i) Submit(absl::StrCat("one", i), limited);
  Run(absl::Seconds(6));
  Submit("wide", Sliced(8));
  EXPECT_TRUE(harness_.job("wide").state.has_estimated_start_time());
  EXPECT_FALSE(harness_.job("wide").state.estimate_assumed());
  // What comes later does not take what is kept, though it fits for a while.
  Cancel("one0");
  Cancel("one5");
  Run(absl::Seconds(3));
  for (int i = 0; i < 4; ++i) Submit(absl::StrCat("late", i), CoreHarness::Spec(1, 2000));
  Run(absl::Minutes(3));
  EXPECT_EQ(StateOf("wide"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreSlicesTest, SectionsStandWithinEachOther) {
  JobSpec spec;
  spec.mutable_topology()->set_required(Topology::LEVEL_ZONE);
  for (int replica = 0; replica < 2; ++replica) {
    const std::string row = absl::StrCat("replica-", replica);
    AddSection(row, "", Topology::LEVEL_ROW, &spec);
    AddSection(row + "-half", row, Topology::LEVEL_UNSPECIFIED, &spec);
    for (int stage = 0; stage < 2; ++stage) {
      const std::string rack = absl::StrCat("stage-", replica, "-", stage);
      AddSection(rack, row + "-half", Topology::LEVEL_RACK, &spec);
      for (const char* part : {"a", "b"}) {
        auto& group = *spec.add_task_groups();
        group = CoreHarness::Spec(2, 2000).task_groups(0);
        group.set_name(absl::StrCat(rack, "-", part));
        group.set_section(rack);
        group.mutable_topology()->set_required(Topology::LEVEL_NODE);
      }
    }
  }
  // Groups of one section need not follow each other.
  spec.mutable_task_groups()->SwapElements(1, 6);
  Submit("a", spec);
  Work();
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(NodesOf("a").size(), 16u);
  Submit("b", spec);
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
  Cordon(6);
  executor_.End("a/1/stage-0-0-a-0", TaskEnd::CAUSE_LOST);
  Run(absl::Seconds(3));
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreSlicesTest, SaysWhichSectionLacksWhat) {
  JobSpec spec;
  AddSection("replica", "", Topology::LEVEL_ROW, &spec);
  AddSection("stage", "replica", Topology::LEVEL_RACK, &spec);
  for (const char* name : {"first", "second"}) {
    auto& group = *spec.add_task_groups();
    group = CoreHarness::Spec(3, 2000).task_groups(0);
    group.set_name(name);
    group.set_section("stage");
  }
  Submit("a", spec);
  EXPECT_EQ(harness_.job("a").state.message(),
            "all of section replica must be in one row and all of section stage must be in one "
            "rack: after 4 of 6 Tasks, 2 of 2 nodes lack cpu: a Task asks 2, at most 1 free");
}

}  // namespace
}  // namespace capstan::scheduler
