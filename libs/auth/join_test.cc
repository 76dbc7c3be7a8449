#include "libs/auth/join.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/auth/join_token.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/server.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/unary.h"
#include "libs/rpc/x509.h"
#include "libs/rpc/x509_issue.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"

namespace capstan::auth {
namespace {

using credentials::v1::JoinRequest;
using credentials::v1::JoinResponse;
using credentials::v1::JoinService;

// Gives `/svc/scheduler` to whoever shows the token; fails the first `failures` calls.
class FakeJoinService final : public JoinService::CallbackService {
 public:
  FakeJoinService(const rpc::TestAuthority* authority, std::string token, int failures)
      : authority_(authority), token_(std::move(token)), failures_(failures) {}

  int calls() const { return calls_; }

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const JoinRequest* request,
                                 JoinResponse* response) override {
    return rpc::HandleUnary(
        context, &access_, "/capstan.credentials.v1.JoinService/Join", request, response,
        rpc::NothingToValidate(),
        [this](rpc::Call, const JoinRequest& request, JoinResponse* response, rpc::Finish finish) {
          if (++calls_ <= failures_) return finish(absl::UnavailableError("starting"));
          if (request.token() != token_) return finish(absl::PermissionDeniedError("no"));
          rpc::CertificateSpec spec;
          spec.uri = absl::StrCat("spiffe://", authority_->trust_domain(), "/svc/scheduler");
          spec.public_key = rpc::PublicKeyOfRequest(request.certificate_request()).value();
          spec.not_before = clock_.Read().wall - absl::Minutes(1);
          spec.not_after = clock_.Read().wall + absl::Hours(24);
          response->mutable_svid()->add_certificate_chain(
              rpc::IssueCertificate(spec, authority_->root(), authority_->key()).value());
          response->mutable_svid()->mutable_bundle()->add_roots(authority_->root());
          finish(absl::OkStatus());
        });
  }

 private:
  const rpc::TestAuthority* const authority_;
  const std::string token_;
  const int failures_;
  SystemClock clock_;
  FakeAccess access_;
  std::atomic<int> calls_ = 0;
};

class JoinTest : public ::testing::Test {
 protected:
  JoinTest() : token_(absl::StrCat("ab12.cd34.", rpc::BundleSha256({authority_.root()}))) {
    options_.folder = Folder();
    options_.deadline = absl::Seconds(20);
  }

  void StartServer(int failures = 0) {
    service_ = std::make_unique<FakeJoinService>(&authority_, token_, failures);
    rpc::ServerConfig config;
    config.credentials =
        rpc::JoinServerCredentials(authority_.MakeIdentity("/svc/credentials", Folder()));
    config.services = {rpc::Registered<JoinService>(service_.get())};
    server_ = rpc::Server::Start(config).value();
    options_.join_address = absl::StrCat("127.0.0.1:", server_->port());
  }

  static std::string Folder() {
    static int number = 0;
    return absl::StrCat(::testing::TempDir(), "/join", getpid(), "-", ++number);
  }
  // A pipe that carries the text and then end of file.
  static int Pipe(const std::string& text) {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    EXPECT_EQ(write(fds[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(fds[1]);
    return fds[0];
  }

  SystemClock clock_;
  const rpc::TestAuthority authority_;
  const std::string token_;
  ObtainOptions options_;
  std::unique_ptr<FakeJoinService> service_;
  std::unique_ptr<rpc::Server> server_;
};

TEST_F(JoinTest, ATokenBecomesAnIdentityThatOutlivesCredentials) {
  StartServer();
  options_.token_fd = Pipe(token_ + "\n");
  const auto joined = ObtainIdentity(options_, &clock_);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ((*joined)->spiffe_id(), "spiffe://test.capstan.dev/svc/scheduler");
  server_ = nullptr;
  options_.token_fd = -1;
  const auto restarted = ObtainIdentity(options_, &clock_);
  ASSERT_TRUE(restarted.ok()) << restarted.status();
  EXPECT_EQ((*restarted)->Get()->svid, (*joined)->Get()->svid);
}

TEST_F(JoinTest, LostAnswersAreAskedForAgain) {
  StartServer(/*failures=*/2);
  options_.token_fd = Pipe(token_);
  EXPECT_TRUE(ObtainIdentity(options_, &clock_).ok());
  EXPECT_EQ(service_->calls(), 3);
}

TEST_F(JoinTest, ARefusalIsFinal) {
  StartServer();
  options_.token_fd = Pipe(absl::StrCat("ab12.wrong.", rpc::BundleSha256({authority_.root()})));
  EXPECT_EQ(ObtainIdentity(options_, &clock_).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(service_->calls(), 1);
}

TEST_F(JoinTest, TheTokenIsNotShownToAnotherTrustDomain) {
  StartServer();
  options_.deadline = absl::Seconds(2);
  options_.token_fd =
      Pipe(absl::StrCat("ab12.cd34.", rpc::BundleSha256({rpc::TestAuthority().root()})));
  EXPECT_FALSE(ObtainIdentity(options_, &clock_).ok());
  EXPECT_EQ(service_->calls(), 0);
}

TEST_F(JoinTest, WithoutIdentityAndTokenThereIsAClearAnswer) {
  EXPECT_EQ(status::Reason(ObtainIdentity(options_, &clock_).status()), "NO_IDENTITY");
  authority_.MakeIdentity("/svc/scheduler", options_.folder, -absl::Minutes(1));
  EXPECT_EQ(status::Reason(ObtainIdentity(options_, &clock_).status()), "NO_IDENTITY");
}

TEST_F(JoinTest, TokensAreStrict) {
  EXPECT_TRUE(ParseJoinToken(token_).ok());
  EXPECT_EQ(ParseJoinToken(token_)->bundle_sha256, rpc::BundleSha256({authority_.root()}));
  const std::string hash(64, 'a');
  for (const std::string& bad :
       {std::string(), std::string("a.b"), "a.b." + hash + "a", "a.b." + std::string(64, 'A'),
        "a..b" + hash, ".b." + hash, "a.b.c." + hash, "a b.c." + hash,
        std::string(200, 'a') + ".b." + hash}) {
    const absl::Status status = ParseJoinToken(bad).status();
    EXPECT_EQ(status::Reason(status), "INVALID_JOIN_TOKEN") << bad;
  }
  EXPECT_FALSE(ReadJoinToken(Pipe(std::string(5000, 'a'))).ok());
}

}  // namespace
}  // namespace capstan::auth
