// Two processes of credentials over one real etcd, and clients that know both.
#include "libs/rpc/replicas.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/credentials/v1/token_service.grpc.pb.h"
#include "tools/capstan/dev/process.h"
#include "tools/testenv/etcd_server.h"
#include "tools/testenv/loopback_port.h"

namespace capstan::integration {
namespace {

using namespace credentials::v1;  // NOLINT(google-build-using-namespace): the API under test.

constexpr absl::Duration kDeadline = absl::Seconds(60);
constexpr char kProgram[] = "services/credentials/credentials_main";

// A call with a deadline; its response or its status.
template <typename Response, typename Stub, typename Request>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(20));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return response;
}

BootTime Now() { return SystemClock().Read().boot; }

void Pause(absl::Duration duration) {
  absl::Notification never;
  never.WaitForNotificationWithTimeout(duration);
}

// As every client does: what is UNAVAILABLE is tried again for a while.
template <typename Try>
auto Retry(Try attempt) -> decltype(attempt()) {
  const BootTime end = Now() + kDeadline;
  while (true) {
    auto result = attempt();
    if (result.ok() || !absl::IsUnavailable(result.status()) || Now() > end) return result;
    Pause(absl::Milliseconds(50));
  }
}

class ReplicasTest : public testing::Test {
 protected:
  struct Replica {
    int number = 0;
    absl::optional<testenv::LoopbackPort> port;
    absl::optional<testenv::LoopbackPort> join_port;
    absl::optional<testenv::LoopbackPort> metrics_port;
    absl::optional<dev::Child> process;
  };

  void SetUp() override {
    auto etcd = testenv::EtcdServer::Start({.members = 1});
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    for (int i = 0; i < 2; ++i) {
      Replica& replica = replicas_[i];
      replica.number = i;
      for (auto* port : {&replica.port, &replica.join_port, &replica.metrics_port}) {
        auto taken = testenv::LoopbackPort::Take();
        ASSERT_TRUE(taken.ok()) << taken.status();
        port->emplace(*std::move(taken));
      }
      ASSERT_TRUE(WriteFileAtomically(ConfigFile(i), Config(replica), 0600).ok());
      // Both at once, over an empty store: one of them makes the trust domain.
      Spawn(i);
    }
    for (int i = 0; i < 2; ++i) {
      auto admin = Retry([&] { return Person(i); });
      ASSERT_TRUE(admin.ok()) << admin.status() << Log(i);
      admin_[i] = *std::move(admin);
    }
    ASSERT_EQ(admin_[0]->trust_domain(), admin_[1]->trust_domain());
  }
  void TearDown() override {
    for (int i = 0; i < 2; ++i) {
      if (replicas_[i].process.has_value()) Kill(i);
      if (HasFailure()) ADD_FAILURE() << Log(i);
    }
  }

  std::string ConfigFile(int i) const { return absl::StrCat(folder_.path(), "/c", i, ".yaml"); }
  std::string Socket(int i) const { return absl::StrCat(folder_.path(), "/p", i, ".sock"); }
  std::string Log(int i) const {
    const UniqueFd fd(open(absl::StrCat(folder_.path(), "/c", i, ".log").c_str(), O_RDONLY));
    return fd.valid() ? absl::StrCat("\nreplica ", i, ":\n",
                                     ReadAll(fd.get(), 1 << 20, "log").value_or("no log"))
                      : "";
  }
  std::string Config(const Replica& replica) const {
    const std::string name = absl::StrCat("c", replica.number);
    return absl::StrCat(
        "process:\n  data_folder: ", folder_.path(), "/", name,
        "\n  listen: 127.0.0.1:", replica.port->number(),
        "\n  metrics_listen: 127.0.0.1:", replica.metrics_port->number(),
        "\n  log: {file: ", folder_.path(), "/", name, ".log}\n  store:\n    etcd:\n",
        "      endpoints: [", absl::StrJoin(etcd_->endpoints(), ", "),
        "]\n      ca_file: ", etcd_->ca_file(),
        "\n      certificate_file: ", etcd_->certificate_file(),
        "\n      key_file: ", etcd_->key_file(), "\n      server_name: ", etcd_->server_name(),
        "\njoin_listen: 127.0.0.1:", replica.join_port->number(),
        "\nperson_socket: ", Socket(replica.number), "\nadmin_uid: ", geteuid(),
        "\nkey_file: ", folder_.path(), "/shared.key\n");
  }
  void Spawn(int i) {
    char* const program = realpath(kProgram, nullptr);
    ASSERT_NE(program, nullptr);
    dev::SpawnOptions spawn;
    spawn.argv = {program, "--config", ConfigFile(i)};
    free(program);
    spawn.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"};
    spawn.output_file = absl::StrCat(folder_.path(), "/c", i, ".log");
    auto child = dev::Child::Spawn(spawn);
    ASSERT_TRUE(child.ok()) << child.status();
    replicas_[i].process.emplace(*std::move(child));
  }
  void Kill(int i) {
    const dev::ProcessId id = replicas_[i].process->id();
    dev::SignalProcess(id, SIGKILL);
    while (!replicas_[i].process->TryReap().has_value()) Pause(absl::Milliseconds(5));
    replicas_[i].process.reset();
  }

