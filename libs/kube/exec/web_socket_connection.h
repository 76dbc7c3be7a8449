// One WebSocket on the dialer's thread: found, connected, opened, and ended.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_CONNECTION_H_
#define CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_CONNECTION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/beast/core/error.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http.hpp"
#include "boost/beast/websocket.hpp"
#include "libs/kube/exec/handler_gate.h"
#include "libs/kube/exec/server_stream.h"
#include "libs/kube/exec/web_socket.h"
#include "libs/kube/exec/web_socket_dialer.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/endpoint.h"
#include "libs/kube/transport/tls_context.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

struct HttpProxy {
  std::string host;
  std::string port;
  // `user:password`, or empty; secret.
  std::string user;
};

// The way to the dialer's thread, for others and for who comes too late.
class LoopGate {
 public:
  explicit LoopGate(boost::asio::io_context* context) : context_(context) {}

  template <typename Task>
  void Post(Task task) {
    absl::MutexLock lock(&mutex_);
    if (context_ != nullptr) boost::asio::post(*context_, std::move(task));
  }
  // Nothing is posted any more once it has returned.
  void Close() {
    absl::MutexLock lock(&mutex_);
    context_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  boost::asio::io_context* context_ ABSL_GUARDED_BY(mutex_);
};

// What all connections of a dialer have in common.
struct DialerSetup {
  WebSocketDialerOptions options;
  Endpoint endpoint;
  // Null: no TLS.
  std::unique_ptr<const TlsContext> tls;
  absl::optional<HttpProxy> proxy;
  // Impersonation and the user agent.
  std::vector<HttpHeader> headers;
  CredentialSource* credentials = nullptr;
};

// All of it runs on the dialer's thread; keeps itself alive by what it has under way.
class WebSocketConnection : public std::enable_shared_from_this<WebSocketConnection> {
 public:
  // `setup` must outlive it.
  WebSocketConnection(boost::asio::io_context* context, std::shared_ptr<LoopGate> loop,
                      const DialerSetup* setup, WebSocketRequest request,
                      std::shared_ptr<HandlerGate> handler);

  void Begin(absl::Status refusal);
  void Send(std::string message);
  // The handler wants messages again.
  void Resume();
  // The WebSocket was destroyed.
  void Leave();
  // Once the thread has ended: tells the handler.
  void Stop();

 private:
  using ErrorCode = boost::beast::error_code;

  void Dial(absl::StatusOr<Credential> credential);
  void Connect(const boost::asio::ip::tcp::resolver::results_type& addresses);
  void AskProxy();
  void OnProxyAnswer(ErrorCode error);
  void ShakeHands();
  void EndOfTls(const ErrorCode& error);
  void Upgrade();
  void OnUpgraded(ErrorCode error);
  void Read();
  void OnRead(ErrorCode error);
  // The keep-alive.
  void Tick();
  void OnControl(boost::beast::websocket::frame_type frame);

  void SetSocketOptions();
  void NotSent(absl::string_view what, const ErrorCode& error);
  void End(absl::Status status);
  // The server has closed it.
  void FinishInOrder();
  void Finish(WebSocketEnd end);
  // Nothing is told any more. Leaves the server a second to close in order, if it may.
  void Linger(bool orderly);
  void Abandon();
  void Heard();

  const std::shared_ptr<LoopGate> loop_;
  const DialerSetup* const setup_;
  const WebSocketRequest request_;
  const std::shared_ptr<HandlerGate> handler_;

  boost::asio::ip::tcp::resolver resolver_;
  boost::beast::websocket::stream<ServerStream> stream_;
  // Of the whole; until it is open; of TLS's handshake, then of the keep-alive, then of the close.
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer opening_;
  boost::asio::steady_timer timer_;

  Credential credential_;
  // Until hands are shaken.
  boost::beast::http::request<boost::beast::http::empty_body> proxy_request_;
  boost::beast::http::response_parser<boost::beast::http::empty_body> proxy_answer_;
  boost::beast::websocket::response_type answer_;
  boost::beast::flat_buffer buffer_;
  std::string outgoing_;

  bool open_ = false;
  bool connected_ = false;
  // The handler has been told, or wants to hear nothing.
  bool ended_ = false;
  bool reading_ = false;
  // Since the last tick.
  bool heard_ = false;
  // Since something came.
  bool sent_ = false;
  // For an answer to a ping, and a ping is not with the kernel yet.
  bool waited_ = false;
  bool pinging_ = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_CONNECTION_H_
