#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_AEAD_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_AEAD_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::credentials {

inline constexpr size_t kAeadKeySize = 32;
inline constexpr size_t kAeadNonceSize = 12;
inline constexpr size_t kAeadTagSize = 16;

// AES-256-GCM. The result is the ciphertext followed by the tag. A nonce must never be used twice
// with one key.
absl::StatusOr<std::string> AeadSeal(absl::string_view key, absl::string_view nonce,
                                     absl::string_view plaintext, absl::string_view context);
// DATA_LOSS if key, nonce, context or a single bit is not what was sealed.
absl::StatusOr<std::string> AeadOpen(absl::string_view key, absl::string_view nonce,
                                     absl::string_view sealed, absl::string_view context);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_AEAD_H_
