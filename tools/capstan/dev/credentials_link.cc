#include "tools/capstan/dev/credentials_link.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"

namespace capstan::dev {
namespace {

constexpr size_t kMaxPacket = 4096;

absl::Status Malformed() {
  // The packet may hold a secret, so it is not shown.
  return status::Error(absl::StatusCode::kInvalidArgument, "BAD_CREDENTIALS_MESSAGE",
                       "credentials sent its supervisor a message that is none");
}

}  // namespace

absl::StatusOr<CredentialsMessage> ParseCredentialsMessage(absl::string_view packet) {
  const std::vector<std::string> words = absl::StrSplit(packet, ' ');
  CredentialsMessage message;
  if (words[0] == "ready" && words.size() == 5) {
    message.kind = CredentialsMessage::Kind::kReady;
    message.trust_domain = words[1];
    return message;
  }
  if (words.size() < 3 || words[1].empty() || words[1][0] != '/') return Malformed();
  message.path = words[1];
  message.text = std::string(packet.substr(words[0].size() + words[1].size() + 2));
  if (words[0] == "token" && words.size() == 3) {
    message.kind = CredentialsMessage::Kind::kToken;
    return message;
  }
  if (words[0] == "error") {
    message.kind = CredentialsMessage::Kind::kError;
    return message;
  }
  return Malformed();
}

absl::StatusOr<CredentialsLink> CredentialsLink::Create(UniqueFd* child_end) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "making a socket pair for", "credentials");
  }
  child_end->Reset(ends[1]);
  return CredentialsLink(UniqueFd(ends[0]));
}

absl::Status CredentialsLink::AskForToken(absl::string_view path) {
  const std::string packet = absl::StrCat("token ", path);
  if (send(fd_.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return ErrnoStatus(errno, "asking credentials for a token of", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::optional<CredentialsMessage>> CredentialsLink::TryRead() {
  std::string packet(kMaxPacket, '\0');
  const ssize_t n = recv(fd_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return absl::optional<CredentialsMessage>();
  if (n <= 0) return absl::UnavailableError("credentials has closed its end");
  packet.resize(static_cast<size_t>(n));
  absl::StatusOr<CredentialsMessage> message = ParseCredentialsMessage(packet);
  if (!message.ok()) return message.status();
  return absl::optional<CredentialsMessage>(*std::move(message));
}

}  // namespace capstan::dev
