// Gangs over several hosts, while what carries them is killed; what is true is read from the
// witnesses alone. Hosts are network namespaces of this machine, with one clock and one file
// system.
#include "integration/fleet/fleet.h"

#include <signal.h>

#include <cstdio>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tools/capstan/dev/process.h"

namespace capstan::integration {
namespace {

class FleetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = Fleet::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    fleet_ = std::make_unique<Fleet>(Fleet::Options{
        .config = "fencing: {min_fence_after: 1s, replace_margin: 1s, suspect_after: 10s}\n"});
    ASSERT_TRUE(fleet_->Start());
  }

  TestPlatform& platform() { return fleet_->platform(); }

  bool AwaitStarts(int64_t generation, int ranks) {
    const bool started = platform().Await(
        [&] { return platform().Witnesses().Count("start", generation) == ranks; });
    if (!started) ADD_FAILURE() << platform().Capstan({"job", "list"}).out;
    return started;
  }
  bool AwaitCommit(int64_t generation) {
    return platform().Await([&] { return platform().Witnesses().Count("commit", generation) > 0; });
  }
  // What the platform says of a Job, for a test that has failed.
  std::string Story(const std::string& job) {
    std::string story;
    for (const char* verb : {"explain", "events", "get"}) {
      story += platform().Capstan({"job", verb, job}).out;
    }
    return story + platform().Capstan({"node", "list"}).out;
  }
  static const char* Name(Network::Way way) {
    return way == Network::Way::kBoth       ? "both ways"
           : way == Network::Way::kFromHost ? "from the host"
                                            : "to the host";
  }
  // From the last word of any of generation 1 to the first of generation 2.
  double SecondsBetween() {
    const WitnessLog log = platform().Witnesses();
    return absl::ToDoubleSeconds(log.lives().at({2, 1}).first - log.lives().at({1, 1}).last);
  }
  void ExpectNoViolation() {
    EXPECT_EQ(absl::StrJoin(platform().Witnesses().Violations(), "\n"), "");
  }

  std::unique_ptr<Fleet> fleet_;
};

TEST_F(FleetTest, AGangOverThreeHostsOutlivesLeaderMemberAndHost) {
  constexpr int kRanks = 4;
  platform().Submit({.id = "gang",
                     .ranks = kRanks,
                     .steps = 1200,
                     .checkpoint_every = 20,
                     // Longer than a leader and a member can be away together.
                     .fence_after = absl::Seconds(20),
                     .slots = 1});
  ASSERT_TRUE(AwaitStarts(1, kRanks));
  std::set<int> hosts;
  for (int rank = 0; rank < kRanks; ++rank) hosts.insert(fleet_->HostOf("gang", 1, rank));
  EXPECT_EQ(hosts.count(-1), 0u);
  EXPECT_GE(hosts.size(), 2u) << "two slots a host cannot hold four ranks";

  // The leader dies; its follower takes over, and the gang does not notice.
  const auto leader = platform().Part(fleet_->Leader());
  ASSERT_TRUE(leader.has_value());
  dev::SignalProcess(*leader, SIGKILL);
  const auto took_over = fleet_->AwaitLeaderOtherThan(*leader);
  ASSERT_TRUE(took_over.has_value());
  std::printf("scheduler take-over after kill -9: %.2f s\n", absl::ToDoubleSeconds(*took_over));
  EXPECT_NE(platform().MustCapstan({"job", "list"}).find("gang"), std::string::npos);

  // A member of etcd dies; two of three go on.
  fleet_->etcd().Kill(0);
  ASSERT_TRUE(AwaitCommit(1));
  EXPECT_EQ(platform().Capstan({"queue", "create", "after-the-member"}).exit_code, 0);
  EXPECT_EQ(platform().Witnesses().last_generation(), 1);

  // A host dies with what ran on it: the gang goes on elsewhere from its last checkpoint.
  const int victim = fleet_->HostOf("gang", 1, 0);
  ASSERT_GE(victim, 0) << Story("gang");
  fleet_->KillHost(victim);
  ASSERT_TRUE(AwaitStarts(2, kRanks));
  const auto job = platform().MustSucceed("gang");
  EXPECT_EQ(job.generation(), 2);
  const WitnessLog log = platform().Witnesses();
  EXPECT_EQ(log.Count("end", 2), kRanks);
  EXPECT_GT(log.lives().at({2, 0}).first_step, 1);
  ExpectNoViolation();

  ASSERT_TRUE(fleet_->etcd().Restart(0).ok());
  fleet_->StartHost(victim);
  EXPECT_TRUE(platform().AwaitReady());
}

