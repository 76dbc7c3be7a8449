#include "libs/auth/join_token.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"

namespace capstan::auth {
namespace {

constexpr size_t kMaxToken = 4096;

absl::Status Invalid() {
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_JOIN_TOKEN",
                       "A join token has the form <id>.<secret>.<SHA-256 of the trust bundle>.");
}

bool IsTokenPart(absl::string_view text) {
  return !text.empty() && text.size() <= 128 &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isalnum(c); });
}

bool IsSha256(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

absl::StatusOr<JoinToken> ParseJoinToken(absl::string_view text) {
  text = absl::StripTrailingAsciiWhitespace(text);
  if (text.size() > kMaxToken) return Invalid();
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (parts.size() != 3 || !IsTokenPart(parts[0]) || !IsTokenPart(parts[1]) ||
      !IsSha256(parts[2])) {
    return Invalid();
  }
  return JoinToken{std::string(text), std::string(parts[2])};
}

absl::StatusOr<JoinToken> ReadJoinToken(int fd) {
  const absl::Cleanup close_fd = [fd] { close(fd); };
  std::string text;
  char buffer[512];
  while (text.size() <= kMaxToken) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "cannot read the join token");
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  return ParseJoinToken(text);
}

}  // namespace capstan::auth
