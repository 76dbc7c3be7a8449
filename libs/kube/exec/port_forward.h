// Connections to ports of Pods: `kubectl port-forward`.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_PORT_FORWARD_H_
#define CAPSTAN_LIBS_KUBE_EXEC_PORT_FORWARD_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/exec/port_forward_core.h"
#include "libs/kube/exec/web_socket.h"

namespace capstan::kube {

struct PortForwardOptions {
  // Until the kubelet has accepted it, which may be before anybody took the connection in the Pod.
  absl::Duration start_timeout = absl::Seconds(30);
  // Of the whole.
  absl::Duration timeout = absl::InfiniteDuration();
  // That wait to be sent.
  size_t max_bytes = size_t{256} << 10;
};

// Called from the dialer's thread, never two methods of one handler at once; must not block. Any
// method may destroy its own ForwardedConnection, after which no other is called.
class PortForwardHandler {
 public:
  virtual ~PortForwardHandler() = default;

  // Next bytes, never none. False: no more are wanted until Resume, and none are read.
  virtual bool OnBytes(absl::string_view bytes) = 0;
  // Write has taken less than it was given, and there is room again.
  virtual void OnRoom() {}
  // All that was written is with the kernel.
  virtual void OnAllSent() {}
  // Exactly once, last. OK: who listens in the Pod has closed. UNAVAILABLE with kForwardFailed
  // (port_forward_core.h), also if nobody listens there; or as of RemoteCommandHandler::OnEnd.
  virtual void OnEnd(absl::Status end) = 0;
};

// One TCP connection in the Pod's network, or one that has ended. Thread-safe. It holds at most
// `max_bytes` and what its WebSocket does. The protocol closes both directions at once.
class ForwardedConnection {
 public:
  // Closes it; what waits to be sent is lost (OnAllSent). No method of the handler runs once it has
  // returned; it waits for one that does, unless it is that one who destroys it.
  virtual ~ForwardedConnection() = default;

  // Takes bytes from the front, as many as there is room for; if not all, OnRoom follows.
  virtual size_t Write(absl::string_view bytes) = 0;
  // As RemoteCommand::Resume.
  virtual void Resume() = 0;
};

// Connects to `port` of 127.0.0.1 as the Pod has it. Never blocks, and calls no method of the
// handler inline. A WebSocket each: with several ports on one, who reads slowly would hold up the
// others.
[[nodiscard]] std::unique_ptr<ForwardedConnection> ForwardPort(WebSocketDialer* dialer,
                                                               absl::string_view ns,
                                                               absl::string_view pod, uint16_t port,
                                                               const PortForwardOptions& options,
                                                               PortForwardHandler* handler);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_PORT_FORWARD_H_
