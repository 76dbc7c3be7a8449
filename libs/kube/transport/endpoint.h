// Where an API server is, and whether a proxy leads there.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_ENDPOINT_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_ENDPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::kube {

struct Endpoint {
  // https, else http.
  bool tls = true;
  // A DNS name or an address; IPv6 without brackets.
  std::string host;
  int port = 0;
  // Before every target: empty, or `/…` without a last `/`.
  std::string prefix;

  // `host:port`, with brackets for IPv6.
  std::string Authority() const;
};

// `https://host[:port][/prefix]`. INVALID_ARGUMENT if it is anything else, or has a user, a query
// or a fragment; the message does not repeat it.
absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view url);

// Whether a list like the environment's no_proxy names the endpoint: `*`, addresses, CIDR blocks,
// `example.com` (with what is below), `.example.com` or `*.example.com` (only what is below), each
// with `:port` or without, parted by commas. What is none of them names nothing.
bool BypassesProxy(absl::string_view no_proxy, const Endpoint& endpoint);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_ENDPOINT_H_
