// Real servers and clients on loopback: who gets through the handshake, and who does not.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpc/grpc_security.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/server.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo.pb.h"
#include "libs/rpc/testing/echo_server.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/rpc/x509_issue.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/project.pb.h"

namespace capstan::rpc {
namespace {

using ::testing::Contains;
using testing::EchoMessage;
using testing::EchoServer;
using testing::EchoService;
using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(20);

class NoAudit final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry&) override { return absl::OkStatus(); }
};

class HandshakeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_identity_ = authority_.MakeIdentity("/svc/telemetry", Folder("server"));
    StartServer(MutualTlsServerCredentials(server_identity_, &clock_,
                                           [this](const absl::Status& why, absl::string_view) {
                                             absl::MutexLock lock(&mutex_);
                                             refusals_.emplace_back(why.message());
                                           }));
  }

  static void SetUpTestSuite() {
    grpc_set_ssl_roots_override_callback([](char**) {
      system_roots_read_ = true;
      return GRPC_SSL_ROOTS_OVERRIDE_FAIL;
    });
  }

  void TearDown() override {
    server_ = nullptr;
    strand_.Stop();
    // They have no say in whom we trust, and take as long as all else in a command.
    EXPECT_FALSE(system_roots_read_);
  }

  void StartServer(std::shared_ptr<grpc::ServerCredentials> credentials) {
    ServerConfig config;
    config.credentials = std::move(credentials);
    config.services = {Registered<EchoService>(&echo_)};
    absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  static std::string Folder(absl::string_view name) {
    static int number = 0;
    return absl::StrCat(::testing::TempDir(), "/", name, ++number);
  }

  std::string Address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

  std::shared_ptr<grpc::Channel> DialAs(std::shared_ptr<const Identity> identity,
                                        absl::string_view expected = "/svc/telemetry") {
    return Dial(Address(), std::move(identity), &clock_, expected);
  }

  absl::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                    const std::string& text = "hello") {
    const std::unique_ptr<EchoService::Stub> stub = EchoService::NewStub(channel);
    EchoMessage request;
    request.set_text(text);
    absl::Notification done;
    absl::Status result;
    CallUnary(stub.get(), &EchoService::StubInterface::async_interface::Echo, request,
              {.deadline = kDeadline}, &strand_, [&](absl::StatusOr<EchoMessage> response) {
                result = response.status();
                if (response.ok()) {
                  EXPECT_EQ(response->text(), text);
                }
                done.Notify();
              });
    done.WaitForNotification();
    return result;
  }

  std::vector<std::string> Refusals() {
    absl::MutexLock lock(&mutex_);
    return refusals_;
  }

  static std::atomic<bool> system_roots_read_;
  const TestAuthority authority_;
  SystemClock clock_;
  ThreadStrand strand_{"test", &clock_};
  auth::PolicyHolder policy_;
  NoAudit audit_;
  auth::PolicyAccess access_{authority_.trust_domain(), &policy_, &clock_, &audit_};
  EchoServer echo_{&access_, &strand_};
  std::shared_ptr<Identity> server_identity_;
  absl::Mutex mutex_;
  std::vector<std::string> refusals_;
  std::unique_ptr<Server> server_;
};

std::atomic<bool> HandshakeTest::system_roots_read_ = false;

TEST_F(HandshakeTest, GoodCertificatesPass) {
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  EXPECT_EQ(Call(DialAs(scheduler)), absl::OkStatus());
  EXPECT_EQ(echo_.handled(), 1);
  EXPECT_TRUE(Refusals().empty());
}

