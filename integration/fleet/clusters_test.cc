// Two Clusters under one scheduler: which of them may run a Job, and what becomes of a gang whose
// executor is cut off, or whose Cluster vanishes as a whole.
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

class ClustersTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;
  // Of three Nodes the one of `east`; its executor is on a host of its own.
  static constexpr int kEast = 2;
  static constexpr int kExecutor = 3;

  void SetUp() override {
    const auto unable = Fleet::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    fleet_ = std::make_unique<Fleet>(Fleet::Options{
        .hosts = 4,
        .config = "fencing: {min_fence_after: 1s, replace_margin: 1s, suspect_after: 10s}\n",
        .second_cluster = true,
        .executor_apart = true});
    ASSERT_TRUE(fleet_->Start());
  }

  TestPlatform& platform() { return fleet_->platform(); }

  // Submits a gang that says where it may run, and waits until it has come to something there.
  void StartInTheEast(const std::string& id) {
    platform().Submit({.id = id,
                       .ranks = kRanks,
                       .steps = 240,
                       .checkpoint_every = 20,
                       .fence_after = absl::Seconds(8),
                       .slots = 1,
                       .clusters = {"east", "local"}});
    ASSERT_TRUE(platform().Await([&] { return platform().Witnesses().Count("commit", 1) > 0; }));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(fleet_->HostOf(id, 1, rank), kEast) << "the Cluster that it leaves least of";
    }
  }
  // Waits until it runs in the other Cluster.
  void ExpectItGoesOnInTheOther(const std::string& id, const std::string& why) {
    ASSERT_TRUE(platform().Await([&] {
      return platform().Witnesses().Count("start", 2) == kRanks;
    })) << platform().Capstan({"job", "explain", id}).out;
    const WitnessLog log = platform().Witnesses();
    std::printf("%s: starts in the other Cluster %.2f s after its last word\n", why.c_str(),
                absl::ToDoubleSeconds(log.lives().at({2, 0}).first - log.lives().at({1, 0}).last));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_NE(fleet_->HostOf(id, 2, rank), kEast);
      EXPECT_FALSE(platform().FindTask(id, 1, rank).has_value());
    }
  }
  void EndWell(const std::string& id) {
    EXPECT_EQ(platform().MustSucceed(id).generation(), 2);
    EXPECT_EQ(absl::StrJoin(platform().Witnesses().Violations(), "\n"), "");
    ASSERT_TRUE(platform().Await([&] {
      return platform().Capstan({"node", "list"}).out.find("SILENT") == std::string::npos;
    }));
    platform().ForgetWitnesses();
  }

  std::unique_ptr<Fleet> fleet_;
};

TEST_F(ClustersTest, AGangOfAClusterThatIsCutOffGoesOnInTheOther) {
  platform().Submit({.id = "stays", .ranks = 5, .steps = 1, .slots = 1, .clusters = {"east"}});

  // The executor alone: its agents hear that the scheduler has not confirmed, and end their Tasks.
  for (const Network::Way way :
       {Network::Way::kBoth, Network::Way::kFromHost, Network::Way::kToHost}) {
    const std::string name = way == Network::Way::kBoth       ? "both ways"
                             : way == Network::Way::kFromHost ? "from it"
                                                              : "to it";
    SCOPED_TRACE(name);
    const std::string id = absl::StrCat("executor-", static_cast<int>(way));
    StartInTheEast(id);
    ASSERT_TRUE(fleet_->network().Cut(kExecutor, way).ok());
    ExpectItGoesOnInTheOther(id, absl::StrCat("executor cut off ", name));
    ASSERT_TRUE(fleet_->network().Mend(kExecutor).ok());
    EndWell(id);
  }

  // The whole Cluster.
  StartInTheEast("eastern");
  EXPECT_EQ(platform().Get("stays").state(), scheduler::v1::Job::STATE_QUEUED)
      << "`local` has room, and may not run it";
  ASSERT_TRUE(fleet_->network().Cut(kEast, Network::Way::kBoth).ok());
  ASSERT_TRUE(fleet_->network().Cut(kExecutor, Network::Way::kBoth).ok());
  ExpectItGoesOnInTheOther("eastern", "whole Cluster cut off");
  EXPECT_EQ(platform().Get("stays").state(), scheduler::v1::Job::STATE_QUEUED);
  // The witnesses' file knows no Jobs: this one must not begin.
  platform().MustCapstan({"job", "cancel", "stays"});
  ASSERT_TRUE(fleet_->network().Mend(kEast).ok());
  ASSERT_TRUE(fleet_->network().Mend(kExecutor).ok());
  EndWell("eastern");
}

}  // namespace
}  // namespace capstan::integration
