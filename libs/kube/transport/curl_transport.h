// The transport over libcurl: HTTP/2 over TLS, or HTTP/1.1 where the server has no HTTP/2.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_TRANSPORT_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/kube/transport/call_loop.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/transport.h"
#include "libs/kube/transport/transport_options.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// Takes no redirect, keeps no cookie, verifies TLS 1.2 or later. Heads of responses have at most
// 256 KiB. What libcurl would send anew, since a kept connection proved dead or a stream was
// refused, goes out again only if it reads (GET, HEAD) or nothing of it was sent; else the call
// ends with kBroken.
//
// A handler that wants no more: libcurl 7.88 cannot stop one stream of an HTTP/2 connection without
// all others. So the bytes are held, up to `max_held_bytes`, after which the connection stops; if
// that lasts for `longest_stall`, the call ends with kBroken, so that one handler cannot keep up
// others for long. On HTTP/1.1, where the connection is the call's own, it stops for as long as the
// handler likes.
//
// A server that refuses our certificate in TLS 1.3 closes when we may be sending already: the call
// then ends with kTlsFailed only if its alert is read first, else with kNotSent or kBroken.
//
// One thread of its own.
//
// `credentials` may be null: calls then show none. It and `clock` must outlive the transport, and
// what Get was given must be called or destroyed before `credentials` is. INVALID_ARGUMENT if an
// option is wrong; FAILED_PRECONDITION (LIBCURL_MISSING).
absl::StatusOr<std::unique_ptr<Transport>> MakeCurlTransport(TransportOptions options,
                                                             CredentialSource* credentials,
                                                             const Clock* clock);

// The same as a loop that runs, for a transport that hands calls over to it.
absl::StatusOr<std::shared_ptr<CallLoop>> RunCurlLoop(TransportOptions options,
                                                      CredentialSource* credentials,
                                                      const Clock* clock);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_CURL_TRANSPORT_H_
