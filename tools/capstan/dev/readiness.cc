#include "tools/capstan/dev/readiness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::dev {
namespace {

constexpr char kRequest[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
constexpr size_t kMaxAnswer = 16 << 10;

}  // namespace

ReadinessAnswer AskReadiness(const std::string& metrics_address, absl::Duration time_out) {
  int port = 0;
  const size_t colon = metrics_address.rfind(':');
  if (colon == std::string::npos || !absl::SimpleAtoi(metrics_address.substr(colon + 1), &port)) {
    return {};
  }
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval bound = absl::ToTimeval(time_out);
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      send(fd.get(), kRequest, sizeof(kRequest) - 1, MSG_NOSIGNAL) < 0) {
    return {};
  }
  std::string answer;
  char buffer[4096];
  ssize_t n = 0;
  while (answer.size() < kMaxAnswer && (n = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  if (absl::StartsWith(answer, "HTTP/1.1 200")) return {Readiness::kReady, ""};
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos) return {};
  return {Readiness::kNotReady,
          std::string(absl::StripAsciiWhitespace(absl::string_view(answer).substr(body + 4)))};
}

}  // namespace capstan::dev
