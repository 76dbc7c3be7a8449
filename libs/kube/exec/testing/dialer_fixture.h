// What the tests of WebSockets begin with.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_TESTING_DIALER_FIXTURE_H_
#define CAPSTAN_LIBS_KUBE_EXEC_TESTING_DIALER_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/kube/exec/testing/recording_web_socket.h"
#include "libs/kube/exec/testing/web_socket_test_server.h"
#include "libs/kube/exec/web_socket.h"
#include "libs/kube/exec/web_socket_dialer.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"

namespace capstan::kube {

inline const rpc::TestAuthority& Authority() {
  static const auto& authority = *new rpc::TestAuthority();
  return authority;
}

inline Credential CertificateOf(const rpc::TestAuthority& authority) {
  const rpc::Svid svid = authority.Issue("/svc/executor");
  Credential credential;
  credential.certificate_chain_pem = rpc::CertificatesToPem(svid.chain);
  credential.private_key_pem = svid.key_pem;
  return credential;
}

class ScriptedCredentials final : public CredentialSource {
 public:
  void Get(Done done) override {
    absl::MutexLock lock(&mutex_);
    if (silent_) {
      held_ = std::move(done);
    } else {
      done(next_);
    }
  }
  void Rejected(const Credential& credential) override {
    absl::MutexLock lock(&mutex_);
    rejected_.push_back(credential.bearer_token);
  }
  void Set(absl::StatusOr<Credential> next) {
    absl::MutexLock lock(&mutex_);
    next_ = std::move(next);
  }
  void BeSilent() {
    absl::MutexLock lock(&mutex_);
    silent_ = true;
  }
  // Answers who was told nothing.
  void Answer() {
    absl::MutexLock lock(&mutex_);
    if (held_) held_(Credential());
    held_ = nullptr;
  }
  std::vector<std::string> rejected() {
    absl::MutexLock lock(&mutex_);
    return rejected_;
  }

 private:
  absl::Mutex mutex_;
  absl::StatusOr<Credential> next_ ABSL_GUARDED_BY(mutex_) = Credential();
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
  Done held_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> rejected_ ABSL_GUARDED_BY(mutex_);
};

// A dialer of a scripted server. What a script uses of its test lives until TearDown.
class WebSocketDialerTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const auto& gate : gates_) {
      if (!gate->HasBeenNotified()) gate->Notify();
    }
    dialer_ = nullptr;
    server_ = nullptr;
  }

  // For a script to wait for; opened at the end at the latest.
  std::shared_ptr<absl::Notification> MakeGate() {
    gates_.push_back(std::make_shared<absl::Notification>());
    return gates_.back();
  }

  // Over TLS.
  void Serve(WebSocketTestServer::Script script, std::string client_ca_pem = "") {
    const rpc::Svid svid = Authority().Issue("/svc/kube-apiserver");
    WebSocketTestServerOptions options;
    options.chain_pem = rpc::CertificatesToPem(svid.chain);
    options.key_pem = svid.key_pem;
    options.client_ca_pem = std::move(client_ca_pem);
    server_ = std::make_unique<WebSocketTestServer>(options, std::move(script));
    options_.server.server = absl::StrCat("https://127.0.0.1:", server_->port());
    options_.server.ca_pem = rpc::CertificatesToPem({Authority().root()});
    options_.server.tls_server_name = rpc::kTlsServerName;
  }

  WebSocketDialer* dialer() {
    if (dialer_ == nullptr) dialer_ = MakeWebSocketDialer(options_, &credentials_).value();
    return dialer_.get();
  }

  std::unique_ptr<WebSocket> Dial(RecordingWebSocket* handler, WebSocketRequest request = {}) {
    if (request.target.empty()) request.target = "/exec";
    return dialer()->Dial(std::move(request), handler);
  }

  WebSocketEnd EndOfOne() {
    RecordingWebSocket handler;
    const auto socket = Dial(&handler);
    return handler.AwaitEnd();
  }

  std::vector<std::shared_ptr<absl::Notification>> gates_;
  ScriptedCredentials credentials_;
  WebSocketDialerOptions options_;
  std::unique_ptr<WebSocketTestServer> server_;
  std::unique_ptr<WebSocketDialer> dialer_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_TESTING_DIALER_FIXTURE_H_
