// The transport over HTTP/2, without libcurl.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_H2_TRANSPORT_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_H2_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// nghttp2, OpenSSL and epoll on one thread. Calls share connections up to the server's and our own
// bound of streams; what is started together goes out together. TLS 1.2 or later; a server without
// HTTP/2 is found out by ALPN, after which the transport over libcurl takes all calls, for good.
// Takes no redirect, keeps no cookie. Heads of responses have at most 256 KiB.
//
// A handler that wants no more stops its own stream alone: the server may send as much as is held,
// `max_held_bytes` or 4 MiB, whichever is less, and goes on as the handler takes it. No call breaks
// for another's handler (`longest_stall` counts not).
//
// A request goes out on a connection once the server has greeted us, which it does after it has
// taken our certificate: one that it refuses ends calls with kTlsFailed, or with kNotSent if the
// alert is lost with the connection. What the server has not looked at (REFUSED_STREAM, a GOAWAY
// that does not cover it) goes out again, three times at most; nothing else does.
//
// Connections are asked for a sign of life (PING) by `keepalive_idle` and `keepalive_timeout`, and
// closed when nobody has used them for 90 s.
//
// `credentials` may be null: calls then show none. It and `clock` must outlive the transport, and
// what Get was given must be called or destroyed before `credentials` is. INVALID_ARGUMENT if an
// option is wrong, or needs libcurl: http://, a proxy, gzip.
absl::StatusOr<std::unique_ptr<Transport>> MakeH2Transport(TransportOptions options,
                                                           CredentialSource* credentials,
                                                           const Clock* clock);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_H2_TRANSPORT_H_
