#include "libs/rpc/replicas.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/fake_access.h"
#include "libs/rpc/call.h"
#include "libs/rpc/server.h"
#include "libs/rpc/testing/echo.grpc.pb.h"
#include "libs/rpc/testing/echo_server.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::rpc {
namespace {

using testing::EchoMessage;
using testing::EchoServer;
using testing::EchoService;

TEST(ReplicaTargetTest, NamesAllReplicasOrSaysWhichAddressIsWrong) {
  EXPECT_EQ(*ReplicaTarget({"dns:///scheduler:7101"}), "dns:///scheduler:7101");
  EXPECT_EQ(*ReplicaTarget({"10.0.0.1:1", "10.0.0.2:65535"}), "ipv4:10.0.0.1:1,10.0.0.2:65535");
  EXPECT_EQ(*ReplicaTarget({"[::1]:1", "[fe80::2]:2"}), "ipv6:[::1]:1,[fe80::2]:2");
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"scheduler"},
      {"10.0.0.1:1,10.0.0.2:2"},
      {"10.0.0.1:1", "scheduler:2"},
      {"10.0.0.1:1", "10.0.0.2:0"},
      {"10.0.0.1:1", "10.0.0.2:65536"},
      {"10.0.0.1:1", "[::1]:2"},
      {"10.0.0.1:1", "::1:2"},
      std::vector<std::string>(17, "10.0.0.1:1"),
  };
  for (const auto& addresses : wrong) {
    EXPECT_EQ(ReplicaTarget(addresses).status().code(), absl::StatusCode::kInvalidArgument)
        << (addresses.empty() ? "none" : addresses.back());
  }
}

// A server that counts the calls it got.
class Replica {
 public:
  explicit Replica(const SystemClock* clock) : strand_("replica", clock) {
    ServerConfig config;
    config.credentials = grpc::InsecureServerCredentials();
    config.services = {Registered<EchoService>(&echo_)};
    auto started = Server::Start(config);
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    server_->SetServing(kLeaderHealth, false);
  }
  ~Replica() { server_->Shutdown(absl::ZeroDuration()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", server_->port()); }
  void SetLeading(bool leading) { server_->SetServing(kLeaderHealth, leading); }
  int handled() const { return echo_.handled(); }

 private:
  auth::FakeAccess access_;
  ThreadStrand strand_;
  EchoServer echo_{&access_, &strand_};
  std::unique_ptr<Server> server_;
};

class DialLeaderTest : public ::testing::Test {
 protected:
  // Waits for a leader that serves, as a caller with a deadline does.
  grpc::Status Echo(EchoService::Stub* stub, bool wait_for_ready) {
    grpc::ClientContext context;
    SetDeadline(context, absl::Seconds(30));
    context.set_wait_for_ready(wait_for_ready);
    EchoMessage request;
    request.set_text("x");
    EchoMessage response;
    return stub->Echo(&context, request, &response);
  }

  SystemClock clock_;
};

TEST_F(DialLeaderTest, EveryCallGoesToTheReplicaThatLeads) {
  Replica first(&clock_);
  Replica second(&clock_);
  const auto target = ReplicaTarget({first.address(), second.address()});
  ASSERT_TRUE(target.ok()) << target.status();
  const auto stub = EchoService::NewStub(DialLeader(*target, grpc::InsecureChannelCredentials()));

  second.SetLeading(true);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Echo(stub.get(), true).ok());
  EXPECT_EQ(first.handled(), 0);
  EXPECT_EQ(second.handled(), 20);

  second.SetLeading(false);
  // Once the news has come nobody is asked.
  grpc::Status refused;
  do {
    refused = Echo(stub.get(), false);
  } while (refused.ok());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE) << refused.error_message();
  EXPECT_EQ(first.handled(), 0);

  const int before = second.handled();
  first.SetLeading(true);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Echo(stub.get(), true).ok());
  EXPECT_EQ(first.handled(), 20);
  EXPECT_EQ(second.handled(), before);
}

TEST_F(DialLeaderTest, ALeaderThatIsGoneIsReplaced) {
  auto first = std::make_unique<Replica>(&clock_);
  Replica second(&clock_);
  const auto target = ReplicaTarget({first->address(), second.address()});
  const auto stub = EchoService::NewStub(DialLeader(*target, grpc::InsecureChannelCredentials()));
  first->SetLeading(true);
  ASSERT_TRUE(Echo(stub.get(), true).ok());
  first = nullptr;
  second.SetLeading(true);
  EXPECT_TRUE(Echo(stub.get(), true).ok());
  EXPECT_EQ(second.handled(), 1);
}

}  // namespace
}  // namespace capstan::rpc
