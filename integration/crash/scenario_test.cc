#include "integration/crash/scenario.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "libs/crash_point/points.h"

namespace capstan::integration {
namespace {

TEST(ScenarioTest, ASeedGivesTheSameScenarioAgain) {
  std::set<std::string> different;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Scenario scenario = MakeScenario(seed);
    EXPECT_EQ(scenario.Describe(), MakeScenario(seed).Describe());
    EXPECT_GE(scenario.faults.size(), 1u);
    EXPECT_LE(scenario.faults.size(), 4u);
    different.insert(scenario.Describe());
  }
  EXPECT_EQ(different.size(), 50u);
}

TEST(ScenarioTest, SuccessiveSeedsHaveEveryKindOfFaultAtEveryPoint) {
  std::set<std::string> points;
  std::set<Fault::Kind> kinds;
  std::set<Moment> moments;
  std::set<std::string> parts;
  std::set<int> shims;
  int stops = 0;
  int kills = 0;
  int longer_than_fence = 0;
  std::set<uint64_t> lost_hosts;
  std::set<uint64_t> frozen_hosts;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    for (const Fault& fault : MakeScenario(seed).faults) {
      points.insert(fault.point);
      kinds.insert(fault.kind);
      moments.insert(fault.moment);
      parts.insert(fault.part);
      if (fault.part == "shim") shims.insert(fault.rank);
      if (fault.kind == Fault::Kind::kHost) {
        EXPECT_GE(fault.moment, Moment::kStarted);
        (fault.action == CrashAction::kStop ? frozen_hosts : lost_hosts).insert(seed);
      }
      EXPECT_LT(fault.rank, MakeScenario(seed).ranks);
      (fault.action == CrashAction::kStop ? stops : kills) += 1;
      if (fault.action == CrashAction::kStop && fault.stop_for > kShortFence) ++longer_than_fence;
    }
  }
  for (const absl::string_view point : crash::kAllPoints) {
    EXPECT_EQ(points.count(std::string(point)), 1u) << point;
  }
  for (const absl::string_view point : crash::kFirstStartPoints) {
    EXPECT_EQ(points.count(std::string(point)), 1u) << point;
  }
  EXPECT_EQ(kinds.size(), 6u);
  // Each platform has both, also one of three seeds.
  for (uint64_t first = 0; first < 200; first += kSeedsOfAPlatform) {
    EXPECT_EQ(lost_hosts.count(first + 2), 1u);
    EXPECT_EQ(frozen_hosts.count(first + 3), 1u);
  }
  EXPECT_EQ(moments.size(), 5u);
  EXPECT_EQ(parts.count("shim"), 1u);
  EXPECT_EQ(shims, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(parts.count("telemetry"), 1u);
  EXPECT_GT(kills, stops);
  EXPECT_GT(longer_than_fence, 5);
}

TEST(ScenarioTest, OverEtcdItsPointsAreMet) {
  std::set<std::string> points;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Scenario scenario = MakeScenario(seed, StoreKind::kEtcd);
    points.insert(scenario.faults.front().point);
  }
  EXPECT_EQ(points, (std::set<std::string>{std::string(crash::kEtcdBeforeSend),
                                           std::string(crash::kEtcdAnswered)}));
}

TEST(ScenarioTest, APointHasOneName) {
  std::set<absl::string_view> names;
  for (const absl::string_view point : crash::kAllPoints) {
    EXPECT_TRUE(names.insert(point).second) << point;
    EXPECT_NE(point.find('.'), absl::string_view::npos) << point;
  }
}

}  // namespace
}  // namespace capstan::integration