  std::string Address(int i) const {
    return absl::StrCat("127.0.0.1:", replicas_[i].port->number());
  }
  std::shared_ptr<grpc::Channel> To(int i, std::shared_ptr<const rpc::Identity> identity) const {
    return rpc::Dial(Address(i), std::move(identity), &clock_, "/svc/credentials");
  }
  // As parts dial: all replicas.
  std::shared_ptr<grpc::Channel> ToAny(std::shared_ptr<const rpc::Identity> identity) const {
    return rpc::DialLeader(
        rpc::ReplicaTarget({Address(0), Address(1)}).value(),
        rpc::MutualTlsChannelCredentials(std::move(identity), &clock_, "/svc/credentials"));
  }
  absl::StatusOr<std::shared_ptr<rpc::Identity>> Keep(const Svid& svid,
                                                      const rpc::PrivateKey& key) {
    rpc::Svid kept;
    kept.key_pem = key.ToPem();
    kept.chain.assign(svid.certificate_chain().begin(), svid.certificate_chain().end());
    kept.bundle.assign(svid.bundle().roots().begin(), svid.bundle().roots().end());
    return rpc::Identity::Store(absl::StrCat(folder_.path(), "/client-", ++identities_),
                                std::move(kept));
  }
  absl::StatusOr<std::shared_ptr<rpc::Identity>> Person(int i) {
    CAPSTAN_ASSIGN_OR_RETURN(const rpc::PrivateKey key, rpc::PrivateKey::Generate());
    const auto stub = PersonService::NewStub(
        grpc::CreateChannel(absl::StrCat("unix:", Socket(i)), grpc::InsecureChannelCredentials()));
    IssuePersonSvidRequest request;
    CAPSTAN_ASSIGN_OR_RETURN(*request.mutable_certificate_request(),
                             rpc::MakeCertificateRequest(key));
    CAPSTAN_ASSIGN_OR_RETURN(const Svid svid,
                             Call<Svid>(*stub, &PersonService::Stub::IssuePersonSvid, request));
    return Keep(svid, key);
  }
  absl::StatusOr<std::string> MakeToken(const std::string& path) {
    const auto stub = JoinTokenService::NewStub(ToAny(admin_[0]));
    CreateJoinTokenRequest request;
    request.set_path(path);
    CAPSTAN_ASSIGN_OR_RETURN(const JoinToken token, Retry([&] {
                               return Call<JoinToken>(
                                   *stub, &JoinTokenService::Stub::CreateJoinToken, request);
                             }));
    return token.token();
  }
  absl::StatusOr<Svid> Join(int i, const std::string& token, const rpc::PrivateKey& key) {
    const std::vector<std::string> parts = absl::StrSplit(token, '.');
    const auto stub =
        JoinService::NewStub(rpc::Dial(absl::StrCat("127.0.0.1:", replicas_[i].join_port->number()),
                                       rpc::JoinChannelCredentials(parts.back(), &clock_)));
    JoinRequest request;
    request.set_token(token);
    CAPSTAN_ASSIGN_OR_RETURN(*request.mutable_certificate_request(),
                             rpc::MakeCertificateRequest(key));
    CAPSTAN_ASSIGN_OR_RETURN(const JoinResponse response,
                             Call<JoinResponse>(*stub, &JoinService::Stub::Join, request));
    return response.svid();
  }
  absl::StatusOr<std::shared_ptr<rpc::Identity>> JoinedAs(int i, const std::string& path) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string token, MakeToken(path));
    CAPSTAN_ASSIGN_OR_RETURN(const rpc::PrivateKey key, rpc::PrivateKey::Generate());
    CAPSTAN_ASSIGN_OR_RETURN(const Svid svid, Retry([&] { return Join(i, token, key); }));
    return Keep(svid, key);
  }

  const SystemClock clock_;
  const TemporaryFolder folder_;
  std::unique_ptr<testenv::EtcdServer> etcd_;
  Replica replicas_[2];
  std::shared_ptr<rpc::Identity> admin_[2];
  std::atomic<int> identities_ = 0;
};

