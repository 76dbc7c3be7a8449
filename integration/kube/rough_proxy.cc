#include "integration/kube/rough_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "gtest/gtest.h"

namespace capstan::kube::testing {
namespace {

// How soon a thread sees that it has to end.
constexpr int kPollMilliseconds = 20;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

bool WriteAll(int to, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = ::send(to, bytes, size, MSG_NOSIGNAL);
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

RoughProxy::RoughProxy(uint16_t server_port, Roughness roughness)
    : server_port_(server_port),
      roughness_(roughness),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener_, any, size), 0);
  EXPECT_EQ(::listen(listener_, SOMAXCONN), 0);
  EXPECT_EQ(::getsockname(listener_, any, &size), 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

RoughProxy::~RoughProxy() {
  stop_ = true;
  acceptor_.join();
  ::close(listener_);
  const absl::MutexLock lock(&mutex_);
  for (std::thread& carrier : carriers_) carrier.join();
}

void RoughProxy::Accept() {
  while (!stop_) {
    pollfd wait = {listener_, POLLIN, 0};
    if (::poll(&wait, 1, kPollMilliseconds) <= 0) continue;
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const absl::MutexLock lock(&mutex_);
    carriers_.emplace_back([this, client] { Carry(client); });
  }
}

void RoughProxy::Carry(int client) {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(server_port_);
  bool open = ::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  std::array<char, 16384> bytes{};
  size_t passed = 0;
  while (open && !stop_) {
    std::array<pollfd, 2> wait = {{{client, POLLIN, 0}, {server, POLLIN, 0}}};
    if (::poll(wait.data(), wait.size(), kPollMilliseconds) <= 0) continue;
    if (wait[0].revents != 0) {
      const ssize_t got = ::recv(client, bytes.data(), bytes.size(), 0);
      open = got > 0 && WriteAll(server, bytes.data(), static_cast<size_t>(got));
    }
    if (open && wait[1].revents != 0) {
      size_t most = bytes.size();
      if (roughness_.bytes_each_millisecond > 0) {
        most = std::min(most, roughness_.bytes_each_millisecond);
      }
      if (roughness_.cut_after > 0) most = std::min(most, roughness_.cut_after - passed);
      const ssize_t got = ::recv(server, bytes.data(), most, 0);
      open = got > 0 && WriteAll(client, bytes.data(), static_cast<size_t>(got));
      if (open) passed += static_cast<size_t>(got);
      if (roughness_.cut_after > 0 && passed >= roughness_.cut_after) {
        ++cuts_;
        open = false;
      }
      if (open && roughness_.bytes_each_millisecond > 0) ::poll(nullptr, 0, 1);
    }
  }
  ::close(client);
  ::close(server);
}

}  // namespace capstan::kube::testing
