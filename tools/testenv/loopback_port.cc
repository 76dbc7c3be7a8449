#include "tools/testenv/loopback_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace capstan::testenv {
namespace {

constexpr int kFirst = 12000;
constexpr int kCount = 7000;

// An abstract socket is a lock that goes with the process. -1 if another has it.
int Lock(int port) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = absl::StrCat("capstan-testenv-port-", port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) return fd;
  ::close(fd);
  return -1;
}

// Whether a server could listen there now.
bool IsFree(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool free = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return free;
}

}  // namespace

absl::StatusOr<LoopbackPort> LoopbackPort::Take() {
  // Processes begin at different places, so that they seldom meet.
  const int start = static_cast<int>(static_cast<unsigned>(::getpid()) * 31U % kCount);
  for (int i = 0; i < kCount; ++i) {
    const int port = kFirst + (start + i) % kCount;
    const int lock = Lock(port);
    if (lock < 0) continue;
    if (IsFree(port)) return LoopbackPort(port, lock);
    ::close(lock);
  }
  return absl::ResourceExhaustedError("no free port on loopback");
}

LoopbackPort::~LoopbackPort() {
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace capstan::testenv
