// Reasons (status::Reason) of the errors with which a call ends. They say what may have happened at
// the server, on which it depends whether to ask again.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_ERROR_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_ERROR_H_

namespace capstan::kube {

// UNAVAILABLE. Nothing of the request has reached the server: no connection was made, or the server
// has refused the stream (REFUSED_STREAM, or a GOAWAY that does not cover it).
inline constexpr char kNotSent[] = "KUBE_NOT_SENT";
// UNAVAILABLE. The connection or the stream broke; the server may have acted.
inline constexpr char kBroken[] = "KUBE_BROKEN";
// DEADLINE_EXCEEDED. `timeout` or `idle_timeout` is over; the server may have acted.
inline constexpr char kTimedOut[] = "KUBE_TIMED_OUT";
// FAILED_PRECONDITION. The server's certificate cannot be verified, or ours cannot be used. Nothing
// was sent.
inline constexpr char kTlsFailed[] = "KUBE_TLS_FAILED";
// UNAUTHENTICATED. No credential could be had; nothing was sent.
inline constexpr char kNoCredential[] = "KUBE_NO_CREDENTIAL";
// CANCELLED. The transport is being destroyed; the server may have acted.
inline constexpr char kStopped[] = "KUBE_STOPPED";
// INVALID_ARGUMENT. The request itself is wrong, such as a line end in a header; nothing was sent.
inline constexpr char kBadRequest[] = "KUBE_BAD_REQUEST";

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_ERROR_H_
