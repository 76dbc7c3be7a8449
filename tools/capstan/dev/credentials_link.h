#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_CREDENTIALS_LINK_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_CREDENTIALS_LINK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::dev {

// One message from credentials to its supervisor; see services/credentials/README.md.
struct CredentialsMessage {
  enum class Kind { kReady, kToken, kError };
  Kind kind = Kind::kReady;
  // kReady.
  std::string trust_domain;
  // kToken, kError: which identity.
  std::string path;
  // kToken: the secret; kError: a sentence.
  std::string text;
};

// INVALID_ARGUMENT if it is none.
absl::StatusOr<CredentialsMessage> ParseCredentialsMessage(absl::string_view packet);

// The supervisor's end of the socket pair with one start of credentials.
class CredentialsLink {
 public:
  // Makes the pair; `*child_end` is for the child.
  static absl::StatusOr<CredentialsLink> Create(UniqueFd* child_end);

  // To poll for reading.
  int fd() const { return fd_.get(); }

  // Asks for a join token for an identity, `/svc/scheduler`.
  absl::Status AskForToken(absl::string_view path);
  // The next message, absent if none is there. UNAVAILABLE once the other end is closed.
  absl::StatusOr<absl::optional<CredentialsMessage>> TryRead();

 private:
  explicit CredentialsLink(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_CREDENTIALS_LINK_H_
