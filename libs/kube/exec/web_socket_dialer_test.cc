// Who is asked, what it is shown and whom it is trusted by.
#include "libs/kube/exec/web_socket_dialer.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/exec/testing/dialer_fixture.h"
#include "libs/kube/exec/testing/recording_web_socket.h"
#include "libs/kube/exec/testing/web_socket_test_server.h"
#include "libs/kube/exec/web_socket.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/testing/tunnel_proxy.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

using absl::StatusCode;

constexpr char kGone[] = R"({"kind":"Status","apiVersion":"v1","status":"Failure",
    "message":"pods \"web\" not found","reason":"NotFound","details":{"name":"web"},"code":404})";

TEST_F(WebSocketDialerTest, ShowsWhoAsksAndCarriesBothWays) {
  std::string seen;
  Serve([&](ServedWebSocket* served) {
    seen = absl::StrCat(served->target(), "|", served->Header("Authorization"), "|",
                        served->Header("Impersonate-User"), "|", served->Header("User-Agent"), "|",
                        served->Header("Sec-WebSocket-Protocol"));
    served->Accept("v4.channel.k8s.io");
    const auto message = served->Receive();
    served->Send(absl::StrCat("got ", message.value_or("none")));
    served->Close(1000, "");
  });
  Credential credential;
  credential.bearer_token = "secret";
  credentials_.Set(credential);
  options_.server.server += "/prefix";
  options_.server.impersonation.user = "ann";
  options_.server.user_agent = "test";
  RecordingWebSocket handler;
  WebSocketRequest request;
  request.target = "/exec?command=a%20b";
  request.subprotocols = {"v5.channel.k8s.io", "v4.channel.k8s.io"};
  const auto socket = Dial(&handler, request);
  EXPECT_EQ(handler.AwaitOpen(), "v4.channel.k8s.io");
  socket->Send("hello");
  EXPECT_EQ(handler.AwaitMessages(1), std::vector<std::string>{"got hello"});
  EXPECT_EQ(handler.AwaitEnd().status, absl::OkStatus());
  EXPECT_EQ(seen,
            "/prefix/exec?command=a%20b|Bearer secret|ann|test|v5.channel.k8s.io, "
            "v4.channel.k8s.io");
}

