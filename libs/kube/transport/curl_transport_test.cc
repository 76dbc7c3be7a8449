#include "libs/kube/transport/curl_transport.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/testing/http_test_server.h"
#include "libs/kube/transport/testing/one_exchange.h"
#include "libs/kube/transport/testing/recording_handler.h"
#include "libs/kube/transport/testing/scripted_exchange.h"
#include "libs/kube/transport/testing/transport_fixture.h"
#include "libs/kube/transport/testing/tunnel_proxy.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_conformance.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using Harnesses = testing::Types<ServerHarness<&MakeCurlTransport, Protocol::kHttp2>,
                                 ServerHarness<&MakeCurlTransport, Protocol::kHttp1>,
                                 ServerHarness<&MakeCurlTransport, Protocol::kPlain>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Curl, TransportConformance, Harnesses);

class CurlTransportTest : public TransportFixture<testing::Test> {
 protected:
  CurlTransportTest() : TransportFixture(&MakeCurlTransport) {}
};

TEST_F(CurlTransportTest, SendsTwiceOnlyWhatReads) {
  for (const Protocol protocol : {Protocol::kHttp2, Protocol::kHttp1}) {
    Begin(AnswerOk, protocol);
    EXPECT_EQ(Ask(), absl::OkStatus());
    for (const std::string method : {"POST", "PUT", "PATCH", "DELETE"}) {
      server_->DropNext();
      EXPECT_EQ(ReasonOf(method), kBroken) << method;
      EXPECT_EQ(Ask(), absl::OkStatus());
    }
    // With HTTP/2 libcurl leaves it to us to ask again, and we to the caller.
    server_->DropNext();
    EXPECT_EQ(ReasonOf(), protocol == Protocol::kHttp2 ? kBroken : "");
    TearDown();
  }
}

TEST_F(CurlTransportTest, BoundsTheHead) {
  // By nghttp2 the server cannot send as much.
  Begin(
      [](std::shared_ptr<ScriptedExchange> exchange) {
        std::vector<HttpHeader> headers;
        for (int i = 0; i < 80; ++i) {
          headers.push_back({absl::StrCat("x-", i), std::string(4000, 'a')});
        }
        exchange->Head(200, headers);
        exchange->End();
      },
      Protocol::kHttp1);
  EXPECT_EQ(ReasonOf(), kBroken);
}

TEST_F(CurlTransportTest, UnpacksGzip) {
  // `printf hello | gzip -n`.
  constexpr unsigned char kHello[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                      0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x86,
                                      0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00};
  Serve(ServerOptions(Protocol::kHttp2), [&](std::shared_ptr<ScriptedExchange> exchange) {
    EXPECT_EQ(FindHeader(exchange->request().headers, "accept-encoding"), "gzip");
    exchange->Head(200, {{"Content-Encoding", "gzip"}, {"Content-Length", "25"}});
    exchange->Bytes(std::string(reinterpret_cast<const char*>(kHello), sizeof(kHello)));
    exchange->End();
  });
  TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.gzip = true;
  Connect(options);
  RecordingHandler handler;
  const auto call = transport_->Start(RequestOf("/"), &handler);
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(handler.body(), "hello");
  EXPECT_EQ(FindHeader(handler.AwaitHead().headers, "content-encoding"), absl::nullopt);
}

TEST_F(CurlTransportTest, LetsNoStuckHandlerKeepUpOthersForLong) {
  const std::string big = NumberedBytes(size_t{4} << 20);
  Serve(ServerOptions(Protocol::kHttp2), [&big](std::shared_ptr<ScriptedExchange> exchange) {
    const std::string target = exchange->request().target;
    if (target != "/endless") exchange->Reply(200, target == "/big" ? big : "ok");
  });
  TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.max_held_bytes = size_t{1} << 20;
  options.longest_stall = absl::Milliseconds(200);
  Connect(options);
  // The connection is in use when the stuck call is taken from it.
  RecordingHandler endless;
  const auto other = transport_->Start(RequestOf("/endless"), &endless);
  RecordingHandler stuck;
  stuck.bytes_hook = [](absl::string_view) { return false; };
  const auto call = transport_->Start(RequestOf("/big"), &stuck);
  stuck.AwaitBytes(1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask(), absl::OkStatus());
  stuck.bytes_hook = nullptr;
  stuck.WillResume();
  call->Resume();
  EXPECT_EQ(status::Reason(stuck.AwaitEnd()), kBroken);
}

TEST_F(CurlTransportTest, GoesThroughAProxyUnlessItIsToldNotTo) {
  OneExchange one;
  Serve(ServerOptions(Protocol::kPlain), one.script());
  TransportOptions options = ClientOptions(Protocol::kPlain, server_->port());
  options.proxy = absl::StrCat("http://127.0.0.1:", server_->port());
  options.server = "http://api.invalid";
  Connect(options);
  RecordingHandler handler;
  const auto call = transport_->Start(RequestOf("/api"), &handler);
  const auto exchange = one.Await();
  EXPECT_EQ(exchange->request().target, "http://api.invalid/api");
  exchange->Reply(200, "");
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  options.no_proxy = ".invalid";
  Connect(options);
  EXPECT_EQ(ReasonOf(), kNotSent);
}

// The server is verified, and spoken to by HTTP/2, through the tunnel.
TEST_F(CurlTransportTest, GoesThroughTunnels) {
  Serve(ServerOptions(Protocol::kHttp2), AnswerOk);
  struct Case {
    TunnelProtocol protocol;
    std::string proxy;
    std::string asked_for;
  };
  const std::string port = absl::StrCat(server_->port());
  for (const Case& one : std::vector<Case>{
           {TunnelProtocol::kHttp, "http://", "CONNECT 127.0.0.1:" + port + " "},
           {TunnelProtocol::kHttp, "http://u:p@", "Proxy-Authorization: Basic dTpw\r\n"},
           {TunnelProtocol::kSocks5, "socks5://", "127.0.0.1:" + port},
           {TunnelProtocol::kSocks5, "socks5h://u:p@", "u:p@127.0.0.1:" + port}}) {
    TunnelProxy proxy(one.protocol, server_->port());
    TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
    options.proxy = absl::StrCat(one.proxy, "127.0.0.1:", proxy.port());
    Connect(options);
    EXPECT_EQ(Ask(), absl::OkStatus()) << one.proxy;
    EXPECT_EQ(Ask(), absl::OkStatus()) << one.proxy;
    options.ca_pem = Pem(rpc::TestAuthority().root());
    // Its connection ends first, or the proxy would have no one else in.
    transport_.reset();
    Connect(options);
    EXPECT_EQ(ReasonOf(), kTlsFailed) << one.proxy;
    transport_.reset();
    const std::string head = proxy.TakeHead();
    EXPECT_TRUE(absl::StrContains(head, one.asked_for)) << head;
  }
}

}  // namespace
}  // namespace capstan::kube
