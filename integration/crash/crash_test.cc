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
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "integration/crash/crash_run.h"
#include "integration/crash/etcd_leases.h"
#include "integration/crash/scenario.h"
#include "integration/etcd/test_store.h"
#include "integration/platform/store_config.h"
#include "integration/platform/test_platform.h"
#include "libs/crash_point/points.h"
#include "libs/status/status_macros.h"
#include "libs/store/etcd_options.h"
#include "libs/store/store.h"
#include "libs/store/testing/pumped_strand.h"
#include "libs/time/system_clock.h"
#include "tools/testenv/etcd_server.h"

#ifndef CAPSTAN_CRASH_SEEDS
#define CAPSTAN_CRASH_SEEDS 10
#endif

namespace capstan::integration {
namespace {

// Starting etcd's platforms takes longer, and what differs is the store alone.
constexpr uint64_t kSqliteSeedsForOneOfEtcd = 3;
// From so many seeds on, one of so many faults at least must have been carried out.
constexpr uint64_t kSeedsThatMeetFaults = 3;
constexpr int kMetOf = 2;

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

std::vector<std::string> KeysInEtcd(const testenv::EtcdServer& etcd, const std::string& prefix) {
  store::PumpedStrand strand;
  store::EtcdOptions options = store::OptionsFor(etcd);
  options.prefix = "/capstan/";
  // Nothing of its own is stored.
  options.incarnation = 1;
  const auto opened = store::OpenEtcd(std::move(options), &strand);
  EXPECT_TRUE(opened.ok()) << opened.status();
  std::vector<std::string> keys;
  if (!opened.ok()) return keys;
  bool done = false;
  (*opened)->Range({.key = prefix, .end = store::PrefixEnd(prefix), .limit = store::kMaxRangeLimit},
                   [&](absl::StatusOr<store::RangeResult> found) {
                     EXPECT_TRUE(found.ok()) << found.status();
                     if (found.ok()) {
                       for (const store::KeyValue& kv : found->kvs) keys.push_back(kv.key);
                     }
                     done = true;
                   });
  EXPECT_TRUE(strand.RunUntil([&] { return done; }));
  return keys;
}

// All seeds, until one fails. `begin` gives each platform its configuration, and its store anew;
// `view`: as CrashPlatform has it.
void RunSeeds(StoreKind store, uint64_t seeds,
              const std::function<absl::StatusOr<std::string>()>& begin,
              const absl::optional<StoreView>& view) {
  std::set<std::string> seen;
  FaultCounts counts;
  const SystemClock clock;
  for (uint64_t seed = first_seed; seed < first_seed + seeds;) {
    const absl::StatusOr<std::string> config = begin();
    ASSERT_TRUE(config.ok()) << config.status();
    CrashPlatform platform(*config, view);
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
    counts.drawn += platform.counts().drawn;
    counts.made += platform.counts().made;
    counts.drawn_at_points += platform.counts().drawn_at_points;
    counts.made_at_points += platform.counts().made_at_points;
    counts.hosts_lost += platform.counts().hosts_lost;
    counts.hosts_frozen += platform.counts().hosts_frozen;
    if (::testing::Test::HasFailure()) break;
  }
  std::printf(
      "%d faults drawn, %d made; at points %d drawn, %d made; host lost %d times, stopped %d "
      "times; points come by:\n",
      counts.drawn, counts.made, counts.drawn_at_points, counts.made_at_points, counts.hosts_lost,
      counts.hosts_frozen);
  // One seed's fault may be for a point that its Job does not come by so often; of several, most
  // are met.
  if (seeds >= kSeedsThatMeetFaults) {
    EXPECT_GE(kMetOf * counts.made, counts.drawn);
    EXPECT_GE(kMetOf * counts.made_at_points, counts.drawn_at_points);
    EXPECT_GT(counts.made_at_points, 0);
    EXPECT_GT(counts.hosts_lost, 0);
    EXPECT_GT(counts.hosts_frozen, 0);
  }
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
  RunSeeds(StoreKind::kSqlite, seeds, [] { return ""; }, absl::nullopt);
}

TEST(CrashTest, AlsoWhereTheStoreIsEtcd) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  std::unique_ptr<testenv::EtcdServer> etcd;
  const auto begin = [&etcd]() -> absl::StatusOr<std::string> {
    etcd = nullptr;
    CAPSTAN_ASSIGN_OR_RETURN(etcd, testenv::EtcdServer::Start({}));
    return StoreConfig(*etcd);
  };
  RunSeeds(StoreKind::kEtcd, std::max<uint64_t>(1, seeds / kSqliteSeedsForOneOfEtcd), begin,
           StoreView{[&etcd](const std::string& prefix) { return KeysInEtcd(*etcd, prefix); },
                     [&etcd] {
                       auto leases = EtcdLeases(*etcd);
                       EXPECT_TRUE(leases.ok()) << leases.status();
                       return leases.ok() ? *std::move(leases) : std::vector<EtcdLease>();
                     }});
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