TEST_F(WebSocketDialerTest, TellsWhyTheServerRefuses) {
  std::atomic<int> status = 404;
  Serve([&](ServedWebSocket* served) { served->Refuse(status, status == 404 ? kGone : "{}"); });
  EXPECT_EQ(status::Reason(EndOfOne().status), kNotFound);
  status = 403;
  EXPECT_EQ(EndOfOne().status.code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(credentials_.rejected().empty());
  Credential credential;
  credential.bearer_token = "old";
  credentials_.Set(credential);
  status = 401;
  EXPECT_EQ(EndOfOne().status.code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(credentials_.rejected(), std::vector<std::string>{"old"});
  status = 200;
  EXPECT_EQ(EndOfOne().status.code(), StatusCode::kUnimplemented);
}

TEST_F(WebSocketDialerTest, ReadsLargeHeadsOfRefusals) {
  Serve([&](ServedWebSocket* served) {
    served->SendRaw(absl::StrCat("HTTP/1.1 404 Not Found\r\nX-Large: ", std::string(5000, 'x'),
                                 "\r\nContent-Type: application/json\r\nContent-Length: ",
                                 sizeof(kGone) - 1, "\r\n\r\n", kGone));
  });
  EXPECT_EQ(status::Reason(EndOfOne().status), kNotFound);
}

TEST_F(WebSocketDialerTest, TrustsOnlyTheAuthority) {
  Serve([](ServedWebSocket* served) { served->Accept(""); });
  options_.server.ca_pem = rpc::CertificatesToPem({rpc::TestAuthority().root()});
  EXPECT_EQ(status::Reason(EndOfOne().status), kTlsFailed);
}

TEST_F(WebSocketDialerTest, TrustsOnlyTheServersName) {
  Serve([](ServedWebSocket* served) { served->Accept(""); });
  // The certificate is not for 127.0.0.1, nor for another name.
  for (const char* name : {"", "other.example.org"}) {
    options_.server.tls_server_name = name;
    dialer_ = nullptr;
    EXPECT_EQ(status::Reason(EndOfOne().status), kTlsFailed) << name;
  }
  options_.server.insecure_skip_verify = true;
  dialer_ = nullptr;
  EXPECT_EQ(status::Reason(EndOfOne().status), kBroken);
}

TEST_F(WebSocketDialerTest, ShowsItsCertificate) {
  Serve(
      [](ServedWebSocket* served) {
        served->Accept("");
        served->Close(1000, "");
      },
      rpc::CertificatesToPem({Authority().root()}));
  credentials_.Set(CertificateOf(Authority()));
  EXPECT_EQ(EndOfOne().status, absl::OkStatus());
  for (const Credential& bad : {Credential(), CertificateOf(rpc::TestAuthority())}) {
    credentials_.Set(bad);
    // TLS 1.3's alert may be lost when the server hangs up while we send.
    const std::string reason = status::Reason(EndOfOne().status);
    EXPECT_TRUE(reason == kTlsFailed || reason == kBroken) << reason;
  }
  Credential half = CertificateOf(Authority());
  half.private_key_pem = CertificateOf(Authority()).private_key_pem;
  credentials_.Set(half);
  EXPECT_EQ(status::Reason(EndOfOne().status), kTlsFailed);
}

TEST_F(WebSocketDialerTest, NeedsACredentialThatCanBeSent) {
  Serve([](ServedWebSocket* served) { served->Accept(""); });
  credentials_.Set(absl::UnavailableError("no plugin"));
  EXPECT_EQ(status::Reason(EndOfOne().status), kNoCredential);
  Credential broken;
  broken.bearer_token = "two\r\nlines";
  credentials_.Set(broken);
  EXPECT_EQ(status::Reason(EndOfOne().status), kNoCredential);
}

TEST_F(WebSocketDialerTest, SaysThatNobodyListens) {
  Serve([](ServedWebSocket*) {});
  server_ = nullptr;
  EXPECT_EQ(status::Reason(EndOfOne().status), kNotSent);
}

TEST_F(WebSocketDialerTest, WaitsNoLongerThanItIsToldTo) {
  const auto gate = MakeGate();
  Serve([gate](ServedWebSocket* served) {
    if (served->target() == "/open") served->Accept("");
    gate->WaitForNotification();
  });
  WebSocketRequest request;
  request.target = "/silent";
  request.open_timeout = absl::Milliseconds(200);
  RecordingWebSocket silent;
  const auto first = Dial(&silent, request);
  EXPECT_EQ(status::Reason(silent.AwaitEnd().status), kTimedOut);
  request.target = "/open";
  request.open_timeout = absl::Seconds(30);
  request.timeout = absl::Milliseconds(200);
  RecordingWebSocket open;
  const auto second = Dial(&open, request);
  EXPECT_EQ(open.AwaitEnd().status.code(), StatusCode::kDeadlineExceeded);
  credentials_.BeSilent();
  request.open_timeout = absl::Milliseconds(200);
  RecordingWebSocket waiting;
  const auto third = Dial(&waiting, request);
  EXPECT_EQ(status::Reason(waiting.AwaitEnd().status), kTimedOut);
  credentials_.Answer();
}

TEST_F(WebSocketDialerTest, GoesThroughAProxy) {
  Serve([](ServedWebSocket* served) {
    served->Accept("");
    served->Send("hello");
    served->Close(1000, "");
  });
  TunnelProxy proxy(server_->port(), 200);
  options_.server.server = absl::StrCat("https://kubernetes.invalid:", server_->port());
  options_.server.proxy = absl::StrCat("http://ann:p%40ss@127.0.0.1:", proxy.port());
  RecordingWebSocket handler;
  auto socket = Dial(&handler);
  EXPECT_EQ(handler.AwaitMessages(1), std::vector<std::string>{"hello"});
  EXPECT_EQ(handler.AwaitEnd().status, absl::OkStatus());
  socket = nullptr;
  dialer_ = nullptr;
  const std::string head = proxy.TakeHead();
  EXPECT_TRUE(absl::StartsWith(
      head, absl::StrCat("CONNECT kubernetes.invalid:", server_->port(), " HTTP/1.1\r\n")))
      << head;
  // ann:p@ss
  EXPECT_TRUE(absl::StrContains(head, "Proxy-Authorization: Basic YW5uOnBAc3M=\r\n")) << head;
}

TEST_F(WebSocketDialerTest, SaysThatAProxyRefuses) {
  Serve([](ServedWebSocket*) {});
  TunnelProxy proxy(server_->port(), 407);
  options_.server.proxy = absl::StrCat("http://127.0.0.1:", proxy.port());
  EXPECT_EQ(status::Reason(EndOfOne().status), kNotSent);
  options_.server.no_proxy = "127.0.0.1";
  dialer_ = nullptr;
  EXPECT_EQ(status::Reason(EndOfOne().status), kBroken);
}

TEST_F(WebSocketDialerTest, SpeaksWithoutTlsOnlyIfToldTo) {
  WebSocketTestServer plain({}, [](ServedWebSocket* served) {
    served->Accept("");
    served->Send(served->Receive().value_or("none"));
    served->Close(1000, "");
  });
  options_.server.server = absl::StrCat("http://127.0.0.1:", plain.port());
  EXPECT_EQ(MakeWebSocketDialer(options_, nullptr).status().code(), StatusCode::kInvalidArgument);
  options_.server.allow_plaintext = true;
  RecordingWebSocket handler;
  const auto socket = Dial(&handler);
  (void)handler.AwaitOpen();
  socket->Send("echo");
  EXPECT_EQ(handler.AwaitMessages(1), std::vector<std::string>{"echo"});
  EXPECT_EQ(handler.AwaitEnd().status, absl::OkStatus());
}

TEST_F(WebSocketDialerTest, RefusesWrongOptionsAndRequests) {
  Serve([](ServedWebSocket*) {});
  const auto made = [](const WebSocketDialerOptions& options) {
    return MakeWebSocketDialer(options, nullptr).status().code();
  };
  WebSocketDialerOptions wrong = options_;
  wrong.server.proxy = "socks5://127.0.0.1:1080";
  EXPECT_EQ(made(wrong), StatusCode::kInvalidArgument);
  wrong = options_;
  wrong.server.user_agent = "a\r\nb";
  EXPECT_EQ(made(wrong), StatusCode::kInvalidArgument);
  wrong = options_;
  wrong.max_message_bytes = 0;
  EXPECT_EQ(made(wrong), StatusCode::kInvalidArgument);
  wrong = options_;
  wrong.server.ca_pem = "no certificate";
  EXPECT_EQ(made(wrong), StatusCode::kInvalidArgument);
  RecordingWebSocket handler;
  WebSocketRequest request;
  request.target = "/a b";
  const auto socket = Dial(&handler, request);
  EXPECT_EQ(status::Reason(handler.AwaitEnd().status), kBadRequest);
}

}  // namespace
}  // namespace capstan::kube