TEST_F(ReplicasTest, AJoinTokenServesOnceThoughFiftyAskBothAtOnce) {
  for (int round = 0; round < 3; ++round) {
    const auto token = MakeToken(absl::StrCat("/node/local/n", round));
    ASSERT_TRUE(token.ok()) << token.status();
    constexpr int kAttempts = 50;
    std::atomic<int> redeemed = 0;
    std::atomic<int> refused = 0;
    std::vector<std::thread> threads;
    threads.reserve(kAttempts);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      threads.emplace_back([&, attempt] {
        const rpc::PrivateKey key = rpc::PrivateKey::Generate().value();
        const auto joined = Retry([&] { return Join(attempt % 2, *token, key); });
        if (joined.ok()) {
          ++redeemed;
        } else if (status::Reason(joined.status()) == "INVALID_JOIN_TOKEN") {
          ++refused;
        } else {
          ADD_FAILURE() << joined.status();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(redeemed, 1);
    EXPECT_EQ(refused, kAttempts - 1);
  }
}

TEST_F(ReplicasTest, NoCallIsLostThatARetryCoversWhileOneIsKilledAndComesBack) {
  const auto node = JoinedAs(1, "/node/local/n");
  ASSERT_TRUE(node.ok()) << node.status();
  std::atomic<bool> stop = false;
  std::atomic<int> renewed = 0;
  std::atomic<int> made = 0;
  std::thread renewing([&] {
    const auto stub = IdentityService::NewStub(ToAny(*node));
    std::set<std::string> serials;
    while (!stop) {
      const rpc::PrivateKey key = rpc::PrivateKey::Generate().value();
      RenewSvidRequest request;
      request.set_certificate_request(rpc::MakeCertificateRequest(key).value());
      const auto svid =
          Retry([&] { return Call<Svid>(*stub, &IdentityService::Stub::RenewSvid, request); });
      if (!svid.ok()) {
        ADD_FAILURE() << svid.status();
        return;
      }
      const auto certificate = rpc::ParseCertificate(svid->certificate_chain(0));
      EXPECT_TRUE(certificate.ok() && serials.insert(certificate->serial).second);
      ++renewed;
    }
  });
  std::thread making([&] {
    for (int i = 0; !stop; ++i) {
      const auto token = MakeToken(absl::StrCat("/node/local/m", i));
      if (!token.ok()) {
        ADD_FAILURE() << token.status();
        return;
      }
      ++made;
    }
  });
  const auto progress = [&](int more) {
    const int renewals = renewed + more;
    const int tokens = made + more;
    const BootTime end = Now() + kDeadline;
    while ((renewed < renewals || made < tokens) && Now() < end) {
      Pause(absl::Milliseconds(10));
    }
    return renewed >= renewals && made >= tokens;
  };
  EXPECT_TRUE(progress(10));
  for (int i = 0; i < 2; ++i) {
    Kill(i);
    EXPECT_TRUE(progress(10)) << "while replica " << i << " is gone";
    Spawn(i);
    EXPECT_TRUE(Retry([&] { return Person(i); }).ok());
    EXPECT_TRUE(progress(5));
  }
  stop = true;
  renewing.join();
  making.join();
  RecordProperty("renewals", renewed);
  RecordProperty("tokens", made);
}

TEST_F(ReplicasTest, APolicyChangeAtOneReachesTheWatchersOfTheOther) {
  const auto scheduler = JoinedAs(0, "/svc/scheduler");
  ASSERT_TRUE(scheduler.ok()) << scheduler.status();
  const auto watching = PolicyService::NewStub(To(1, *scheduler));
  grpc::ClientContext context;
  rpc::SetDeadline(context, kDeadline);
  const auto stream = watching->WatchPolicy(&context, WatchPolicyRequest());
  PolicySnapshot snapshot;
  ASSERT_TRUE(stream->Read(&snapshot));
  const auto changing = PolicyService::NewStub(To(0, admin_[0]));
  std::vector<double> delays;
  for (int i = 0; i < 10; ++i) {
    DenyIdentityRequest deny;
    deny.set_serial(absl::StrCat("5", i));
    deny.set_reason("a test");
    const BootTime start = Now();
    const auto denied = Retry([&] {
      return Call<google::protobuf::Empty>(*changing, &PolicyService::Stub::DenyIdentity, deny);
    });
    ASSERT_TRUE(denied.ok()) << denied.status();
    while (snapshot.denied_serials_size() <= i) ASSERT_TRUE(stream->Read(&snapshot));
    delays.push_back(absl::ToDoubleMilliseconds(Now() - start));
  }
  std::sort(delays.begin(), delays.end());
  EXPECT_LT(delays.back(), 2000) << "milliseconds";
  RecordProperty("median_ms", static_cast<int>(delays[delays.size() / 2]));
  RecordProperty("worst_ms", static_cast<int>(delays.back()));
  context.TryCancel();
}

TEST_F(ReplicasTest, BothPublishTheSameKeys) {
  JwtBundle bundles[2];
  const auto same = Retry([&]() -> absl::StatusOr<std::string> {
    for (int i = 0; i < 2; ++i) {
      const auto stub = TokenService::NewStub(To(i, admin_[i]));
      CAPSTAN_ASSIGN_OR_RETURN(bundles[i], Call<JwtBundle>(*stub, &TokenService::Stub::GetJwtBundle,
                                                           GetJwtBundleRequest()));
    }
    // The RSA key takes a while to make.
    const std::string& keys = bundles[0].jwks();
    if (!absl::StrContains(keys, "RSA") || keys != bundles[1].jwks()) {
      return absl::UnavailableError("not yet");
    }
    return keys;
  });
  EXPECT_TRUE(same.ok()) << bundles[0].jwks() << "\n" << bundles[1].jwks();
}

}  // namespace
}  // namespace capstan::integration
