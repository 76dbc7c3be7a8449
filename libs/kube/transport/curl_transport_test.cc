#include "libs/kube/transport/curl_transport.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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
    transport_ =
        MakeCurlTransport(ClientOptions(kProtocol, server_->port()), nullptr, &clock_).value();
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

}  // namespace
}  // namespace capstan::kube