TEST_F(FleetTest, AStoppedLeaderIsReplacedAndSpeaksNoMore) {
  platform().Submit({.id = "calm",
                     .ranks = 2,
                     .steps = 1200,
                     .checkpoint_every = 100,
                     .fence_after = absl::Seconds(60),
                     .slots = 1});
  ASSERT_TRUE(AwaitStarts(1, 2));
  const std::string former = fleet_->Leader();
  const auto leader = platform().Part(former);
  ASSERT_TRUE(leader.has_value());
  dev::SignalProcess(*leader, SIGSTOP);
  const auto took_over = fleet_->AwaitLeaderOtherThan(*leader);
  ASSERT_TRUE(took_over.has_value());
  std::printf("scheduler take-over by its follower after SIGSTOP: %.2f s\n",
              absl::ToDoubleSeconds(*took_over));
  // Reads and writes go to the new one, though the old one's port still takes connections.
  EXPECT_EQ(platform().Capstan({"queue", "create", "while-stopped"}).exit_code, 0);
  EXPECT_NE(platform().MustCapstan({"job", "list"}).find("calm"), std::string::npos);
  dev::SignalProcess(*leader, SIGCONT);
  // It learns that its lease is over before it says another word; what is scraped may be older.
  EXPECT_TRUE(platform().Await([&] { return fleet_->Leader() != former; }));
  EXPECT_EQ(platform().Capstan({"queue", "create", "afterwards"}).exit_code, 0);
  EXPECT_EQ(platform().MustSucceed("calm").generation(), 1);
  EXPECT_EQ(platform().Witnesses().Count("end", 1), 2);
  ExpectNoViolation();
}

TEST_F(FleetTest, AHostThatIsCutOffEndsItsTasksBeforeTheyStartElsewhere) {
  for (const Network::Way way :
       {Network::Way::kBoth, Network::Way::kFromHost, Network::Way::kToHost}) {
    SCOPED_TRACE(Name(way));
    const std::string id = "cut-" + std::to_string(static_cast<int>(way));
    platform().Submit({.id = id,
                       .ranks = 2,
                       .steps = 600,
                       .checkpoint_every = 20,
                       .fence_after = absl::Seconds(8),
                       .slots = 2});
    ASSERT_TRUE(platform().Await([&] { return platform().FindTask(id, 1, 1).has_value(); }));
    ASSERT_TRUE(AwaitCommit(1));
    const int victim = fleet_->HostOf(id, 1, 1);
    ASSERT_GE(victim, 0);
    ASSERT_TRUE(fleet_->network().Cut(victim, way).ok());
    ASSERT_TRUE(platform().Await([&] { return platform().Witnesses().Count("start", 2) == 2; }))
        << Story(id);
    EXPECT_FALSE(platform().FindTask(id, 1, 1).has_value());
    std::printf("cut %s: started elsewhere %.2f s after the last word of the Task there\n",
                Name(way), SecondsBetween());
    ASSERT_TRUE(fleet_->network().Mend(victim).ok());
    platform().MustSucceed(id);
    ExpectNoViolation();
    ASSERT_TRUE(platform().Await([&] {
      return platform().Capstan({"node", "list"}).out.find("SILENT") == std::string::npos;
    }));
    platform().ForgetWitnesses();
  }
}

TEST_F(FleetTest, SlowLossyAndFarHostsStillRunTheirTasks) {
  ASSERT_TRUE(fleet_->network().Lose(1, 5).ok());
  ASSERT_TRUE(fleet_->network().Limit(1, 4000).ok());
  // Its agent's connections are made anew, over the slow way.
  ASSERT_TRUE(fleet_->network().Delay(2, absl::Milliseconds(150)).ok());
  fleet_->RestartAgent(2);
  platform().Submit({.id = "lossy", .ranks = 5, .steps = 100, .checkpoint_every = 20, .slots = 1});
  const auto job = platform().MustSucceed("lossy");
  EXPECT_EQ(job.generation(), 1);
  EXPECT_EQ(platform().Witnesses().Count("end", 1), 5);
  ExpectNoViolation();
}

}  // namespace
}  // namespace capstan::integration
