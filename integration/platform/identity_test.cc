// Certificates of 30 s, and credentials away for 15 s of them: nobody notices.
#include <signal.h>
#include <sys/stat.h>

#include <memory>
#include <string>

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

}  // namespace
}  // namespace capstan::integration
