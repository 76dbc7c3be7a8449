// Certificates of 30 s, and credentials away: for 15 s of them nobody notices; for longer than they
// live, the parts join anew.
#include <signal.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "libs/time/system_clock.h"

namespace capstan::integration {
namespace {

TEST(IdentityTest, ShortLivedSvidsOutliveTheirIssuersAbsence) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  TestPlatform platform(
      "credentials: {svid_ttl: 30s}\nfencing: {min_fence_after: 1s, replace_margin: 1s}");
  platform.Up();
  const SystemClock clock;
  constexpr int kRanks = 2;
  // Longer than a certificate lives.
  platform.Submit({.id = "long",
                   .ranks = kRanks,
                   .steps = 450,
                   .step = absl::Milliseconds(100),
                   .checkpoint_every = 50,
                   .fence_after = absl::Seconds(10)});
  ASSERT_TRUE(platform.Await([&] { return platform.Witnesses().Count("start", 1) == kRanks; }));

  const auto inode_of = [&](const std::string& part) {
    struct stat info = {};
    stat((platform.data_dir() + "/" + part + "/identity/svid.pem").c_str(), &info);
    return std::make_pair(info.st_ino, info.st_mtime);
  };
  const auto before = inode_of("scheduler");
  const auto credentials = platform.Part("credentials");
  ASSERT_TRUE(credentials.has_value());
  dev::SignalProcess(*credentials, SIGSTOP);
  const BootTime back = clock.Read().boot + absl::Seconds(15);
  // The witnesses' beats go on all the while.
  platform.Await([&] { return clock.Read().boot >= back; });
  dev::SignalProcess(*credentials, SIGCONT);

  EXPECT_EQ(platform.MustSucceed("long").generation(), 1);
  EXPECT_NE(inode_of("scheduler"), before) << "the certificate was renewed meanwhile";
  const WitnessLog log = platform.Witnesses();
  EXPECT_EQ(log.Count("start"), kRanks);
  EXPECT_EQ(log.Count("end", 1), kRanks);
  EXPECT_EQ(absl::StrJoin(log.Violations(), "\n"), "");
}

// As after a machine was asleep for longer than a day.
TEST(IdentityTest, PartsJoinAnewOnceTheirSvidsHaveExpired) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  TestPlatform platform("credentials: {svid_ttl: 30s}");
  platform.Up();
  constexpr int kRanks = 2;
  // Until it is cancelled. The Tasks' lease is longer than the outage: they are not to end.
  platform.Submit({.id = "long",
                   .ranks = kRanks,
                   .steps = 10'000,
                   .step = absl::Milliseconds(100),
                   .fence_after = absl::Minutes(10)});
  ASSERT_TRUE(platform.Await([&] { return platform.Witnesses().Count("start", 1) == kRanks; }));
  const auto task = platform.FindTask("long", 1, 0);
  ASSERT_TRUE(task.has_value());

  const auto credentials = platform.Part("credentials");
  ASSERT_TRUE(credentials.has_value());
  const std::vector<std::string> others = {"scheduler",   "executor",  "node_agent",
                                           "data_loader", "telemetry", "cluster_manager"};
  std::map<std::string, pid_t> before;
  for (const std::string& part : others) before[part] = platform.Part(part)->pid;
  dev::SignalProcess(*credentials, SIGSTOP);
  for (const std::string& part : others) {
    EXPECT_TRUE(platform.Await(
        [&] {
          const auto now = platform.Part(part);
          return !now.has_value() || now->pid != before[part];
        },
        absl::Seconds(90)))
        << part << " has not ended with its SVID";
  }
  dev::SignalProcess(*credentials, SIGCONT);

  ASSERT_TRUE(platform.AwaitReady());
  platform.MustCapstan({"job", "cancel", "long"});
  EXPECT_TRUE(platform.Await(
      [&] { return platform.Get("long").state() == scheduler::v1::Job::STATE_CANCELLED; }));
  const WitnessLog log = platform.Witnesses();
  EXPECT_EQ(log.Count("start"), kRanks);
  EXPECT_EQ(absl::StrJoin(log.Violations(), "\n"), "");
}

}  // namespace
}  // namespace capstan::integration
