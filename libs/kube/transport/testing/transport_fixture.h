// What tests of a transport against HttpTestServer share.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_TRANSPORT_FIXTURE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_TRANSPORT_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {

enum class Protocol { kHttp2, kHttp1, kPlain };

// As of MakeCurlTransport and its like.
using TransportMaker = absl::StatusOr<std::unique_ptr<Transport>> (*)(TransportOptions options,
                                                                      CredentialSource* credentials,
                                                                      const Clock* clock);

inline const rpc::TestAuthority& Authority() {
  static const auto& authority = *new rpc::TestAuthority();
  return authority;
}

inline std::string Pem(const std::string& der) { return rpc::CertificatesToPem({der}); }

inline HttpTestServerOptions ServerOptions(Protocol protocol,
                                           absl::Duration life = absl::Hours(1)) {
  HttpTestServerOptions options;
  options.http2 = protocol == Protocol::kHttp2;
  if (protocol == Protocol::kPlain) return options;
  const rpc::Svid svid = Authority().Issue("/svc/kube-apiserver", life);
  options.chain_pem = rpc::CertificatesToPem(svid.chain);
  options.key_pem = svid.key_pem;
  return options;
}

inline TransportOptions ClientOptions(Protocol protocol, int port) {
  TransportOptions options;
  options.server =
      absl::StrCat(protocol == Protocol::kPlain ? "http" : "https", "://127.0.0.1:", port);
  options.allow_plaintext = protocol == Protocol::kPlain;
  if (protocol != Protocol::kPlain) {
    options.ca_pem = Pem(Authority().root());
    options.tls_server_name = rpc::kTlsServerName;
  }
  return options;
}

// For the suite of transport_conformance.h.
template <TransportMaker kMake, Protocol kProtocol>
class ServerHarness {
 public:
  ServerHarness()
      : server_(std::make_unique<HttpTestServer>(
            ServerOptions(kProtocol), [this](std::shared_ptr<ScriptedExchange> exchange) {
              Script script;
              {
                absl::MutexLock lock(&mutex_);
                script = script_;
              }
              script(std::move(exchange));
            })) {
    TransportOptions options = ClientOptions(kProtocol, server_->port());
    // Without HTTP/2 each of the calls at once needs a connection.
    if (kProtocol != Protocol::kHttp2) options.max_connections = 256;
    transport_ = kMake(std::move(options), nullptr, &clock_).value();
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

inline Credential CertificateOf(const rpc::TestAuthority& authority) {
  const rpc::Svid svid = authority.Issue("/svc/executor");
  Credential credential;
  credential.certificate_chain_pem = rpc::CertificatesToPem(svid.chain);
  credential.private_key_pem = svid.key_pem;
  return credential;
}

inline void AnswerOk(std::shared_ptr<ScriptedExchange> exchange) { exchange->Reply(200, "ok"); }

template <typename Base>
class TransportFixture : public Base {
 protected:
  explicit TransportFixture(TransportMaker make) : make_(make) {}

  void Serve(HttpTestServerOptions options, Script script) {
    server_ = std::make_unique<HttpTestServer>(std::move(options), std::move(script));
  }
  void Connect(TransportOptions options) {
    transport_ = make_(std::move(options), &credentials_, &clock_).value();
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

  const TransportMaker make_;
  SystemClock clock_;
  Credentials credentials_;
  std::unique_ptr<HttpTestServer> server_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TESTING_TRANSPORT_FIXTURE_H_
