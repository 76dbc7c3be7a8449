// Jobs that may be without some of their sections. That each is whole or not there, and within its
// domain, CoreHarness checks after every step.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::TaskEnd;

// Four racks of two Nodes of 5 cores each.
class SchedulerCorePartsTest : public ::testing::Test {
 protected:
  static constexpr int kNodes = 8;

  SchedulerCorePartsTest() {
    for (int node = 0; node < kNodes; ++node) {
      executor_.set_labels(node, {{"topology.kubernetes.io/zone", "z"},
                                  {"capstan.dev/rack", absl::StrCat("r", node / 2)}});
    }
    executor_.Connect();
  }
  // Replicas of four workers and two servers that take a rack each, of which one is needed.
  static JobSpec Replicas(int count) {
    JobSpec spec;
    spec.set_min_sections(1);
    for (int r = 0; r < count; ++r) {
      capstan::scheduler::v1::Section& section = *spec.add_sections();
      section.set_name(absl::StrCat("replica-", r));
      section.mutable_topology()->set_required(Topology::LEVEL_RACK);
      const std::string names[] = {"w", "s"};
      for (int part = 0; part < 2; ++part) {
        auto& group = *spec.add_task_groups();
        group = CoreHarness::Spec(part == 0 ? 4 : 2, part == 0 ? 2000 : 1000).task_groups(0);
        group.set_name(absl::StrCat(names[part], r));
        group.set_section(section.name());
      }
    }
    return spec;
  }
  static JobSpec Growing(JobSpec spec) {
    *spec.mutable_checkpoint_period() = ToProto(absl::Minutes(1));
    *spec.mutable_grow_after() = ToProto(absl::Minutes(2));
    return spec;
  }
  void Submit(const std::string& id, const JobSpec& spec) {
    harness_.Deliver(harness_.Submit(id, spec));
    Work();
  }
  void Cancel(const std::string& id) {
    harness_.Deliver(
        harness_.Apply(CancelJob{harness_.next_call(), absl::StrCat("projects/p/jobs/", id), ""}));
    Work();
  }
  void Cordon(int node) {
    harness_.Deliver(harness_.Apply(
        CordonNode{harness_.next_call(), "local", absl::StrCat("n", node), "me", "me"}));
  }
  void Uncordon(int node) {
    harness_.Deliver(
        harness_.Apply(UncordonNode{harness_.next_call(), "local", absl::StrCat("n", node), "me"}));
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
  std::vector<int> SizesOf(const std::string& uid) const {
    std::vector<int> sizes;
    const JobEntry& job = harness_.job(uid);
    for (int g = 0; g < job.spec.spec().task_groups_size(); ++g) sizes.push_back(SizeOf(job, g));
    return sizes;
  }
  int64_t CountOn(const std::string& uid, int node) const {
    const auto& nodes = harness_.job(uid).gang->nodes;
    return std::count(nodes.begin(), nodes.end(), absl::StrCat("n", node));
  }
  // Events of Jobs with this reason.
  int64_t Told(const std::string& reason) const {
    const auto& events = harness_.events();
    return std::count_if(events.begin(), events.end(), [&reason](const auto& event) {
      return event.reason() == reason && !event.has_task();
    });
  }

  CoreHarness harness_{CoreConfig()};
  FakeExecutor executor_{"local", kNodes, 5000, &harness_};
};

TEST_F(SchedulerCorePartsTest, RunsWithAsManySectionsAsFit) {
  Cordon(7);
  Submit("a", Replicas(4));
  ASSERT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(SizesOf("a"), (std::vector<int>{4, 2, 4, 2, 4, 2, 0, 0}));
  EXPECT_EQ(harness_.job("a").gang->tasks.size(), 18u);
  Submit("b", Replicas(2));
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
  EXPECT_TRUE(absl::StrContains(harness_.job("b").state.message(), "after 2 of at least 6 Tasks"))
      << harness_.job("b").state.message();
  EXPECT_EQ(CountOn("a", 6), 0);
  // What it lacks it may still get from others.
  Cancel("a");
  Run(absl::Seconds(3));
  EXPECT_EQ(StateOf("b"), Job::STATE_RUNNING);
  EXPECT_EQ(SizesOf("b"), (std::vector<int>{4, 2, 4, 2}));
}

TEST_F(SchedulerCorePartsTest, GivesUpSectionsBeforeItIsEnded) {
  Submit("a", Replicas(4));
  ASSERT_EQ(SizesOf("a"), (std::vector<int>{4, 2, 4, 2, 4, 2, 4, 2}));
  // For its Queue's min_runtime it may not be ended.
  Run(absl::Minutes(6));
  JobSpec urgent = CoreHarness::Spec(4, 2000);
  urgent.set_priority(1);
  urgent.mutable_topology()->set_required(Topology::LEVEL_RACK);
  Submit("urgent", urgent);
  Run(absl::Seconds(6));
  EXPECT_EQ(StateOf("urgent"), Job::STATE_RUNNING);
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
  EXPECT_EQ(Told("SHRUNK"), 1);
  const std::vector<int> sizes = SizesOf("a");
  EXPECT_EQ(sizes[0] + sizes[1], 6) << "what it needs";
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 0), 2) << "one section less";
}

TEST_F(SchedulerCorePartsTest, GoesOnWithoutALostSectionAndGrowsAgain) {
  Submit("a", Growing(Replicas(4)));
  ASSERT_EQ(SizesOf("a"), (std::vector<int>{4, 2, 4, 2, 4, 2, 4, 2}));
  const std::string lost = harness_.job("a").gang->nodes[6];  // of w1
  const int node = lost[1] - '0';
  Cordon(node);
  executor_.End("a/1/w1-0", TaskEnd::CAUSE_LOST);
  Run(absl::Seconds(6));
  ASSERT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
  EXPECT_EQ(SizesOf("a"), (std::vector<int>{4, 2, 0, 0, 4, 2, 4, 2}));
  EXPECT_EQ(CountOn("a", node), 0);
  Uncordon(node);
  Run(absl::Minutes(5));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(SizesOf("a"), (std::vector<int>{4, 2, 4, 2, 4, 2, 4, 2}));
  EXPECT_EQ(Told("GROWN"), 1);
}

TEST_F(SchedulerCorePartsTest, ANewLeaderKnowsWhichSectionsAreThere) {
  Cordon(7);
  Submit("a", Growing(Replicas(4)));
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(SizesOf("a"), (std::vector<int>{4, 2, 4, 2, 4, 2, 0, 0}));
  Uncordon(7);
  Run(absl::Minutes(5));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(SizesOf("a"), (std::vector<int>{4, 2, 4, 2, 4, 2, 4, 2}));
}

}  // namespace
}  // namespace capstan::scheduler
