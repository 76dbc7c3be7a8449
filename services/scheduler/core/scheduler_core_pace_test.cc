// Rounds of a large fleet: how they follow each other, and that what they share is no one else's.
#include <string>

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

constexpr int kNodes = 300;
constexpr absl::Duration kPause = absl::Milliseconds(30);

class SchedulerCorePaceTest : public ::testing::Test {
 protected:
  SchedulerCorePaceTest() { executor_.Connect(); }
  void Submit(const std::string& id, const JobSpec& spec) {
    harness_.Deliver(harness_.Submit(id, spec));
  }
  void Advance(absl::Duration d) { harness_.Deliver(harness_.Advance(d)); }
  const JobEntry& Waits(const std::string& id) {
    EXPECT_EQ(harness_.job(id).state.state(), Job::STATE_QUEUED) << id;
    return harness_.job(id);
  }
  bool IsPlaced(const std::string& id) {
    return harness_.job(id).state.state() == Job::STATE_PREPARING;
  }

  CoreHarness harness_{CoreConfig()};
  FakeExecutor executor_{"local", kNodes, 4000, &harness_};
};

TEST_F(SchedulerCorePaceTest, WhatComesInDuringThePauseSharesTheNextRound) {
  Advance(kPause);
  Submit("first", CoreHarness::Spec(1, 1000));
  EXPECT_TRUE(IsPlaced("first")) << "nobody came before it";
  Submit("second", CoreHarness::Spec(1, 1000));
  Submit("third", CoreHarness::Spec(1, 1000));
  Waits("second");
  EXPECT_EQ(harness_.core().NextDeadline(), harness_.now().boot + kPause);
  Advance(kPause - absl::Milliseconds(1));
  Waits("second");
  Advance(absl::Milliseconds(1));
  EXPECT_TRUE(IsPlaced("second"));
  EXPECT_TRUE(IsPlaced("third"));
  EXPECT_NE(harness_.core().NextDeadline(), harness_.now().boot + kPause) << "nobody waits";
}

TEST_F(SchedulerCorePaceTest, ARoundThatWasCutShortGoesOnAtOnce) {
  Advance(kPause);
  Submit("first", CoreHarness::Spec(1, 1000));
  for (int i = 0; i < 100; ++i) Submit(absl::StrCat("job-", i), CoreHarness::Spec(1, 1000));
  Advance(kPause);
  int placed = 0;
  for (int i = 0; i < 100; ++i) placed += IsPlaced(absl::StrCat("job-", i)) ? 1 : 0;
  EXPECT_EQ(placed, 100);
}

TEST_F(SchedulerCorePaceTest, EachJobIsToldOfItsOwnGroups) {
  JobSpec spec = CoreHarness::Spec(1, 1000);
  spec.mutable_task_groups(0)->mutable_topology()->set_required(Topology::LEVEL_RACK);
  *spec.add_task_groups() = CoreHarness::Spec(1, 1000).task_groups(0);
  spec.mutable_task_groups(1)->set_name("other");
  Advance(kPause);
  Submit("first", CoreHarness::Spec(1, 1000));
  for (const std::string name : {"apples", "pears"}) {
    spec.mutable_task_groups(0)->set_name(name);
    Submit(absl::StrCat("job-", name), spec);
  }
  Advance(kPause);
  for (const std::string name : {"apples", "pears"}) {
    const std::string& message = Waits(absl::StrCat("job-", name)).state.message();
    EXPECT_TRUE(absl::StrContains(message, absl::StrCat("TaskGroup ", name))) << message;
  }
}

}  // namespace
}  // namespace capstan::scheduler
