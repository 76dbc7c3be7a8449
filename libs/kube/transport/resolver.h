#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_RESOLVER_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_RESOLVER_H_

#include <sys/socket.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace capstan::kube {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
};

using Resolved = std::function<void(absl::StatusOr<std::vector<SocketAddress>>)>;

// Asks for the addresses of `host`, in the order in which they are to be tried; never none. Calls
// `done` once: inline if the host is an address itself, else from a thread of its own, which may
// outlive whoever asked. UNAVAILABLE.
void Resolve(const std::string& host, int port, Resolved done);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_RESOLVER_H_
