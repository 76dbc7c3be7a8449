#ifndef CAPSTAN_LIBS_KUBE_CONFIG_SERVER_URL_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_SERVER_URL_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::kube {

// Where an API server is. Pure: no name is looked up.
struct ServerUrl {
  bool tls = true;
  // A name, or an address; an IPv6 one is without its brackets.
  std::string host;
  int port = 443;
  // What all paths begin with, for servers behind a gateway: "" or `/a/b`, without a slash at its
  // end.
  std::string path;

  friend bool operator==(const ServerUrl&, const ServerUrl&) = default;
};

// Reads `https://host[:port][/path]` and `http://…`, 2,048 bytes at most. No user, no query, no
// fragment, no `.` or `..` in the path; anything else is nothing.
absl::optional<ServerUrl> ParseServerUrl(absl::string_view text);

// Whether it is `http`, `https` or `socks5`, a host, perhaps with a user and a password, and a
// port, and nothing else but a slash.
bool IsProxyUrl(absl::string_view text);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_SERVER_URL_H_
