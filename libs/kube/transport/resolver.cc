#include "libs/kube/transport/resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan::kube {
namespace {

absl::StatusOr<std::vector<SocketAddress>> LookUp(const std::string& host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("the API server's name cannot be resolved: ", ::gai_strerror(error)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace

void Resolve(const std::string& host, int port, Resolved done) {
  auto at_once = LookUp(host, port, AI_NUMERICHOST);
  if (at_once.ok()) {
    done(std::move(at_once));
    return;
  }
  // getaddrinfo cannot be stopped, and may take as long as all its servers together.
  std::thread thread([host, port, done = std::move(done)] {
    // Signals are for other threads.
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    done(LookUp(host, port, 0));
  });
  ::pthread_setname_np(thread.native_handle(), "kube-resolver");
  thread.detach();
}

}  // namespace capstan::kube
