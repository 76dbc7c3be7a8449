#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_OPTIONS_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_OPTIONS_H_

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "libs/kube/transport/impersonation.h"

namespace capstan::kube {

// Of both transports.
struct TransportOptions {
  // `https://host[:port][/prefix]`.
  std::string server;
  // `http://` is refused without it: credentials would be read by whoever listens.
  bool allow_plaintext = false;

  // The authorities that are trusted, PEM; empty: those of the system.
  std::string ca_pem;
  // The name that is asked for (SNI) and that the certificate must have, instead of the host's.
  std::string tls_server_name;
  // Takes any server for the right one.
  bool insecure_skip_verify = false;

  // `http://`, `https://` (whose certificate the system's authorities must have signed),
  // `socks5://` or `socks5h://`, with a user and password if need be; empty: none. The environment
  // counts not.
  std::string proxy;
  // See BypassesProxy (endpoint.h).
  std::string no_proxy;

  // Of requests that have no User-Agent of their own.
  std::string user_agent = "capstan";
  Impersonation impersonation;
  // Asks for bodies in gzip; handlers see them unpacked, without Content-Encoding and -Length.
  bool gzip = false;

  // To the end of the TLS handshake.
  absl::Duration connect_timeout = absl::Seconds(10);
  // After a connection was quiet for the first, its peer is asked each second; without an answer
  // for the second, it has broken.
  absl::Duration keepalive_idle = absl::Seconds(15);
  absl::Duration keepalive_timeout = absl::Seconds(15);
  // For each client certificate in use. Calls beyond wait for a place.
  int max_connections = 4;
  // Calls on one connection, if the server does not allow fewer.
  int max_streams = 100;
  // Calls that have been started and have not ended; more end with kNotSent at once.
  int max_calls = 4096;
  // Response bytes that are held for a handler that wants no more, of each call; over HTTP/2
  // without libcurl at most 4 MiB, whatever is said here.
  size_t max_held_bytes = size_t{8} << 20;
  // See MakeCurlTransport.
  absl::Duration longest_stall = absl::Seconds(5);
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_TRANSPORT_OPTIONS_H_