TEST_F(HandshakeTest, ValidButUnlistedCallersAreDenied) {
  const auto node = authority_.MakeIdentity("/node/c1/n1", Folder("client"));
  EXPECT_EQ(Call(DialAs(node)).code(), absl::StatusCode::kPermissionDenied);
  const auto loader = authority_.MakeIdentity("/svc/data_loader", Folder("client"));
  EXPECT_EQ(Call(DialAs(loader)).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(HandshakeTest, ValidationErrorsReachTheClientWhole) {
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  const absl::Status status = Call(DialAs(scheduler), "bad");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status::Reason(status), "INVALID_FIELD");
  ASSERT_EQ(status::GetFieldViolations(status).size(), 1u);
  EXPECT_EQ(status::GetFieldViolations(status)[0].field, "text");
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(HandshakeTest, NoCertificateEndsInTheHandshake) {
  const auto channel =
      Dial(Address(), JoinChannelCredentials(BundleSha256({authority_.root()}), &clock_));
  EXPECT_EQ(Call(channel).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(HandshakeTest, PlaintextEndsInTheHandshake) {
  EXPECT_EQ(Call(Dial(Address(), grpc::InsecureChannelCredentials())).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(HandshakeTest, ExpiredCertificateEndsInTheHandshake) {
  const auto expired =
      authority_.MakeIdentity("/svc/scheduler", Folder("client"), -absl::Minutes(1));
  EXPECT_EQ(Call(DialAs(expired)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(echo_.handled(), 0);
  EXPECT_THAT(Refusals(), Contains(HasSubstr("expired")));
}

TEST_F(HandshakeTest, AnotherAuthorityEndsInTheHandshake) {
  const TestAuthority other(authority_.trust_domain());
  Svid foreign = other.Issue("/svc/scheduler");
  // It trusts us, we do not trust it.
  foreign.bundle = {authority_.root()};
  const auto identity = Identity::Store(Folder("client"), foreign).value();
  EXPECT_EQ(Call(DialAs(identity)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(echo_.handled(), 0);
  EXPECT_FALSE(Refusals().empty());
}

TEST_F(HandshakeTest, AnotherTrustDomainOfTheSameRootEndsInTheHandshake) {
  Svid svid = authority_.Issue("/svc/scheduler");
  const PrivateKey key = PrivateKey::FromPem(svid.key_pem).value();
  CertificateSpec spec;
  spec.uri = "spiffe://elsewhere.example/svc/scheduler";
  spec.public_key = key.PublicKey();
  spec.not_before = absl::Now() - absl::Hours(1);
  spec.not_after = absl::Now() + absl::Hours(1);
  svid.chain = {IssueCertificate(spec, authority_.root(), authority_.key()).value()};
  const auto identity = Identity::Store(Folder("client"), svid).value();
  EXPECT_EQ(Call(Dial(Address(), identity, &clock_,
                      absl::StrCat("spiffe://", authority_.trust_domain(), "/svc/telemetry")))
                .code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(HandshakeTest, ACertificateWithoutAnIdOfOursEndsInTheHandshake) {
  for (const char* uri : {"https://example.com/svc/scheduler", "spiffe://test.capstan.dev/svc/a/b",
                          "spiffe://test.capstan.dev/project/p/sa/a"}) {
    Svid svid = authority_.Issue("/svc/scheduler");
    const auto identity = Identity::Store(Folder("client"), svid).value();
    const PrivateKey key = PrivateKey::FromPem(svid.key_pem).value();
    CertificateSpec spec;
    spec.uri = uri;
    spec.public_key = key.PublicKey();
    spec.not_before = absl::Now() - absl::Hours(1);
    spec.not_after = absl::Now() + absl::Hours(1);
    const std::string leaf = IssueCertificate(spec, authority_.root(), authority_.key()).value();
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = CertificatesToPem({authority_.root()});
    options.pem_private_key = svid.key_pem;
    options.pem_cert_chain = CertificatesToPem({leaf});
    EXPECT_EQ(Call(Dial(Address(), grpc::SslCredentials(options))).code(),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(HandshakeTest, AWrongServerIsNotSpokenTo) {
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  const absl::Status status = Call(DialAs(scheduler, "/svc/credentials"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call(DialAs(scheduler, "")).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(HandshakeTest, AnExpiredServerIsNotSpokenTo) {
  const auto expired =
      authority_.MakeIdentity("/svc/telemetry", Folder("server"), -absl::Minutes(1));
  StartServer(MutualTlsServerCredentials(expired, &clock_));
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  EXPECT_EQ(Call(DialAs(scheduler)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(echo_.handled(), 0);
}

TEST_F(HandshakeTest, TheVerifiersClockIsTheInjectedOne) {
  SimulatedClock later({absl::Now() + absl::Hours(25), BootTime()});
  StartServer(MutualTlsServerCredentials(server_identity_, &later));
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  EXPECT_EQ(Call(DialAs(scheduler)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(HandshakeTest, ADeniedSerialIsRefusedOnOpenConnections) {
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  const auto channel = DialAs(scheduler);
  EXPECT_EQ(Call(channel), absl::OkStatus());
  credentials::v1::PolicySnapshot snapshot;
  snapshot.add_denied_serials(scheduler->Get()->serial);
  policy_.Set(std::make_shared<auth::Policy>(snapshot, clock_.Read().boot));
  EXPECT_EQ(Call(channel).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(HandshakeTest, JoiningPortIsPinnedByTheBundle) {
  const auto credentials = authority_.MakeIdentity("/svc/credentials", Folder("server"));
  StartServer(JoinServerCredentials(credentials));
  const std::string pin = BundleSha256({authority_.root()});
  // The handshake passes; Echo then wants an identity.
  EXPECT_EQ(Call(Dial(Address(), JoinChannelCredentials(pin, &clock_))).code(),
            absl::StatusCode::kUnauthenticated);
  const std::string other_pin = BundleSha256({TestAuthority().root()});
  EXPECT_EQ(Call(Dial(Address(), JoinChannelCredentials(other_pin, &clock_))).code(),
            absl::StatusCode::kUnavailable);
  // A service that is not credentials can't pass for it.
  StartServer(JoinServerCredentials(server_identity_));
  EXPECT_EQ(Call(Dial(Address(), JoinChannelCredentials(pin, &clock_))).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(HandshakeTest, RotationFailsNoCall) {
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  std::vector<std::string> failures;
  // As every process has one: gRPC 1.51 may forget that certificates are watched when the last
  // watcher of a name goes while the next one comes (it tells the provider of both outside its
  // lock), and a connection then begins without them.
  const auto held = DialAs(scheduler);
  EXPECT_EQ(Call(held), absl::OkStatus());
  // New connections all the time, while both sides change their SVIDs.
  std::thread caller([&] {
    while (!stop) {
      const absl::Status status = Call(DialAs(scheduler));
      if (!status.ok()) failures.push_back(status.ToString());
      ++calls;
    }
  });
  const std::string old_serial = server_identity_->Get()->serial;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(server_identity_->Replace(authority_.Issue("/svc/telemetry")), absl::OkStatus());
    EXPECT_EQ(scheduler->Replace(authority_.Issue("/svc/scheduler")), absl::OkStatus());
    const int seen = calls;
    while (calls < seen + 20) std::this_thread::yield();
  }
  // The new certificate is shown: once the old one is denied, calls pass on new connections.
  credentials::v1::PolicySnapshot snapshot;
  snapshot.add_denied_serials(old_serial);
  policy_.Set(std::make_shared<auth::Policy>(snapshot, clock_.Read().boot));
  stop = true;
  caller.join();
  EXPECT_THAT(failures, ::testing::IsEmpty());
  EXPECT_GE(calls, 60);
}

TEST_F(HandshakeTest, AReplacedSvidIsShownOnNewConnections) {
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  EXPECT_EQ(Call(DialAs(scheduler)), absl::OkStatus());
  credentials::v1::PolicySnapshot snapshot;
  snapshot.add_denied_serials(scheduler->Get()->serial);
  policy_.Set(std::make_shared<auth::Policy>(snapshot, clock_.Read().boot));
  ASSERT_EQ(scheduler->Replace(authority_.Issue("/svc/scheduler")), absl::OkStatus());
  // The watcher looks once a second.
  const absl::Time deadline = absl::Now() + kDeadline;
  absl::Status status;
  do {
    status = Call(DialAs(scheduler));
  } while (!status.ok() && absl::Now() < deadline);
  EXPECT_EQ(status, absl::OkStatus());
}

// A process is a server and a client by one identity.
TEST_F(HandshakeTest, AServerShowsAReplacedSvidAfterItsProcessHasDialled) {
  const auto telemetry =
      authority_.MakeIdentity("/svc/telemetry", Folder("both"), absl::Minutes(30));
  StartServer(MutualTlsServerCredentials(telemetry, &clock_));
  const auto own_channel = DialAs(telemetry);
  EXPECT_EQ(Call(own_channel).code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(telemetry->Replace(authority_.Issue("/svc/telemetry")), absl::OkStatus());
  // For this client the first one has expired.
  SimulatedClock later({absl::Now() + absl::Hours(1), BootTime()});
  const auto scheduler = authority_.MakeIdentity("/svc/scheduler", Folder("client"));
  const absl::Time deadline = absl::Now() + kDeadline;
  absl::Status status;
  do {
    status = Call(Dial(Address(), scheduler, &later, "/svc/telemetry"));
  } while (!status.ok() && absl::Now() < deadline);
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(HandshakeTest, AServerWithAnUnruledMethodDoesNotStart) {
  testing::UnruledService::CallbackService unruled;
  ServerConfig config;
  config.credentials = MutualTlsServerCredentials(server_identity_, &clock_);
  config.services = {Registered<testing::UnruledService>(&unruled)};
  EXPECT_EQ(Server::Start(config).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(HandshakeTest, ATakenPortIsReported) {
  ServerConfig config;
  config.address = Address();
  config.credentials = MutualTlsServerCredentials(server_identity_, &clock_);
  EXPECT_EQ(status::Reason(Server::Start(config).status()), "CANNOT_LISTEN");
}

TEST(ConnectionAgeTest, IsTheEarlierOfHalfALifeAndTheEnd) {
  IdentitySnapshot identity;
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  identity.not_before = start;
  identity.not_after = start + absl::Hours(24);
  EXPECT_EQ(ConnectionAge(identity, start), absl::Hours(12));
  EXPECT_EQ(ConnectionAge(identity, start + absl::Hours(20)), absl::Hours(4));
  EXPECT_EQ(ConnectionAge(identity, start + absl::Hours(30)), absl::Seconds(5));
}

}  // namespace
}  // namespace capstan::rpc
