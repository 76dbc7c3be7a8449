// WebSockets to an API server over Boost.Beast and OpenSSL: HTTP/1.1, TLS 1.2 or later.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_DIALER_H_
#define CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_DIALER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/kube/exec/web_socket.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/transport_options.h"

namespace capstan::kube {

struct WebSocketDialerOptions {
  // Where the server is, whom it is trusted by and what it is shown, as for the other calls. Of its
  // bounds only connect_timeout and the keep-alives count. A proxy must be `http://`.
  TransportOptions server;
  // Of the server. API servers and kubelets send 32 KiB at most.
  size_t max_message_bytes = size_t{1} << 20;
};

// One thread of its own for all its WebSockets. Each holds at most a message of the server, one
// that it sends, and what TLS and the kernel buffer.
//
// Keep-alive: a server of which nothing came for `keepalive_idle`, or up to twice that, is sent a
// ping, and if then nothing comes for `keepalive_timeout` the connection has broken (kBroken). A server that
// does not take what was sent does not answer pings either, so this only counts as long as nothing
// has been sent since something came, and while the handler wants messages; else a dead server is
// found by the kernel, some 15 minutes later, or by the request's `timeout`.
//
// `credentials` may be null: WebSockets then show none. It must outlive the dialer, and what Get
// was given must be called or destroyed before `credentials` is. INVALID_ARGUMENT if an option is
// wrong, or no authority can be read.
absl::StatusOr<std::unique_ptr<WebSocketDialer>> MakeWebSocketDialer(WebSocketDialerOptions options,
                                                                     CredentialSource* credentials);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_WEB_SOCKET_DIALER_H_
