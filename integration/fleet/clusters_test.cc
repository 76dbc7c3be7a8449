// Two Clusters under one scheduler: which of them may run a Job, and what becomes of a gang whose
// Cluster vanishes as a whole, executor included.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/fleet/fleet.h"

namespace capstan::integration {
namespace {

TEST(ClustersTest, AGangOfAClusterThatVanishesGoesOnInTheOther) {
  const auto unable = Fleet::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  Fleet fleet({.config = "fencing: {min_fence_after: 1s, replace_margin: 1s, suspect_after: 10s}\n",
               .second_cluster = true});
  ASSERT_TRUE(fleet.Start());
  TestPlatform& platform = fleet.platform();
  constexpr int kEast = 2;
  constexpr int kRanks = 4;

  // Says where it may run, though the other Cluster has room.
  platform.Submit({.id = "eastern",
                   .ranks = kRanks,
                   .steps = 1000,
                   .checkpoint_every = 20,
                   .fence_after = absl::Seconds(10),
                   .slots = 1,
                   .clusters = {"east", "local"}});
  platform.Submit({.id = "stays", .ranks = 1, .steps = 1, .slots = 1, .clusters = {"east"}});
  ASSERT_TRUE(platform.Await([&] { return platform.Witnesses().Count("commit", 1) > 0; }));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(fleet.HostOf("eastern", 1, rank), kEast) << "the Cluster that it leaves least of";
  }
  EXPECT_EQ(platform.Get("stays").state(), scheduler::v1::Job::STATE_QUEUED)
      << "`local` has room, and may not run it";

  ASSERT_TRUE(fleet.network().Cut(kEast, Network::Way::kBoth).ok());
  ASSERT_TRUE(platform.Await([&] { return platform.Witnesses().Count("start", 2) == kRanks; }));
  const WitnessLog log = platform.Witnesses();
  std::printf("gang of a vanished cluster: starts in the other %.2f s after its last word\n",
              absl::ToDoubleSeconds(log.lives().at({2, 0}).first - log.lives().at({1, 0}).last));
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_NE(fleet.HostOf("eastern", 2, rank), kEast);
  EXPECT_EQ(platform.Get("stays").state(), scheduler::v1::Job::STATE_QUEUED);
  // The witnesses' file knows no Jobs: this one must not begin.
  platform.MustCapstan({"job", "cancel", "stays"});
  ASSERT_TRUE(fleet.network().Mend(kEast).ok());
  EXPECT_EQ(platform.MustSucceed("eastern").generation(), 2);
  EXPECT_EQ(absl::StrJoin(platform.Witnesses().Violations(), "\n"), "");
}

}  // namespace
}  // namespace capstan::integration
