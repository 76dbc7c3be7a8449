#include "libs/kube/transport/h2_transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/testing/http_test_server.h"
#include "libs/kube/transport/testing/one_exchange.h"
#include "libs/kube/transport/testing/recording_handler.h"
#include "libs/kube/transport/testing/scripted_exchange.h"
#include "libs/kube/transport/testing/transport_fixture.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_conformance.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using Harnesses = testing::Types<ServerHarness<&MakeH2Transport, Protocol::kHttp2>>;
INSTANTIATE_TYPED_TEST_SUITE_P(H2, TransportConformance, Harnesses);

class H2TransportTest : public TransportFixture<testing::Test> {
 protected:
  H2TransportTest() : TransportFixture(&MakeH2Transport) {}
};

TEST_F(H2TransportTest, StopsTheStreamOfAStuckHandlerAlone) {
  const std::string big = NumberedBytes(size_t{8} << 20);
  OneExchange one;
  Serve(ServerOptions(Protocol::kHttp2),
        [script = one.script()](std::shared_ptr<ScriptedExchange> exchange) {
          if (exchange->request().target == "/big") {
            script(std::move(exchange));
          } else {
            exchange->Reply(200, "ok");
          }
        });
  TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.max_held_bytes = size_t{1} << 20;
  options.longest_stall = absl::Milliseconds(1);
  Connect(options);
  SlowHandler stuck;
  const auto call = transport_->Start(RequestOf("/big"), &stuck.handler);
  const auto exchange = one.Await();
  exchange->Reply(200, big);
  stuck.handler.AwaitBytes(1);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(Ask(), absl::OkStatus());
  // It has got what the window lets through, and no more.
  EXPECT_FALSE(exchange->AwaitGone(absl::ZeroDuration()));
  EXPECT_EQ(stuck.ResumeToTheEnd(*call), absl::OkStatus());
  EXPECT_TRUE(stuck.handler.body() == big);
  EXPECT_TRUE(exchange->AwaitGone(absl::Seconds(20)));
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(H2TransportTest, SendsNothingToAServerThatRefusesItsCertificate) {
  HttpTestServerOptions options = ServerOptions(Protocol::kHttp2);
  options.client_ca_pem = Pem(Authority().root());
  Serve(options, AnswerOk);
  Connect(ClientOptions(Protocol::kHttp2, server_->port()));
  for (const Credential& bad : {Credential(), CertificateOf(rpc::TestAuthority())}) {
    credentials_.Set(bad);
    const std::string reason = ReasonOf("POST");
    // The alert may be lost with the connection; that something was sent is never said.
    EXPECT_TRUE(reason == kTlsFailed || reason == kNotSent) << reason;
  }
}

TEST_F(H2TransportTest, TellsOfAServerThatRefusesAll) {
  Begin(AnswerOk);
  server_->Refuse(100);
  EXPECT_EQ(ReasonOf("POST"), kNotSent);
  EXPECT_EQ(server_->refused(), 4);
  server_->Refuse(3);
  EXPECT_EQ(Ask("POST"), absl::OkStatus());
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(H2TransportTest, WaitsForAPlace) {
  HttpTestServerOptions options = ServerOptions(Protocol::kHttp2);
  options.max_streams = 2;
  absl::Mutex mutex;
  int under_way = 0;
  int most = 0;
  std::shared_ptr<ScriptedExchange> first;
  Serve(options, [&](std::shared_ptr<ScriptedExchange> exchange) {
    absl::MutexLock lock(&mutex);
    most = std::max(most, ++under_way);
    if (first == nullptr) {
      first = std::move(exchange);
      return;
    }
    --under_way;
    exchange->Reply(200, "ok");
  });
  TransportOptions client = ClientOptions(Protocol::kHttp2, server_->port());
  client.max_connections = 1;
  Connect(client);
  std::vector<RecordingHandler> handlers(20);
  std::vector<std::unique_ptr<Call>> calls;
  for (RecordingHandler& handler : handlers) {
    calls.push_back(transport_->Start(RequestOf("/"), &handler));
  }
  for (size_t i = 1; i < handlers.size(); ++i) {
    EXPECT_EQ(handlers[i].AwaitEnd(), absl::OkStatus());
  }
  {
    absl::MutexLock lock(&mutex);
    first->Reply(200, "last");
    EXPECT_LE(most, 2);
  }
  EXPECT_EQ(handlers[0].AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(server_->connections(), 1);
  EXPECT_EQ(server_->refused(), 0);
}

TEST_F(H2TransportTest, TimesOutWhileItWaitsForAPlace) {
  HttpTestServerOptions options = ServerOptions(Protocol::kHttp2);
  options.max_streams = 1;
  OneExchange one;
  Serve(options, one.script());
  TransportOptions client = ClientOptions(Protocol::kHttp2, server_->port());
  client.max_connections = 1;
  Connect(client);
  RecordingHandler endless;
  RecordingHandler late;
  auto first = transport_->Start(RequestOf("/"), &endless);
  const auto exchange = one.Await();
  HttpRequest request = RequestOf("/late");
  request.timeout = absl::Milliseconds(100);
  const auto second = transport_->Start(request, &late);
  EXPECT_EQ(status::Reason(late.AwaitEnd()), kTimedOut);
  // Who waits may cancel, too, and takes no place then.
  transport_->Start(RequestOf("/cancelled"), &late).reset();
  first.reset();
  RecordingHandler next;
  const auto third = transport_->Start(RequestOf("/next"), &next);
  const auto served = one.Await();
  EXPECT_EQ(served->request().target, "/next");
  served->Reply(200, "ok");
  EXPECT_EQ(next.AwaitEnd(), absl::OkStatus());
}

TEST_F(H2TransportTest, FindsOutThatAServerIsSilent) {
  absl::Notification woken;
  Serve(ServerOptions(Protocol::kHttp2), [&woken](std::shared_ptr<ScriptedExchange> exchange) {
    // The server's only thread, which would answer PINGs.
    if (exchange->request().target == "/silent") woken.WaitForNotification();
    exchange->Reply(200, "ok");
  });
  TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.keepalive_idle = absl::Milliseconds(100);
  options.keepalive_timeout = absl::Milliseconds(100);
  Connect(options);
  RecordingHandler handler;
  HttpRequest request = RequestOf("/silent");
  request.timeout = absl::InfiniteDuration();
  const auto call = transport_->Start(request, &handler);
  EXPECT_EQ(status::Reason(handler.AwaitEnd()), kBroken);
  woken.Notify();
  EXPECT_EQ(Ask(), absl::OkStatus());
  EXPECT_EQ(server_->connections(), 2);
}

TEST_F(H2TransportTest, KeepsAQuietConnectionWhoseServerIsThere) {
  OneExchange one;
  Serve(ServerOptions(Protocol::kHttp2), one.script());
  TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.keepalive_idle = absl::Milliseconds(20);
  options.keepalive_timeout = absl::Seconds(20);
  Connect(options);
  RecordingHandler quiet;
  const auto call = transport_->Start(RequestOf("/quiet"), &quiet);
  const auto exchange = one.Await();
  RecordingHandler late;
  HttpRequest request = RequestOf("/late");
  request.timeout = absl::Milliseconds(300);
  const auto other = transport_->Start(request, &late);
  // By then it was asked several times.
  EXPECT_EQ(status::Reason(late.AwaitEnd()), kTimedOut);
  exchange->Reply(200, "there");
  EXPECT_EQ(quiet.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(H2TransportTest, TriesTheNextAddress) {
  Serve(ServerOptions(Protocol::kHttp2), AnswerOk);
  TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  // Also ::1 where the machine knows it, where no one listens.
  options.server = absl::StrCat("https://localhost:", server_->port());
  Connect(options);
  EXPECT_EQ(Ask(), absl::OkStatus());
  options.server = "https://nowhere.invalid";
  Connect(options);
  EXPECT_EQ(ReasonOf(), kNotSent);
}

TEST_F(H2TransportTest, NeverSendsABodyTwice) {
  Begin(AnswerOk);
  EXPECT_EQ(Ask(), absl::OkStatus());
  for (const std::string method : {"GET", "POST", "PUT", "PATCH", "DELETE"}) {
    server_->DropNext();
    EXPECT_EQ(ReasonOf(method), kBroken) << method;
    EXPECT_EQ(Ask(), absl::OkStatus());
  }
}

// The kernel takes connections for it, and no one else does.
class SilentPort {
 public:
  SilentPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { ::close(fd_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

TEST_F(H2TransportTest, BoundsTheTimeOfAHandshake) {
  const SilentPort silent;
  TransportOptions options = ClientOptions(Protocol::kHttp2, silent.port());
  options.connect_timeout = absl::Milliseconds(100);
  Connect(options);
  EXPECT_EQ(ReasonOf("POST"), kNotSent);
}

}  // namespace
}  // namespace capstan::kube
