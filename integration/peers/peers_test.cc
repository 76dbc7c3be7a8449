// A version that several Nodes want at once, over a network whose hosts are cut off.
#include <cstdint>
#include <cstdio>
#include <memory>

#include "gtest/gtest.h"
#include "integration/fleet/network.h"
#include "integration/peers/peer_hosts.h"

namespace capstan::integration {
namespace {

constexpr int64_t kBytes = int64_t{64} << 20;

class PeerHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = PeerHosts::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    auto hosts = PeerHosts::Start(3, kBytes);
    ASSERT_TRUE(hosts.ok()) << hosts.status();
    hosts_ = *std::move(hosts);
  }
  void Fetch(int host) {
    const absl::Status begun = hosts_->Fetch(host);
    ASSERT_TRUE(begun.ok()) << begun;
  }
  void ExpectFetched(int host) {
    const auto fetched = hosts_->Await(host);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    std::printf("host %d: %.2f s, %.1f MiB from the Site, %.1f MiB from peers\n", host,
                fetched->seconds, static_cast<double>(fetched->from_site) / (1 << 20),
                static_cast<double>(fetched->from_peers) / (1 << 20));
  }
  void ExpectSiteSentAtMost(double times) {
    const double sent = static_cast<double>(hosts_->SiteSent()) / static_cast<double>(kBytes);
    std::printf("the Site sent %.2f times the size\n", sent);
    EXPECT_LE(sent, times);
  }

  std::unique_ptr<PeerHosts> hosts_;
};

TEST_F(PeerHostsTest, ThreeNodesAtOnceTakeAVersionFromTheSiteAboutOnce) {
  for (int host = 0; host < 3; ++host) Fetch(host);
  for (int host = 0; host < 3; ++host) ExpectFetched(host);
  ExpectSiteSentAtMost(1.5);
}

TEST_F(PeerHostsTest, WhenThePeerIsCutOffMidwayAnotherGivesTheRest) {
  for (int host = 0; host < 2; ++host) Fetch(host);
  for (int host = 0; host < 2; ++host) ExpectFetched(host);
  const int64_t site_before = hosts_->SiteSent();
  // Slow enough to be caught in the middle.
  for (int host = 0; host < 2; ++host) {
    ASSERT_TRUE(hosts_->network().Limit(host, 100'000).ok());
  }
  const int64_t before[] = {hosts_->SentBy(0), hosts_->SentBy(1)};
  Fetch(2);
  int giver = -1;
  while (giver < 0) {
    for (int host = 0; host < 2; ++host) {
      if (hosts_->SentBy(host) - before[host] > kBytes / 8) giver = host;
    }
    ASSERT_FALSE(hosts_->Watch(2)) << "it has ended";
  }
  ASSERT_TRUE(hosts_->network().Cut(giver, Network::Way::kBoth).ok());
  ASSERT_TRUE(hosts_->network().Limit(1 - giver, 1'000'000).ok());
  ExpectFetched(2);
  EXPECT_GT(hosts_->SentBy(1 - giver) - before[1 - giver], kBytes / 4) << "the other one gave none";
  EXPECT_EQ(hosts_->SiteSent(), site_before) << "the Site was not needed";
  ASSERT_TRUE(hosts_->network().Mend(giver).ok());
}

TEST_F(PeerHostsTest, WhenTheFirstOfTheLineIsCutOffTheNextReadsTheSite) {
  ASSERT_TRUE(hosts_->network().Limit(0, 100'000).ok());
  const int64_t before = hosts_->SentBy(0);
  Fetch(0);
  // The others come when it has begun, so that it is the first.
  while (hosts_->SiteSent() < kBytes / 16) ASSERT_FALSE(hosts_->Watch(0)) << "it has ended";
  Fetch(1);
  Fetch(2);
  ASSERT_TRUE(hosts_->AwaitSent(0, before, kBytes / 8));
  ASSERT_TRUE(hosts_->network().Cut(0, Network::Way::kBoth).ok());
  ExpectFetched(1);
  ExpectFetched(2);
  ASSERT_TRUE(hosts_->network().Mend(0).ok());
  ExpectFetched(0);
  // What the first had read and could not pass on was read again; not all was.
  ExpectSiteSentAtMost(1.9);
}

}  // namespace
}  // namespace capstan::integration
