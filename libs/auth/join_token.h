#ifndef CAPSTAN_LIBS_AUTH_JOIN_TOKEN_H_
#define CAPSTAN_LIBS_AUTH_JOIN_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::auth {

// A join token, `<id>.<secret>.<SHA-256 of the trust bundle>`.
struct JoinToken {
  // The whole text; a secret.
  std::string text;
  // 64 lower-case hex digits.
  std::string bundle_sha256;
};

// INVALID_ARGUMENT with reason INVALID_JOIN_TOKEN, without a word of the text, unless it has that
// form. White space at the end is ignored.
absl::StatusOr<JoinToken> ParseJoinToken(absl::string_view text);

// Reads a token up to the end of an inherited descriptor (a pipe), at most 4 KiB, and closes it.
absl::StatusOr<JoinToken> ReadJoinToken(int fd);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_JOIN_TOKEN_H_
