#include "services/node_agent/adapters/bind_port_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <fstream>

#include "libs/safe_path/safe_path.h"

namespace capstan::node_agent {

absl::StatusOr<std::vector<int32_t>> BindPortProbe::Taken(const std::vector<int32_t>& ports) {
  std::vector<int32_t> taken;
  for (const int32_t port : ports) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return ErrnoStatus(errno, "socket", "tcp");
    // As servers do: a port whose last connections linger in TIME_WAIT can be used.
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
        listen(fd.get(), 1) == 0) {
      continue;
    }
    if (errno != EADDRINUSE && errno != EACCES) return ErrnoStatus(errno, "bind", "tcp");
    taken.push_back(port);
  }
  return taken;
}

std::pair<int32_t, int32_t> LocalPortRange() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int32_t low = 0;
  int32_t high = 0;
  if (file >> low >> high && low > 0 && low <= high) return {low, high};
  return {32768, 60999};
}

}  // namespace capstan::node_agent
