#ifndef CAPSTAN_LIBS_JOSE_KEY_SET_H_
#define CAPSTAN_LIBS_JOSE_KEY_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

struct _cjose_jwk_int;

namespace capstan::jose {

// Public keys by their ids, with which the signatures of others' tokens are checked (RFC 7517 §5).
// Immutable; thread-safe.
class KeySet {
 public:
  static constexpr size_t kMaxKeys = 64;
  // Of a set's text, and of a token.
  static constexpr size_t kMaxSetBytes = 256 * 1024;
  static constexpr size_t kMaxTokenBytes = 16 * 1024;

  // INVALID_ARGUMENT unless `json` is a set with at most kMaxKeys keys. Keys that are not for ES256
  // or RS256, or have no `alg` or `kid` of 1 to 128 bytes, are left out: a key is used by the
  // algorithm that it names, whatever a token says.
  static absl::StatusOr<KeySet> Parse(absl::string_view json);

  // The payload of a compact JWS, once its signature has been checked by the key that it names.
  // UNAUTHENTICATED, reason UNKNOWN_KEY if no key has that name, else INVALID_TOKEN: three parts of
  // canonical base64url; a header with exactly one of each of `alg`, `kid` and perhaps `typ` (JWT
  // or JOSE), and nothing else, so no key or address of one that the sender chose, and no `crit`.
  absl::StatusOr<std::string> Verify(absl::string_view token) const;

  size_t size() const { return keys_.size(); }

 private:
  struct Key {
    std::string algorithm;
    std::shared_ptr<_cjose_jwk_int> jwk;
  };
  std::map<std::string, Key> keys_;
};

// The text of a set of public keys as SigningKey::public_jwk gives them, each with `use`.
std::string MakeKeySet(const std::vector<std::string>& public_jwks, absl::string_view use);
// The same as a SPIFFE bundle's: with `spiffe_sequence` and `spiffe_refresh_hint` (whole seconds).
std::string MakeSpiffeKeySet(const std::vector<std::string>& public_jwks, absl::string_view use,
                             int64_t sequence, absl::Duration refresh_hint);

}  // namespace capstan::jose

#endif  // CAPSTAN_LIBS_JOSE_KEY_SET_H_
