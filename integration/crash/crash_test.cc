// Processes die and stop at every step of a Job, and it finishes all the same.
//
//   crash_test                        as many seeds as it is built for
//   crash_test --seed=7 [--seeds=3]   these again
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/crash/crash_run.h"
#include "integration/crash/scenario.h"
#include "integration/platform/store_config.h"
#include "integration/platform/test_platform.h"
#include "libs/crash_point/points.h"
#include "libs/time/system_clock.h"
#include "tools/testenv/etcd_server.h"

#ifndef CAPSTAN_CRASH_SEEDS
#define CAPSTAN_CRASH_SEEDS 10
#endif

namespace capstan::integration {
namespace {

// Starting etcd's platforms takes longer, and what differs is the store alone.
constexpr uint64_t kSqliteSeedsForOneOfEtcd = 3;

uint64_t first_seed = 1;
uint64_t seeds = CAPSTAN_CRASH_SEEDS;

std::vector<absl::string_view> PointsOf(StoreKind store) {
  if (store == StoreKind::kEtcd) {
    return {std::begin(crash::kEtcdPoints), std::end(crash::kEtcdPoints)};
  }
  std::vector<absl::string_view> points(std::begin(crash::kAllPoints), std::end(crash::kAllPoints));
  points.insert(points.end(), std::begin(crash::kFirstStartPoints),
                std::end(crash::kFirstStartPoints));
  return points;
}

// All seeds, until one fails. `begin` gives each platform its configuration, and its store anew.
void RunSeeds(StoreKind store, uint64_t seeds, const std::function<std::string()>& begin) {
  std::set<std::string> seen;
  int drawn = 0;
  int made = 0;
  const SystemClock clock;
  for (uint64_t seed = first_seed; seed < first_seed + seeds;) {
    CrashPlatform platform(begin());
    // After the last of them its stores and the machine are judged.
    for (bool last = false; !last && seed < first_seed + seeds; ++seed) {
      last = seed % kSeedsOfAPlatform == 0;
      const Scenario scenario = MakeScenario(seed, store);
      std::printf("%s\n", scenario.Describe().c_str());
      std::fflush(stdout);
      const BootTime begun = clock.Read().boot;
      platform.Run(scenario);
      std::printf("  %s in %.1f s\n", ::testing::Test::HasFailure() ? "FAILED" : "finished",
                  absl::ToDoubleSeconds(clock.Read().boot - begun));
      std::fflush(stdout);
      if (::testing::Test::HasFailure()) break;
    }
    for (const std::string& point : platform.Seen()) seen.insert(point);
    drawn += platform.faults_drawn();
    made += platform.faults_made();
    if (::testing::Test::HasFailure()) break;
  }
  std::printf("%d faults drawn, %d made; points come by:\n", drawn, made);
  for (const absl::string_view point : PointsOf(store)) {
    std::string parts;
    for (absl::string_view name : seen) {
      if (absl::ConsumeSuffix(&name, absl::StrCat("@", point))) absl::StrAppend(&parts, " ", name);
    }
    std::printf("  %s:%s\n", std::string(point).c_str(), parts.c_str());
    // One seed does not come by each.
    if (seeds >= kSeedsOfAPlatform) {
      EXPECT_NE(parts, "") << point << " was never reached";
    }
  }
}

TEST(CrashTest, TheJobFinishesWhereverAProcessDiesOrStops) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  RunSeeds(StoreKind::kSqlite, seeds, [] { return std::string(); });
}

TEST(CrashTest, AlsoWhereTheStoreIsEtcd) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  std::unique_ptr<testenv::EtcdServer> etcd;
  RunSeeds(StoreKind::kEtcd, std::max<uint64_t>(1, seeds / kSqliteSeedsForOneOfEtcd), [&etcd] {
    etcd = nullptr;
    auto started = testenv::EtcdServer::Start({});
    EXPECT_TRUE(started.ok()) << started.status();
    if (!started.ok()) return std::string();
    etcd = *std::move(started);
    return StoreConfig(*etcd);
  });
}

}  // namespace
}  // namespace capstan::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--seed=") &&
        absl::SimpleAtoi(argument, &capstan::integration::first_seed)) {
      capstan::integration::seeds = 1;
    } else if (argument = argv[i]; !absl::ConsumePrefix(&argument, "--seeds=") ||
                                   !absl::SimpleAtoi(argument, &capstan::integration::seeds)) {
      std::fprintf(stderr, "usage: %s [--seed=FIRST] [--seeds=HOW_MANY]\n", argv[0]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
