// A version that several Nodes want at once, over a network whose hosts are cut off, and that
// others want who may not have it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "integration/access/raw_call.h"
#include "integration/fleet/network.h"
#include "integration/peers/peer_hosts.h"
#include "libs/jose/jwt_svid.h"
#include "libs/jose/signing_key.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/rpc/x509_issue.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/dataloader/v1/content.pb.h"

namespace capstan::integration {
namespace {

using grpc::StatusCode;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kBytes = int64_t{64} << 20;

class PeerHostsTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin(kBytes); }
  void Begin(int64_t bytes) {
    const auto unable = PeerHosts::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    auto hosts = PeerHosts::Start(3, bytes);
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

// What a host's port says to those who have no business there.
class PeerAccessTest : public PeerHostsTest {
 protected:
  void SetUp() override { BeginWith(int64_t{1} << 20); }
  void BeginWith(int64_t bytes) {
    Begin(bytes);
    if (hosts_ == nullptr) return;
    hosts_->Deny(Uri(PeerHosts::PathOf(2)));
    Fetch(0);
    ExpectFetched(0);
  }

  std::string Uri(absl::string_view path) const {
    return absl::StrCat("spiffe://", hosts_->authority().trust_domain(), path);
  }
  std::shared_ptr<grpc::ChannelCredentials> Show(rpc::Svid svid) {
    // Whoever shows it trusts the host.
    svid.bundle = {hosts_->authority().root()};
    const auto identity =
        rpc::Identity::Store(absl::StrCat(folder_.path(), "/", ++identities_), std::move(svid));
    EXPECT_TRUE(identity.ok()) << identity.status();
    return rpc::MutualTlsChannelCredentials(*identity, &clock_, PeerHosts::PathOf(0));
  }
  std::shared_ptr<grpc::ChannelCredentials> As(absl::string_view path) {
    return Show(hosts_->authority().Issue(path));
  }
  // The first host's own authority signs it, with these bounds.
  rpc::Svid Bounded(absl::string_view path, absl::Duration from, absl::Duration until) const {
    const rpc::PrivateKey key = rpc::PrivateKey::Generate().value();
    const absl::Time now = clock_.Read().wall;
    rpc::CertificateSpec spec;
    spec.uri = Uri(path);
    spec.public_key = key.PublicKey();
    spec.not_before = now + from;
    spec.not_after = now + until;
    rpc::Svid svid;
    svid.key_pem = key.ToPem();
    svid.chain = {
        rpc::IssueCertificate(spec, hosts_->authority().root(), hosts_->authority().key()).value()};
    return svid;
  }
  dataloader::v1::ReadContentRequest RequestFor(const std::string& digest = "") const {
    dataloader::v1::ReadContentRequest request;
    *request.mutable_content() = hosts_->content();
    if (!digest.empty()) request.mutable_content()->set_manifest_digest(digest);
    return request;
  }
  grpc::Status Ask(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                   const std::string& digest = "", const std::string& bearer = "") {
    return RawCall(DialAlone(hosts_->AddressOf(0), credentials), kRead, RequestFor(digest),
                   absl::Seconds(20), {"", "", bearer});
  }
  // Waits until a Node that may read is let in: data_loader has to have heard that the first host
  // has it.
  void AwaitGood(const std::shared_ptr<grpc::ChannelCredentials>& reader) {
    grpc::Status good = Ask(reader);
    const BootTime end = clock_.Read().boot + absl::Seconds(60);
    while (!good.ok() && clock_.Read().boot < end) {
      ASSERT_FALSE(hosts_->Watch(0)) << "the host's program has ended";
      good = Ask(reader);
    }
    EXPECT_TRUE(good.ok()) << good.error_message();
  }
  // A JWT-SVID of the trust domain's form, for this host.
  std::string TokenOf(absl::string_view path) const {
    jose::Claims claims;
    claims.subject = Uri(path);
    claims.audiences = {Uri(PeerHosts::PathOf(0))};
    claims.issued_at = clock_.Read().wall;
    claims.expires = claims.issued_at + absl::Hours(1);
    return jose::SigningKey::Generate(jose::kEs256)
        .value()
        .Sign(jose::EncodeClaims(claims, {}))
        .value();
  }
  int64_t HandshakesRefused() const {
    const std::vector<std::string> refused = hosts_->RefusedBy(0);
    return std::count(refused.begin(), refused.end(), "handshake");
  }

  static constexpr char kRead[] = "/capstan.dataloader.v1.PeerContentService/ReadPeerContent";

  const TemporaryFolder folder_;
  const SystemClock clock_;
  int identities_ = 0;
};

TEST_F(PeerAccessTest, BadCertificatesEndInTheHandshake) {
  const std::string path = PeerHosts::PathOf(1);
  const rpc::TestAuthority elsewhere("elsewhere.example");
  const rpc::TestAuthority impostor(hosts_->authority().trust_domain());
  const std::vector<std::pair<std::string, std::shared_ptr<grpc::ChannelCredentials>>> shown = {
      {"no certificate", StrangersCredentials()},
      {"plaintext", grpc::InsecureChannelCredentials()},
      {"expired", Show(Bounded(path, -absl::Hours(2), -absl::Seconds(1)))},
      {"not yet valid", Show(Bounded(path, absl::Minutes(10), absl::Hours(1)))},
      {"another trust domain", Show(elsewhere.Issue(path))},
      {"another authority", Show(impostor.Issue(path))},
  };
  for (const auto& [what, credentials] : shown) {
    const int64_t before = HandshakesRefused();
    const grpc::Status status = Ask(credentials);
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE)
        << what << ": " << status.error_message();
    // Plaintext is no handshake.
    while (what != "plaintext" && HandshakesRefused() == before) {
      ASSERT_FALSE(hosts_->Watch(0)) << "the host's program has ended";
    }
  }
}

TEST_F(PeerAccessTest, OnlyNodesThatMayReadGetAByte) {
  const std::string digest = hosts_->content().manifest_digest();
  const std::string absent = absl::StrCat("sha256:", std::string(64, '0'));
  // A good one first: what follows is not refused for want of something to give.
  Fetch(1);
  ExpectFetched(1);
  const auto reader = As(PeerHosts::PathOf(1));
  ASSERT_NO_FATAL_FAILURE(AwaitGood(reader));
  // What a Node would be, were tokens taken.
  const std::string token = TokenOf(PeerHosts::PathOf(1));
  EXPECT_EQ(Ask(StrangersCredentials(), digest, token).error_code(), StatusCode::UNAVAILABLE);

  for (const std::string path :
       {"/person/1000", "/executor/local", "/svc/scheduler", "/svc/data_loader",
        "/project/p/sa/default/job/0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b/gen/1/task/w-0"}) {
    const auto credentials = As(path);
    const grpc::Status there = Ask(credentials, digest);
    EXPECT_EQ(there.error_code(), StatusCode::PERMISSION_DENIED)
        << path << ": " << there.error_message();
    EXPECT_EQ(Ask(credentials, absent).error_message(), there.error_message()) << path;
    EXPECT_EQ(Ask(credentials, digest, token).error_message(), there.error_message()) << path;
    EXPECT_THAT(hosts_->RefusedBy(0), Contains(HasSubstr(absl::StrCat(path, " /capstan."))))
        << path;
  }
  // Nodes are let in by the rule: of another Cluster, and one to which nothing was given.
  for (const std::string path : {"/node/elsewhere/n1", "/node/local/n7"}) {
    const auto credentials = As(path);
    const grpc::Status there = Ask(credentials, digest);
    EXPECT_EQ(there.error_code(), StatusCode::NOT_FOUND) << path << ": " << there.error_message();
    const grpc::Status missing = Ask(credentials, absent);
    EXPECT_EQ(missing.error_code(), StatusCode::NOT_FOUND) << path;
    EXPECT_EQ(missing.error_message(), there.error_message()) << path;
  }
  // A Node that was denied.
  const grpc::Status denied = Ask(As(PeerHosts::PathOf(2)));
  EXPECT_EQ(denied.error_code(), StatusCode::PERMISSION_DENIED) << denied.error_message();
  EXPECT_THAT(denied.error_message(), HasSubstr("denied by an admin"));
  EXPECT_THAT(hosts_->RefusedBy(0),
              Contains(HasSubstr(absl::StrCat(PeerHosts::PathOf(2), " /capstan."))));
  EXPECT_THAT(hosts_->RefusedBy(0), Not(Contains(HasSubstr(PeerHosts::PathOf(1)))));
}

// More than a stream holds, so that it is open as long as nobody reads on.
class PeerStreamTest : public PeerAccessTest {
 protected:
  void SetUp() override { BeginWith(kBytes); }
};

TEST_F(PeerStreamTest, AReadThatIsOpenEndsWhenItsNodeIsDenied) {
  Fetch(1);
  ExpectFetched(1);
  const auto reader = As(PeerHosts::PathOf(1));
  ASSERT_NO_FATAL_FAILURE(AwaitGood(reader));
  const auto channel = DialAlone(hosts_->AddressOf(0), reader);
  OpenCall open(channel, kRead, absl::Seconds(60));
  ASSERT_TRUE(open.Send(RequestFor(), /*last=*/true));
  ASSERT_TRUE(open.Receive());
  hosts_->DenyAt(0, Uri(PeerHosts::PathOf(1)));
  const grpc::Status end = open.AwaitEnd();
  EXPECT_EQ(end.error_code(), StatusCode::PERMISSION_DENIED) << end.error_message();
  EXPECT_THAT(end.error_message(), HasSubstr("denied by an admin"));
  // On the same connection, which stays.
  const grpc::Status again = RawCall(channel, kRead, RequestFor(), absl::Seconds(20));
  EXPECT_EQ(again.error_code(), StatusCode::PERMISSION_DENIED) << again.error_message();
}

}  // namespace
}  // namespace capstan::integration
