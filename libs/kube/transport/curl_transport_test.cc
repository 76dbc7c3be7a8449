#include "libs/kube/transport/curl_transport.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/testing/http_test_server.h"
#include "libs/kube/transport/testing/recording_handler.h"
#include "libs/kube/transport/transport_conformance.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

enum class Protocol { kHttp2, kHttp1, kPlain };

const rpc::TestAuthority& Authority() {
  static const auto& authority = *new rpc::TestAuthority();
  return authority;
}

std::string Pem(const std::string& der) { return rpc::CertificatesToPem({der}); }

HttpTestServerOptions ServerOptions(Protocol protocol, absl::Duration life = absl::Hours(1)) {
  HttpTestServerOptions options;
  options.http2 = protocol == Protocol::kHttp2;
  if (protocol == Protocol::kPlain) return options;
  const rpc::Svid svid = Authority().Issue("/svc/kube-apiserver", life);
  options.chain_pem = rpc::CertificatesToPem(svid.chain);
  options.key_pem = svid.key_pem;
  return options;
}

CurlTransportOptions ClientOptions(Protocol protocol, int port) {
  CurlTransportOptions options;
  options.server =
      absl::StrCat(protocol == Protocol::kPlain ? "http" : "https", "://127.0.0.1:", port);
  options.allow_plaintext = protocol == Protocol::kPlain;
  if (protocol != Protocol::kPlain) {
    options.ca_pem = Pem(Authority().root());
    options.tls_server_name = rpc::kTlsServerName;
  }
  return options;
}

template <Protocol kProtocol>
class Harness {
 public:
  Harness()
      : server_(std::make_unique<HttpTestServer>(
            ServerOptions(kProtocol), [this](std::shared_ptr<ScriptedExchange> exchange) {
              Script script;
              {
                absl::MutexLock lock(&mutex_);
                script = script_;
              }
              script(std::move(exchange));
            })) {
    CurlTransportOptions options = ClientOptions(kProtocol, server_->port());
    // Without HTTP/2 each of the calls at once needs a connection.
    if (kProtocol != Protocol::kHttp2) options.max_connections = 256;
    transport_ = MakeCurlTransport(std::move(options), nullptr, &clock_).value();
  }

  Transport& transport() { return *transport_; }
  void Serve(Script script) {
    absl::MutexLock lock(&mutex_);
    script_ = std::move(script);
  }
  void Pass(absl::Duration time) { absl::Notification().WaitForNotificationWithTimeout(time); }
  void Destroy() {
    transport_.reset();
    server_.reset();
  }

 private:
  SystemClock clock_;
  absl::Mutex mutex_;
  Script script_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HttpTestServer> server_;
  std::unique_ptr<Transport> transport_;
};

using Harnesses =
    testing::Types<Harness<Protocol::kHttp2>, Harness<Protocol::kHttp1>, Harness<Protocol::kPlain>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Curl, TransportConformance, Harnesses);

class Credentials final : public CredentialSource {
 public:
  void Get(Done done) override {
    absl::MutexLock lock(&mutex_);
    done(next_);
  }
  void Rejected(const Credential& credential) override {
    absl::MutexLock lock(&mutex_);
    rejected_.push_back(credential.bearer_token);
    if (!after_rejection_.bearer_token.empty()) next_ = after_rejection_;
  }
  void Set(absl::StatusOr<Credential> next) {
    absl::MutexLock lock(&mutex_);
    next_ = std::move(next);
  }
  void SetAfterRejection(Credential credential) {
    absl::MutexLock lock(&mutex_);
    after_rejection_ = std::move(credential);
  }
  std::vector<std::string> rejected() const {
    absl::MutexLock lock(&mutex_);
    return rejected_;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::StatusOr<Credential> next_ ABSL_GUARDED_BY(mutex_) = Credential();
  Credential after_rejection_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> rejected_ ABSL_GUARDED_BY(mutex_);
};

Credential CertificateOf(const rpc::TestAuthority& authority) {
  const rpc::Svid svid = authority.Issue("/svc/executor");
  Credential credential;
  credential.certificate_chain_pem = rpc::CertificatesToPem(svid.chain);
  credential.private_key_pem = svid.key_pem;
  return credential;
}

void AnswerOk(std::shared_ptr<ScriptedExchange> exchange) { exchange->Reply(200, "ok"); }

class CurlTransportTest : public testing::Test {
 protected:
  void Serve(HttpTestServerOptions options, Script script) {
    server_ = std::make_unique<HttpTestServer>(std::move(options), std::move(script));
  }
  void Connect(CurlTransportOptions options) {
    transport_ = MakeCurlTransport(std::move(options), &credentials_, &clock_).value();
  }
  // Both with the usual options.
  void Begin(Script script, Protocol protocol = Protocol::kHttp2) {
    Serve(ServerOptions(protocol), std::move(script));
    Connect(ClientOptions(protocol, server_->port()));
  }
  void TearDown() override {
    transport_.reset();
    server_.reset();
  }
  absl::Status Ask(const std::string& method = "GET", std::string* body = nullptr) {
    RecordingHandler handler;
    HttpRequest request = RequestOf("/");
    request.method = method;
    request.timeout = absl::Seconds(15);
    const auto call = transport_->Start(request, &handler);
    absl::Status status = handler.AwaitEnd();
    if (body != nullptr) *body = handler.body();
    return status;
  }
  std::string ReasonOf(const std::string& method = "GET") { return status::Reason(Ask(method)); }

