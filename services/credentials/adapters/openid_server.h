#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENID_SERVER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENID_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/rpc/identity.h"

namespace capstan::credentials {

// The keys as they are to be served.
struct OpenIdKeys {
  // JSON Web Key Set; empty while there is none.
  std::string json;
  // How long a reader may keep it.
  absl::Duration max_age;
};

// Serves over HTTPS, to anyone, what OpenID Connect Discovery 1.0 names:
//   <issuer's path>/.well-known/openid-configuration   issuer, jwks_uri, algorithms
//   <issuer's path>/keys                               JSON Web Key Set
// GET and HEAD alone, with ETag and Cache-Control; 503 while there are no keys. The server shows
// the identity's certificate, a new one from the next connection on; clients show nothing. TLS 1.2
// and 1.3.
//
// One thread. Bounded: connections (further ones are closed at once), 8 KiB of request, `timeout`
// for each handshake, request and answer, 100 requests a connection.
class OpenIdServer {
 public:
  struct Options {
    // `host:port`; port 0 takes a free one.
    std::string listen;
    // As CheckIssuer accepts it.
    std::string issuer;
    std::shared_ptr<const rpc::Identity> identity;
    // Called on the server's thread; must not block.
    std::function<OpenIdKeys()> keys;
    int max_connections = 256;
    absl::Duration timeout = absl::Seconds(10);
  };

  // UNAVAILABLE, reason CANNOT_LISTEN, if the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<OpenIdServer>> Start(Options options);
  // Closes the port and every connection.
  virtual ~OpenIdServer() = default;

  virtual int port() const = 0;
};

// OK for `https://host[:port][/path]` of at most 512 printable characters without query, fragment
// and `/` at its end; INVALID_ARGUMENT otherwise.
absl::Status CheckIssuer(absl::string_view issuer);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENID_SERVER_H_
