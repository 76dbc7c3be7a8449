#ifndef CAPSTAN_LIBS_JOSE_SIGNING_KEY_H_
#define CAPSTAN_LIBS_JOSE_SIGNING_KEY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct _cjose_jwk_int;

namespace capstan::jose {

// Names of signature algorithms (RFC 7518 §3.1), as they stand in headers and keys.
inline constexpr char kEs256[] = "ES256";
inline constexpr char kRs256[] = "RS256";

// True for the two above: the only ones that are made or accepted here.
bool IsAlgorithm(absl::string_view name);

// A private key that signs JWTs by one algorithm. Copies share the key. Thread-safe.
class SigningKey {
 public:
  // A new key: P-256 for ES256, RSA of 2048 bits for RS256 (some hundred milliseconds).
  // INVALID_ARGUMENT for other algorithms.
  static absl::StatusOr<SigningKey> Generate(absl::string_view algorithm);
  // A key as PrivateJwk gave it. DATA_LOSS, without a word about its content, if it is none.
  static absl::StatusOr<SigningKey> FromPrivateJwk(absl::string_view algorithm,
                                                   absl::string_view jwk);

  // JSON Web Key with its private members: a secret. Clear it after use.
  std::string PrivateJwk() const;
  // JSON Web Key without them: kty and the key's members, alg and kid; members in the order of
  // their names.
  const std::string& public_jwk() const { return public_jwk_; }
  // SHA-256 thumbprint of the key (RFC 7638), base64url without padding: 43 characters.
  const std::string& key_id() const { return key_id_; }

  // The compact serialisation (RFC 7515 §3.1) of `payload`, signed. Its header has `alg`, `kid` and
  // `typ` (JWT), and nothing else.
  absl::StatusOr<std::string> Sign(absl::string_view payload) const;

 private:
  SigningKey(std::string algorithm, std::shared_ptr<_cjose_jwk_int> key, std::string key_id,
             std::string public_jwk)
      : algorithm_(std::move(algorithm)),
        key_(std::move(key)),
        key_id_(std::move(key_id)),
        public_jwk_(std::move(public_jwk)) {}
  static absl::StatusOr<SigningKey> Make(absl::string_view algorithm, _cjose_jwk_int* key);

  std::string algorithm_;
  std::shared_ptr<_cjose_jwk_int> key_;
  std::string key_id_;
  std::string public_jwk_;
};

}  // namespace capstan::jose

#endif  // CAPSTAN_LIBS_JOSE_SIGNING_KEY_H_
