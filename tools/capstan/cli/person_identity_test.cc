#include "tools/capstan/cli/person_identity.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/rpc/x509_issue.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/time/clock.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "tools/capstan/cli/exit_code.h"

namespace capstan::cli {
namespace {

using credentials::v1::IssuePersonSvidRequest;
using credentials::v1::PersonService;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTrustDomain[] = "test.capstan.dev";
const absl::Time kNow = absl::FromUnixSeconds(1'900'000'000);
// As the messages write it: 2030-03-17T17:46:40Z.
constexpr char kNowWritten[] = "2030-03-17T17:46:40Z";

// A wall clock that stands, and a boot clock on which each look takes a while, so that a service
// which is away is given up after the first attempt, without a wait.
class StandingClock final : public Clock {
 public:
  Now Read() const override {
    return {kNow, BootTime::FromNanoseconds(absl::ToInt64Nanoseconds(absl::Seconds(6) * ++looks_))};
  }

 private:
  mutable std::atomic<int> looks_ = 0;
};

// What credentials does at the people's socket, with any bounds of time, or a refusal.
class FakePersonService final : public PersonService::Service {
 public:
  explicit FakePersonService(const rpc::TestAuthority* authority) : authority_(authority) {}

  grpc::Status IssuePersonSvid(grpc::ServerContext* /*context*/,
                               const IssuePersonSvidRequest* request,
                               credentials::v1::Svid* response) override {
    ++asked;
    if (!refusal.ok()) return refusal;
    rpc::CertificateSpec spec;
    spec.uri = absl::StrCat("spiffe://", kTrustDomain, "/person/1000");
    spec.public_key = rpc::PublicKeyOfRequest(request->certificate_request()).value();
    spec.not_before = not_before;
    spec.not_after = not_after;
    response->add_certificate_chain(
        rpc::IssueCertificate(spec, authority_->root(), authority_->key()).value());
    response->mutable_bundle()->add_roots(authority_->root());
    return grpc::Status::OK;
  }

  std::atomic<int> asked = 0;
  grpc::Status refusal;
  absl::Time not_before = kNow - absl::Seconds(10);
  absl::Time not_after = kNow + absl::Hours(3);

 private:
  const rpc::TestAuthority* const authority_;
};

class PersonIdentityTest : public ::testing::Test {
 protected:
  void Serve() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket(), grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown();
  }
  std::string socket() const { return folder_.path() + "/person.sock"; }
  std::string kept() const { return folder_.path() + "/person"; }

  // Keeps a certificate with these bounds, as an earlier command did.
  void Keep(absl::Time not_before, absl::Time not_after) {
    const rpc::PrivateKey key = rpc::PrivateKey::Generate().value();
    rpc::CertificateSpec spec;
    spec.uri = absl::StrCat("spiffe://", kTrustDomain, "/person/1000");
    spec.public_key = key.PublicKey();
    spec.not_before = not_before;
    spec.not_after = not_after;
    rpc::Svid svid;
    svid.key_pem = key.ToPem();
    svid.chain = {rpc::IssueCertificate(spec, authority_.root(), authority_.key()).value()};
    svid.bundle = {authority_.root()};
    const auto stored = rpc::Identity::Store(kept(), std::move(svid));
    ASSERT_TRUE(stored.ok()) << stored.status();
  }
  absl::StatusOr<std::shared_ptr<const rpc::Identity>> Get() {
    return GetPersonIdentity(kept(), socket(), kTrustDomain, &clock_, &random_);
  }

  const TemporaryFolder folder_;
  const rpc::TestAuthority authority_{kTrustDomain, kNow};
  FakePersonService service_{&authority_};
  std::unique_ptr<grpc::Server> server_;
  StandingClock clock_;
  Random random_{1};
};

TEST_F(PersonIdentityTest, OneInForceIsUsedWithoutAskingForAnother) {
  Serve();
  Keep(kNow, kNow + absl::Hours(1));
  const auto identity = Get();
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ((*identity)->Get()->not_after, kNow + absl::Hours(1));
  EXPECT_EQ(service_.asked, 0);
}

TEST_F(PersonIdentityTest, OneThatIsNotInForceIsReplaced) {
  Serve();
  for (const auto& [from, until] : {std::pair(kNow - absl::Hours(2), kNow),
                                    std::pair(kNow + absl::Seconds(1), kNow + absl::Hours(9))}) {
    Keep(from, until);
    const auto identity = Get();
    ASSERT_TRUE(identity.ok()) << identity.status();
    EXPECT_EQ((*identity)->Get()->not_before, service_.not_before);
    // For the next command too.
    const auto again = rpc::Identity::Load(kept());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->Get()->not_after, service_.not_after);
  }
  EXPECT_EQ(service_.asked, 2);
}

TEST_F(PersonIdentityTest, AnExpiredOneThatCantBeReplacedIsNamedWithTheWayOut) {
  Keep(kNow - absl::Hours(3), kNow - absl::Minutes(5));
  const absl::Status status = Get().status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnavailable) << status;
  EXPECT_THAT(
      DescribeError(status),
      AllOf(HasSubstr(kept()),
            HasSubstr("has expired: it is good from 2030-03-17T14:46:40Z to 2030-03-17T17:41:40Z"),
            HasSubstr(absl::StrCat("clock says ", kNowWritten)), HasSubstr("`capstan dev status`"),
            HasSubstr("clock is right")));
}