  SystemClock clock_;
  Credentials credentials_;
  std::unique_ptr<HttpTestServer> server_;
  std::unique_ptr<Transport> transport_;
};

TEST_F(CurlTransportTest, TakesNoServerThatItCannotVerify) {
  Serve(ServerOptions(Protocol::kHttp2), AnswerOk);
  const CurlTransportOptions good = ClientOptions(Protocol::kHttp2, server_->port());
  Connect(good);
  EXPECT_EQ(Ask(), absl::OkStatus());

  CurlTransportOptions options = good;
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

TEST_F(CurlTransportTest, TakesNoExpiredCertificate) {
  Serve(ServerOptions(Protocol::kHttp2, -absl::Minutes(1)), AnswerOk);
  Connect(ClientOptions(Protocol::kHttp2, server_->port()));
  EXPECT_EQ(ReasonOf(), kTlsFailed);
}

TEST_F(CurlTransportTest, ShowsItsCertificate) {
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

TEST_F(CurlTransportTest, TakesANewCertificateWithoutAFailedCall) {
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
  CurlTransportOptions client = ClientOptions(Protocol::kHttp2, server_->port());
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

TEST_F(CurlTransportTest, TellsTheSourceOfARejectedToken) {
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

TEST_F(CurlTransportTest, SendsNothingWithoutACredential) {
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

TEST_F(CurlTransportTest, SaysWhoItIsAndForWhom) {
  OneExchange one;
  Serve(ServerOptions(Protocol::kHttp2), one.script());
  CurlTransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
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

TEST_F(CurlTransportTest, SaysNotSentWhereNoOneListens) {
  Begin(AnswerOk);
  server_->Close();
  const absl::Status status = Ask("POST");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status::Reason(status), kNotSent);
}

TEST_F(CurlTransportTest, OutlivesItsServer) {
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

TEST_F(CurlTransportTest, SendsAgainWhatWasRefused) {
  Begin(AnswerOk);
  // On a new connection libcurl tells a refusal from a break.
  server_->Refuse(1);
  EXPECT_EQ(Ask("POST"), absl::OkStatus());
  EXPECT_EQ(server_->refused(), 1);
  server_->Refuse(1);
  EXPECT_EQ(Ask("GET"), absl::OkStatus());
  EXPECT_EQ(server_->refused(), 2);
}

TEST_F(CurlTransportTest, EndsWhatItHasWhenTheServerSaysGoAway) {
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

TEST_F(CurlTransportTest, SaysThatABodyIsCutShort) {
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

TEST_F(CurlTransportTest, TellsNoInformationalHead) {
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
  CurlTransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.gzip = true;
  Connect(options);
  RecordingHandler handler;
  const auto call = transport_->Start(RequestOf("/"), &handler);
  EXPECT_EQ(handler.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(handler.body(), "hello");
  EXPECT_EQ(FindHeader(handler.AwaitHead().headers, "content-encoding"), absl::nullopt);
}

TEST_F(CurlTransportTest, SharesFewConnections) {
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
  EXPECT_LE(server_->connections(), CurlTransportOptions().max_connections);
}

TEST_F(CurlTransportTest, BoundsCalls) {
  OneExchange one;
  Serve(ServerOptions(Protocol::kHttp2), one.script());
  CurlTransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.max_calls = 1;
  Connect(options);
  RecordingHandler first;
  const auto call = transport_->Start(RequestOf("/"), &first);
  EXPECT_EQ(ReasonOf(), kNotSent);
  one.Await()->Reply(200, "x");
  EXPECT_EQ(first.AwaitEnd(), absl::OkStatus());
}

TEST_F(CurlTransportTest, LetsNoStuckHandlerKeepUpOthersForLong) {
  const std::string big = NumberedBytes(size_t{4} << 20);
  Serve(ServerOptions(Protocol::kHttp2), [&big](std::shared_ptr<ScriptedExchange> exchange) {
    exchange->Reply(200, exchange->request().target == "/big" ? big : "ok");
  });
  CurlTransportOptions options = ClientOptions(Protocol::kHttp2, server_->port());
  options.max_held_bytes = size_t{1} << 20;
  options.longest_stall = absl::Milliseconds(200);
  Connect(options);
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

TEST_F(CurlTransportTest, TellsTheServerOfACancelledCallBesideASilentOne) {
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

TEST_F(CurlTransportTest, GoesThroughAProxyUnlessItIsToldNotTo) {
  OneExchange one;
  Serve(ServerOptions(Protocol::kPlain), one.script());
  CurlTransportOptions options = ClientOptions(Protocol::kPlain, server_->port());
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

TEST(CurlTransportOptionsTest, AreChecked) {
  SystemClock clock;
  const CurlTransportOptions good = ClientOptions(Protocol::kHttp2, 1);
  EXPECT_TRUE(MakeCurlTransport(good, nullptr, &clock).ok());
  std::vector<CurlTransportOptions> bad(6, good);
  bad[0].server = "http://127.0.0.1:1";
  bad[1].server = "https://user:word@host";
  bad[2].tls_server_name = "a b";
  bad[3].user_agent = "a\nb";
  bad[4].proxy = "file:///etc/passwd";
  bad[5].impersonation.groups = {"nobody's"};
  for (const CurlTransportOptions& options : bad) {
    EXPECT_EQ(MakeCurlTransport(options, nullptr, &clock).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace capstan::kube
