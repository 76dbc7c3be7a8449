#include "libs/kube/exec/web_socket_dialer.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/io_context.hpp"
#include "libs/kube/exec/handler_gate.h"
#include "libs/kube/exec/web_socket_connection.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/option_rules.h"
#include "libs/kube/transport/request_rules.h"
#include "libs/kube/transport/tls_context.h"
#include "libs/kube/transport/transport.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

namespace asio = boost::asio;

class BeastWebSocket final : public WebSocket {
 public:
  BeastWebSocket(std::shared_ptr<LoopGate> loop, std::weak_ptr<WebSocketConnection> connection,
                 std::shared_ptr<HandlerGate> handler)
      : loop_(std::move(loop)), connection_(std::move(connection)), handler_(std::move(handler)) {}
  ~BeastWebSocket() override {
    handler_->Cancel();
    loop_->Post([connection = connection_] {
      if (const auto self = connection.lock()) self->Leave();
    });
  }

  void Send(std::string message) override {
    loop_->Post([connection = connection_, message = std::move(message)]() mutable {
      if (const auto self = connection.lock()) self->Send(std::move(message));
    });
  }

  void Resume() override {
    if (!handler_->Resume()) return;
    loop_->Post([connection = connection_] {
      if (const auto self = connection.lock()) self->Resume();
    });
  }

 private:
  const std::shared_ptr<LoopGate> loop_;
  // Weak: it must not outlive the dialer.
  const std::weak_ptr<WebSocketConnection> connection_;
  const std::shared_ptr<HandlerGate> handler_;
};

class BeastWebSocketDialer final : public WebSocketDialer {
 public:
  explicit BeastWebSocketDialer(DialerSetup setup)
      : setup_(std::move(setup)),
        work_(context_.get_executor()),
        loop_(std::make_shared<LoopGate>(&context_)),
        thread_([this] { context_.run(); }) {}

  ~BeastWebSocketDialer() override {
    loop_->Close();
    context_.stop();
    thread_.join();
    std::map<uint64_t, std::weak_ptr<WebSocketConnection>> connections;
    {
      absl::MutexLock lock(&mutex_);
      connections.swap(connections_);
    }
    for (const auto& [number, connection] : connections) {
      if (const auto self = connection.lock()) self->Stop();
    }
  }

  std::unique_ptr<WebSocket> Dial(WebSocketRequest request, WebSocketHandler* handler) override {
    HttpRequest checked;
    checked.target = request.target;
    checked.timeout = request.timeout;
    checked.idle_timeout = request.open_timeout;
    for (const std::string& subprotocol : request.subprotocols) {
      checked.headers.push_back({"Sec-WebSocket-Protocol", subprotocol});
    }
    const absl::Status refusal = CheckRequest(checked);
    auto gate = std::make_shared<HandlerGate>(handler);
    auto connection =
        std::make_shared<WebSocketConnection>(&context_, loop_, &setup_, std::move(request), gate);
    auto socket = std::make_unique<BeastWebSocket>(loop_, connection, std::move(gate));
    {
      absl::MutexLock lock(&mutex_);
      for (auto one = connections_.begin(); one != connections_.end();) {
        one = one->second.expired() ? connections_.erase(one) : std::next(one);
      }
      connections_.emplace(next_number_++, connection);
    }
    loop_->Post([connection = std::move(connection), refusal] { connection->Begin(refusal); });
    return socket;
  }

 private:
  const DialerSetup setup_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  const std::shared_ptr<LoopGate> loop_;
  absl::Mutex mutex_;
  std::map<uint64_t, std::weak_ptr<WebSocketConnection>> connections_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

// `%40` as `@`; what is no such escape stays as it is.
std::string Unescaped(absl::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    const absl::string_view digits = text.substr(std::min(at + 1, text.size()), 2);
    const bool escape = text[at] == '%' && digits.size() == 2 &&
                        std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit);
    absl::StrAppend(&plain, escape ? absl::HexStringToBytes(digits) : std::string(1, text[at]));
    if (escape) at += 2;
  }
  return plain;
}

absl::StatusOr<HttpProxy> ParseProxy(absl::string_view url) {
  HttpProxy proxy;
  if (!absl::ConsumePrefix(&url, "http://")) {
    return absl::InvalidArgumentError(
        "WebSockets go through http:// proxies alone; name the server in no_proxy or take another "
        "proxy");
  }
  const size_t at = url.rfind('@');
  if (at != absl::string_view::npos) {
    proxy.user = Unescaped(url.substr(0, at));
    url.remove_prefix(at + 1);
  }
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(absl::StrCat("http://", url));
  if (!endpoint.ok() || !endpoint->prefix.empty()) {
    return absl::InvalidArgumentError("the proxy must be http://[user:password@]host[:port]");
  }
  proxy.host = endpoint->host;
  proxy.port = absl::StrCat(endpoint->port);
  return proxy;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WebSocketDialer>> MakeWebSocketDialer(
    WebSocketDialerOptions options, CredentialSource* credentials) {
  DialerSetup setup;
  const TransportOptions& server = options.server;
  CAPSTAN_ASSIGN_OR_RETURN(setup.endpoint, CheckOptions(server));
  if (options.max_message_bytes == 0) {
    return absl::InvalidArgumentError("the bound of a message must be above 0");
  }
  if (setup.endpoint.tls) {
    // Not HTTP/2, which has no upgrades.
    CAPSTAN_ASSIGN_OR_RETURN(
        setup.tls, TlsContext::Make(TlsSettingsOf(server, setup.endpoint, "\x08http/1.1")));
  }
  if (!options.server.proxy.empty() && !BypassesProxy(options.server.no_proxy, setup.endpoint)) {
    CAPSTAN_ASSIGN_OR_RETURN(setup.proxy, ParseProxy(options.server.proxy));
  }
  setup.headers = ImpersonationHeaders(options.server.impersonation);
  setup.headers.push_back({"User-Agent", options.server.user_agent});
  setup.credentials = credentials;
  setup.options = std::move(options);
  return std::make_unique<BeastWebSocketDialer>(std::move(setup));
}

}  // namespace capstan::kube
