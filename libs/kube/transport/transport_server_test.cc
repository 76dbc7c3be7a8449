// What both transports do, each against the same server.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/curl_transport.h"
#include "libs/kube/transport/h2_transport.h"
#include "libs/kube/transport/testing/http_test_server.h"
#include "libs/kube/transport/testing/one_exchange.h"
#include "libs/kube/transport/testing/recording_handler.h"
#include "libs/kube/transport/testing/scripted_exchange.h"
#include "libs/kube/transport/testing/transport_fixture.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

class TransportServerTest : public TransportFixture<testing::TestWithParam<TransportMaker>> {
 protected:
  TransportServerTest() : TransportFixture(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Curl, TransportServerTest, testing::Values(&MakeCurlTransport));
INSTANTIATE_TEST_SUITE_P(H2, TransportServerTest, testing::Values(&MakeH2Transport));

TEST_P(TransportServerTest, TakesNoServerThatItCannotVerify) {
  Serve(ServerOptions(Protocol::kHttp2), AnswerOk);
  const TransportOptions good = ClientOptions(Protocol::kHttp2, server_->port());
  Connect(good);
  EXPECT_EQ(Ask(), absl::OkStatus());

  TransportOptions options = good;
  options.ca_pem = Pem(rpc::TestAuthority().root());
  Connect(options);
  EXPECT_EQ(ReasonOf(), kTlsFailed);
  options = good;
  options.ca_pem.clear();
  Connect(options);
  EXPECT_EQ(ReasonOf(), kTlsFailed);
  options = good;
  options.tls_server_name = "other.example";
  Connect(options);
  EXPECT_EQ(ReasonOf(), kTlsFailed);
  options.tls_server_name.clear();
  Connect(options);
  EXPECT_EQ(ReasonOf(), kTlsFailed);
  EXPECT_EQ(Ask().code(), absl::StatusCode::kFailedPrecondition);
  options.insecure_skip_verify = true;
  Connect(options);
  EXPECT_EQ(Ask(), absl::OkStatus());
}

TEST_P(TransportServerTest, TakesNoExpiredCertificate) {
  Serve(ServerOptions(Protocol::kHttp2, -absl::Minutes(1)), AnswerOk);
  Connect(ClientOptions(Protocol::kHttp2, server_->port()));
  EXPECT_EQ(ReasonOf(), kTlsFailed);
}

TEST_P(TransportServerTest, ShowsItsCertificate) {
  for (const bool tls12 : {false, true}) {
    HttpTestServerOptions options = ServerOptions(Protocol::kHttp2);
    options.client_ca_pem = Pem(Authority().root());
    options.tls12 = tls12;
    std::atomic<int> served = 0;
    Serve(options, [&served](std::shared_ptr<ScriptedExchange> exchange) {
      ++served;
      AnswerOk(std::move(exchange));
    });
    Connect(ClientOptions(Protocol::kHttp2, server_->port()));
    for (const Credential& bad : {Credential(), CertificateOf(rpc::TestAuthority())}) {
      credentials_.Set(bad);
      const absl::Status status = Ask("POST");
      EXPECT_FALSE(status.ok());
      // With TLS 1.3 it is a race whether we read the alert before we write into what was closed.
      if (tls12) {
        EXPECT_EQ(status::Reason(status), kTlsFailed);
      }
    }
    Credential half = CertificateOf(Authority());
    half.private_key_pem = CertificateOf(Authority()).private_key_pem;
    credentials_.Set(half);
    EXPECT_EQ(ReasonOf("POST"), kTlsFailed) << tls12;
    EXPECT_EQ(served, 0);
    credentials_.Set(CertificateOf(Authority()));
    EXPECT_EQ(Ask("POST"), absl::OkStatus()) << tls12;
    TearDown();
  }
}

TEST_P(TransportServerTest, TakesANewCertificateWithoutAFailedCall) {
  HttpTestServerOptions options = ServerOptions(Protocol::kHttp2);
  options.client_ca_pem = Pem(Authority().root());
  OneExchange watched;
  Serve(options, [&watched](std::shared_ptr<ScriptedExchange> exchange) {
    if (exchange->request().target == "/watch") {
      watched.script()(std::move(exchange));
    } else {
      exchange->Reply(200, "ok");
    }
  });
  TransportOptions client = ClientOptions(Protocol::kHttp2, server_->port());
  client.max_connections = 1;
  Connect(client);
  credentials_.Set(CertificateOf(Authority()));
  RecordingHandler watch;
  HttpRequest request = RequestOf("/watch");
  request.timeout = absl::InfiniteDuration();
  const auto call = transport_->Start(request, &watch);
  const auto exchange = watched.Await();
  EXPECT_EQ(Ask(), absl::OkStatus());
  EXPECT_EQ(server_->connections(), 1);
  credentials_.Set(CertificateOf(Authority()));
  EXPECT_EQ(Ask(), absl::OkStatus());
  EXPECT_EQ(Ask(), absl::OkStatus());
  EXPECT_EQ(server_->connections(), 2);
  exchange->Reply(200, "event");
  EXPECT_EQ(watch.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(watch.body(), "event");
}

TEST_P(TransportServerTest, TellsTheSourceOfARejectedToken) {
  absl::Mutex mutex;
  std::vector<std::string> seen;
  Begin([&](std::shared_ptr<ScriptedExchange> exchange) {
    const std::string shown(FindHeader(exchange->request().headers, "authorization").value());
    exchange->Reply(shown == "Bearer new" ? 200 : 401, "answer");
    absl::MutexLock lock(&mutex);
    seen.push_back(shown);
  });
  Credential credential;
  credential.bearer_token = "old";
  credentials_.Set(credential);
  credential.bearer_token = "new";
  credentials_.SetAfterRejection(credential);
  RecordingHandler handler;
  const auto call = transport_->Start(RequestOf("/"), &handler);
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(handler.AwaitHead().status, 401);
  EXPECT_EQ(handler.body(), "answer");
  EXPECT_EQ(credentials_.rejected(), std::vector<std::string>{"old"});
  EXPECT_EQ(Ask(), absl::OkStatus());
  EXPECT_EQ(server_->connections(), 1);
  absl::MutexLock lock(&mutex);
  EXPECT_EQ(seen, (std::vector<std::string>{"Bearer old", "Bearer new"}));
}

TEST_P(TransportServerTest, SendsNothingWithoutACredential) {
  Begin(AnswerOk);
  credentials_.Set(absl::UnavailableError("the token's file is empty"));
  const absl::Status status = Ask();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(status::Reason(status), kNoCredential);
  Credential credential;
  credential.bearer_token = "secret\r\nX-Evil: 1";
  credentials_.Set(credential);
  const absl::Status injected = Ask();
  EXPECT_EQ(status::Reason(injected), kNoCredential);
  EXPECT_FALSE(absl::StrContains(injected.message(), "secret"));
  EXPECT_EQ(server_->connections(), 0);
}

TEST_P(TransportServerTest, SaysWhoItIsAndForWhom) {
  OneExchange one;
  Serve(ServerOptions(Protocol::kHttp2), one.script());
  TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.server += "/k8s/clusters/c1/";
  options.user_agent = "executor/1";
  options.impersonation = {"jo", "17", {"a", "b"}, {{"Acme.dev/Team", {"x"}}}};
  Connect(options);
  RecordingHandler handler;
  const auto call = transport_->Start(RequestOf("/api"), &handler);
  const auto exchange = one.Await();
  const HttpRequest& request = exchange->request();
  EXPECT_EQ(request.target, "/k8s/clusters/c1/api");
  EXPECT_EQ(FindHeader(request.headers, "user-agent"), "executor/1");
  EXPECT_EQ(FindHeader(request.headers, "host"), absl::StrCat("127.0.0.1:", server_->port()));
  EXPECT_EQ(FindHeader(request.headers, "impersonate-user"), "jo");
  EXPECT_EQ(FindHeader(request.headers, "impersonate-uid"), "17");
  EXPECT_EQ(FindHeader(request.headers, "impersonate-extra-acme.dev%2fteam"), "x");
  EXPECT_EQ(std::count_if(request.headers.begin(), request.headers.end(),
                          [](const HttpHeader& h) { return h.name == "impersonate-group"; }),
            2);
  exchange->Reply(200, "");
  handler.AwaitEnd().IgnoreError();
}

TEST_P(TransportServerTest, SaysNotSentWhereNoOneListens) {
  Begin(AnswerOk);
  server_->Close();
  const absl::Status status = Ask("POST");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status::Reason(status), kNotSent);
}

TEST_P(TransportServerTest, OutlivesItsServer) {
  OneExchange one;
  for (const Protocol protocol : {Protocol::kHttp2, Protocol::kHttp1}) {
    Begin(one.script(), protocol);
    RecordingHandler begun;
    RecordingHandler waiting;
    const auto first = transport_->Start(RequestOf("/"), &begun);
    const auto exchange = one.Await();
    exchange->Head(200, {});
    exchange->Bytes("half");
    EXPECT_EQ(begun.AwaitBytes(4), "half");
    HttpRequest post = RequestOf("/");
    post.method = "POST";
    post.body = "{}";
    const auto second = transport_->Start(post, &waiting);
    one.Await();
    server_->Close();
    EXPECT_EQ(status::Reason(begun.AwaitEnd()), kBroken);
    EXPECT_EQ(status::Reason(waiting.AwaitEnd()), kBroken);
    server_->Reopen();
    RecordingHandler again;
    const auto third = transport_->Start(RequestOf("/"), &again);
    one.Await()->Reply(200, "whole");
    EXPECT_EQ(again.AwaitEnd(), absl::OkStatus());
    EXPECT_EQ(again.body(), "whole");
    TearDown();
  }
}

TEST_P(TransportServerTest, SendsAgainWhatWasRefused) {
  Begin(AnswerOk);
  // On a new connection libcurl tells a refusal from a break.
  server_->Refuse(1);
  EXPECT_EQ(Ask("POST"), absl::OkStatus());
  EXPECT_EQ(server_->refused(), 1);
  server_->Refuse(1);
  EXPECT_EQ(Ask("GET"), absl::OkStatus());
  EXPECT_EQ(server_->refused(), 2);
}

TEST_P(TransportServerTest, EndsWhatItHasWhenTheServerSaysGoAway) {
  OneExchange one;
  Begin(one.script());
  RecordingHandler handler;
  const auto call = transport_->Start(RequestOf("/"), &handler);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  exchange->Bytes("half ");
  EXPECT_EQ(handler.AwaitBytes(5), "half ");
  server_->GoAway();
  RecordingHandler next;
  HttpRequest post = RequestOf("/");
  post.method = "POST";
  const auto second = transport_->Start(post, &next);
  one.Await()->Reply(200, "next");
  EXPECT_EQ(next.AwaitEnd(), absl::OkStatus());
  exchange->Bytes("whole");
  exchange->End();
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(handler.body(), "half whole");
  EXPECT_EQ(server_->connections(), 2);
}

TEST_P(TransportServerTest, SaysThatABodyIsCutShort) {
  for (const Protocol protocol : {Protocol::kHttp2, Protocol::kHttp1}) {
    Begin(
        [](std::shared_ptr<ScriptedExchange> exchange) {
          exchange->Head(200, {{"Content-Length", "10"}});
          exchange->Bytes("half");
          exchange->End();
        },
        protocol);
    EXPECT_EQ(ReasonOf(), kBroken);
    TearDown();
  }
}

TEST_P(TransportServerTest, TellsNoInformationalHead) {
  Begin([](std::shared_ptr<ScriptedExchange> exchange) {
    exchange->Head(103, {{"X-Early", "1"}});
    exchange->Reply(200, "ok");
  });
  RecordingHandler handler;
  const auto call = transport_->Start(RequestOf("/"), &handler);
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(handler.AwaitHead().status, 200);
  EXPECT_EQ(FindHeader(handler.AwaitHead().headers, "x-early"), absl::nullopt);
}

TEST_P(TransportServerTest, SharesFewConnections) {
  constexpr size_t kCalls = 200;
  absl::Mutex mutex;
  std::vector<std::shared_ptr<ScriptedExchange>> exchanges;
  Begin([&](std::shared_ptr<ScriptedExchange> exchange) {
    absl::MutexLock lock(&mutex);
    exchanges.push_back(std::move(exchange));
    if (exchanges.size() < kCalls) return;
    for (const auto& one : exchanges) one->Reply(200, "x");
  });
  std::vector<RecordingHandler> handlers(kCalls);
  std::vector<std::unique_ptr<Call>> calls;
  for (RecordingHandler& handler : handlers) {
    calls.push_back(transport_->Start(RequestOf("/"), &handler));
  }
  for (RecordingHandler& handler : handlers) EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  EXPECT_LE(server_->connections(), TransportOptions().max_connections);
}

TEST_P(TransportServerTest, BoundsCalls) {
  OneExchange one;
  Serve(ServerOptions(Protocol::kHttp2), one.script());
  TransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.max_calls = 1;
  Connect(options);
  RecordingHandler first;
  const auto call = transport_->Start(RequestOf("/"), &first);
  EXPECT_EQ(ReasonOf(), kNotSent);
  one.Await()->Reply(200, "x");
  EXPECT_EQ(first.AwaitEnd(), absl::OkStatus());
}

TEST_P(TransportServerTest, TellsTheServerOfACancelledCallBesideASilentOne) {
  OneExchange one;
  Begin(one.script());
  RecordingHandler silent;
  RecordingHandler loud;
  const auto first = transport_->Start(RequestOf("/silent"), &silent);
  const auto quiet = one.Await();
  auto second = transport_->Start(RequestOf("/loud"), &loud);
  const auto exchange = one.Await();
  exchange->Head(200, {});
  exchange->Bytes("event");
  EXPECT_EQ(loud.AwaitBytes(5), "event");
  second.reset();
  // libcurl says so when it next has something to read, and what comes before the call is gone is
  // not it.
  bool gone = false;
  for (int i = 0; i < 200 && !gone; ++i) {
    exchange->Bytes("event");
    gone = exchange->AwaitGone(absl::Milliseconds(100));
  }
  EXPECT_TRUE(gone);
  quiet->Reply(200, "still there");
  EXPECT_EQ(silent.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(server_->connections(), 1);
}

TEST_P(TransportServerTest, ChecksItsOptions) {
  const TransportOptions good = ClientOptions(Protocol::kHttp2, 1);
  EXPECT_TRUE(make_(good, nullptr, &clock_).ok());
  std::vector<TransportOptions> bad(6, good);
  bad[0].server = "http://127.0.0.1:1";
  bad[1].server = "https://user:word@host";
  bad[2].tls_server_name = "a b";
  bad[3].user_agent = "a\nb";
  bad[4].proxy = "file:///etc/passwd";
  bad[5].impersonation.groups = {"nobody's"};
  for (const TransportOptions& options : bad) {
    EXPECT_EQ(make_(options, nullptr, &clock_).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace capstan::kube