TEST_F(PersonIdentityTest, OneThatIsNotYetValidAndCantBeReplacedIsNamedWithTheWayOut) {
  Keep(kNow + absl::Minutes(5), kNow + absl::Hours(3));
  const absl::Status status = Get().status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnavailable) << status;
  EXPECT_THAT(DescribeError(status),
              AllOf(HasSubstr(kept()),
                    HasSubstr("is not yet valid: it is good from 2030-03-17T17:51:40Z to "
                              "2030-03-17T20:46:40Z"),
                    HasSubstr(absl::StrCat("clock says ", kNowWritten)),
                    HasSubstr("`capstan dev status`"), HasSubstr("clock is right")));
}

TEST_F(PersonIdentityTest, WhoIsRefusedANewOneIsToldWhy) {
  Serve();
  service_.refusal = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "denied by an admin");
  Keep(kNow - absl::Hours(3), kNow - absl::Minutes(5));
  const absl::Status status = Get().status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kNotFoundOrDenied) << status;
  EXPECT_THAT(DescribeError(status),
              AllOf(HasSubstr("has expired"), HasSubstr("denied by an admin")));
}

TEST_F(PersonIdentityTest, ANewOneThatTheClockForbidsIsNotShownToAnyService) {
  Serve();
  const struct {
    absl::Time from;
    absl::Time until;
    const char* words;
  } rows[] = {
      {kNow + absl::Minutes(5), kNow + absl::Hours(3), "is not yet valid: it is good from "},
      {kNow - absl::Hours(3), kNow - absl::Minutes(5), "has expired: it is good from "},
  };
  for (const auto& row : rows) {
    service_.not_before = row.from;
    service_.not_after = row.until;
    const absl::Status status = Get().status();
    EXPECT_EQ(status::Reason(status), "CERTIFICATE_NOT_VALID") << status;
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kNotFoundOrDenied);
    EXPECT_THAT(DescribeError(status),
                AllOf(HasSubstr("issued to you just now"), HasSubstr(row.words),
                      HasSubstr(absl::StrCat("clock says ", kNowWritten)),
                      HasSubstr("set the clock of this machine")));
  }
}

TEST_F(PersonIdentityTest, OneInForceIsKeptWhileNoBetterOneIsHad) {
  Keep(kNow - absl::Hours(3), kNow + absl::Minutes(5));
  auto identity = Get();
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ((*identity)->Get()->not_after, kNow + absl::Minutes(5));
}

TEST_F(PersonIdentityTest, NoneAtAllAndAnotherTrustDomainsAreTold) {
  absl::Status status = Get().status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnavailable) << status;
  EXPECT_THAT(DescribeError(status),
              AllOf(HasSubstr("no certificate of this platform yet"), HasSubstr("`capstan dev up`"),
                    Not(HasSubstr("expired"))));
  Keep(kNow, kNow + absl::Hours(1));
  status = GetPersonIdentity(kept(), socket(), "other.example", &clock_, &random_).status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnavailable) << status;
  EXPECT_THAT(DescribeError(status),
              HasSubstr("is of the trust domain test.capstan.dev, not of other.example"));
}

}  // namespace
}  // namespace capstan::cli
