// WebSockets as the Kubernetes client needs them: one connection to the API server for each,
// binary messages, and nothing that is sent or taken faster than the other side takes or sends it.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_H_
#define CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace capstan::kube {

// RESOURCE_EXHAUSTED: the server sent a larger message than the bound.
inline constexpr char kMessageTooLarge[] = "KUBE_MESSAGE_TOO_LARGE";

struct WebSocketRequest {
  // Path and query, escaped already; begins with `/`.
  std::string target;
  // Offered in this order.
  std::vector<std::string> subprotocols;
  // From Dial to OnOpen, with the credential that is fetched.
  absl::Duration open_timeout = absl::Seconds(30);
  // From Dial to the end.
  absl::Duration timeout = absl::InfiniteDuration();
};

// How a WebSocket ended.
struct WebSocketEnd {
  // OK: the server closed it in order. Else a reason of transport_error.h, kMessageTooLarge, or,
  // where the server refused the upgrade, an error of ServerError (server_error.h).
  absl::Status status;
  // Of the server's close, RFC 6455, 7.4; 0 if it gave none.
  int code = 0;
  std::string reason;
};

// Called from a thread of the dialer's, never two methods of one handler at once; must not block.
// Any method may destroy its own WebSocket, after which no other is called.
class WebSocketHandler {
 public:
  virtual ~WebSocketHandler() = default;

  // At most once, first. One of those that were offered, or empty.
  virtual void OnOpen(absl::string_view subprotocol) = 0;
  // A whole message, which is the handler's until it returns. False: it is taken, but no more are
  // wanted until Resume, and none is read from the connection.
  virtual bool OnMessage(absl::string_view message) = 0;
  // The message that was given to Send is with the kernel; another may be sent.
  virtual void OnSent() = 0;
  // Exactly once, last. After a failed Send it comes when all that the server had sent was told.
  virtual void OnEnd(WebSocketEnd end) = 0;
};

// A connection, or one that has ended.
class WebSocket {
 public:
  // Closes it, as far as the server lets it within a second. No method of the handler runs once it
  // has returned; it waits for one that does, unless it is that one who destroys it.
  virtual ~WebSocket() = default;

  // From any thread, once open; the next one only after OnSent. Without effect after the end.
  virtual void Send(std::string message) = 0;
  // The handler, which has returned false from OnMessage, wants messages again. From any thread,
  // also from the handler; without effect if it had not. In OnMessage it cancels out with the false
  // that is then returned.
  virtual void Resume() = 0;
};

// Thread-safe. Destroying it ends what is under way: each handler's OnEnd has run (CANCELLED,
// kStopped) when the destructor returns. WebSockets may be destroyed afterwards; none may be
// dialled meanwhile. It must not be destroyed in a handler.
class WebSocketDialer {
 public:
  virtual ~WebSocketDialer() = default;

  // Never blocks, and calls no method of the handler inline. The handler must live until OnEnd has
  // returned or the WebSocket is destroyed.
  virtual std::unique_ptr<WebSocket> Dial(WebSocketRequest request, WebSocketHandler* handler) = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_H_
