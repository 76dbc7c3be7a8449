// What a stranger sends to a part's HTTP port: nothing brings the server down, and what it answers
// is HTTP.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/metrics/endpoint_server.h"
#include "libs/metrics/registry.h"

namespace {

using capstan::fuzzing::Require;
using capstan::metrics::EndpointServer;
using capstan::metrics::Page;

EndpointServer& Server() {
  static EndpointServer* const server = [] {
    static const auto& registry = *new capstan::metrics::Registry("fuzz");
    EndpointServer::Options options;
    options.pages["/targets"] = [](const std::string&) { return Page{200, "text/plain", "[]"}; };
    auto made = EndpointServer::Create(options, &registry);
    Require(made.ok());
    return made->release();
  }();
  return *server;
}

// libFuzzer's own timer interrupts now and then: connecting goes on then, and tells at its end how
// it went.
bool Connect(int fd, const sockaddr_in& to) {
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return true;
  if (errno != EINTR) return false;
  pollfd connected = {.fd = fd, .events = POLLOUT, .revents = 0};
  while (poll(&connected, 1, /*timeout=*/-1) < 0) {
    if (errno != EINTR) return false;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// What comes back for `request` until the server closes.
std::string Ask(absl::string_view request) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // A port that was used once is taken for a minute: from another loopback address now and then.
  static uint32_t connections = 0;
  sockaddr_in from = {};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + connections++ / 1000 % 60'000);
  Require(bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(Server().port()));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Require(Connect(fd, to));
  // The server closes without reading on when it is refused something: that is no failure here.
  (void)send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  std::string answer;
  char piece[4096];
  ssize_t got = 0;
  // As in Connect.
  while (((got = recv(fd, piece, sizeof(piece), 0)) > 0 || (got < 0 && errno == EINTR)) &&
         answer.size() < (1 << 20)) {
    if (got > 0) answer.append(piece, static_cast<size_t>(got));
  }
  close(fd);
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string answer = Ask(absl::string_view(reinterpret_cast<const char*>(data), size));
  Require(answer.empty() || absl::StartsWith(answer, "HTTP/1."));
  Require(absl::StrContains(Ask("GET /healthz HTTP/1.0\r\n\r\n"), "200 OK"));
  return 0;
}
