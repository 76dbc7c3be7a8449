#include "libs/jose/signing_key.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/jose/cjose_ptr.h"
#include "libs/jose/json_text.h"
#include "libs/jose/jwk_members.h"
#include "libs/status/error.h"

namespace capstan::jose {
namespace {

constexpr size_t kRsaBits = 2048;
// 65537.
constexpr uint8_t kRsaExponent[] = {1, 0, 1};

absl::Status KeyDamaged() {
  return status::Error(absl::StatusCode::kDataLoss, "JWT_KEY_DAMAGED",
                       "A key that signs tokens cannot be read.");
}

// The members that make the key what it is (RFC 7638 §3.2).
absl::optional<nlohmann::json> RequiredMembers(absl::string_view algorithm,
                                               const cjose_jwk_t* key) {
  cjose_err error = {};
  char* text = cjose_jwk_to_json(key, /*priv=*/false, &error);
  if (text == nullptr) return absl::nullopt;
  const absl::optional<nlohmann::json> whole = ParseObject(text);
  free(text);
  if (!whole.has_value()) return absl::nullopt;
  const bool ec = algorithm == kEs256;
  nlohmann::json members;
  for (const char* name : {"crv", "e", "kty", "n", "x", "y"}) {
    if (whole->contains(name)) members[name] = (*whole)[name];
  }
  if (members.value("kty", "") != (ec ? "EC" : "RSA")) return absl::nullopt;
  if (ec && members.value("crv", "") != "P-256") return absl::nullopt;
  return members;
}

// Whether it is the text of a key for the algorithm with all of its private members, or none.
bool IsWhole(absl::string_view algorithm, absl::string_view jwk) {
  const bool ec = algorithm == kEs256;
  const std::vector<const char*> open =
      ec ? std::vector<const char*>{"x", "y"} : std::vector<const char*>{"n", "e"};
  const std::vector<const char*> secret =
      ec ? std::vector<const char*>{"d"}
         : std::vector<const char*>{"d", "p", "q", "dp", "dq", "qi"};
  absl::optional<nlohmann::json> members = ParseObject(jwk);
  if (!members.has_value()) return false;
  const bool is_public = std::none_of(secret.begin(), secret.end(), [&members](const char* name) {
    return members->contains(name);
  });
  const bool is_whole = HasMembers(*members, open) && (is_public || HasMembers(*members, secret));
  Wipe(&*members);
  return is_whole;
}

}  // namespace

bool IsAlgorithm(absl::string_view name) { return name == kEs256 || name == kRs256; }

absl::StatusOr<SigningKey> SigningKey::Make(absl::string_view algorithm, cjose_jwk_t* key) {
  std::shared_ptr<cjose_jwk_t> owned(key, [](cjose_jwk_t* jwk) { cjose_jwk_release(jwk); });
  absl::optional<nlohmann::json> members = RequiredMembers(algorithm, key);
  if (!members.has_value()) return KeyDamaged();
  // nlohmann orders members by name and writes no spaces: the thumbprint's form.
  const std::string key_id = absl::WebSafeBase64Escape(Sha256::Of(members->dump()));
  cjose_err error = {};
  if (!cjose_jwk_set_kid(key, key_id.data(), key_id.size(), &error)) return KeyDamaged();
  (*members)["alg"] = std::string(algorithm);
  (*members)["kid"] = key_id;
  return SigningKey(std::string(algorithm), std::move(owned), key_id, members->dump());
}

absl::StatusOr<SigningKey> SigningKey::Generate(absl::string_view algorithm) {
  if (!IsAlgorithm(algorithm)) {
    return status::Error(absl::StatusCode::kInvalidArgument, "UNKNOWN_ALGORITHM",
                         "expected ES256 or RS256");
  }
  cjose_err error = {};
  cjose_jwk_t* const key =
      algorithm == kEs256
          ? cjose_jwk_create_EC_random(CJOSE_JWK_EC_P_256, &error)
          : cjose_jwk_create_RSA_random(kRsaBits, kRsaExponent, sizeof kRsaExponent, &error);
  if (key == nullptr) {
    return status::Error(absl::StatusCode::kInternal, "KEY_NOT_MADE",
                         absl::StrCat("A key for tokens could not be made: ", error.message));
  }
  return Make(algorithm, key);
}

absl::StatusOr<SigningKey> SigningKey::FromPrivateJwk(absl::string_view algorithm,
                                                      absl::string_view jwk) {
  if (!IsAlgorithm(algorithm) || !IsWhole(algorithm, jwk)) return KeyDamaged();
  cjose_err error = {};
  cjose_jwk_t* const key = cjose_jwk_import(jwk.data(), jwk.size(), &error);
  if (key == nullptr) return KeyDamaged();
  return Make(algorithm, key);
}

std::string SigningKey::PrivateJwk() const {
  cjose_err error = {};
  char* text = cjose_jwk_to_json(key_.get(), /*priv=*/true, &error);
  if (text == nullptr) return "";
  std::string jwk(text);
  explicit_bzero(text, jwk.size());
  free(text);
  return jwk;
}

absl::StatusOr<std::string> SigningKey::Sign(absl::string_view payload) const {
  cjose_err error = {};
  const HeaderPtr header(cjose_header_new(&error));
  if (header != nullptr && cjose_header_set(header.get(), "alg", algorithm_.c_str(), &error) &&
      cjose_header_set(header.get(), "kid", key_id_.c_str(), &error) &&
      cjose_header_set(header.get(), "typ", "JWT", &error)) {
    const JwsPtr jws(cjose_jws_sign(key_.get(), header.get(),
                                    reinterpret_cast<const uint8_t*>(payload.data()),
                                    payload.size(), &error));
    const char* compact = nullptr;
    if (jws != nullptr && cjose_jws_export(jws.get(), &compact, &error))
      return std::string(compact);
  }
  return status::Error(absl::StatusCode::kInternal, "TOKEN_NOT_SIGNED",
                       absl::StrCat("A token could not be signed: ", error.message));
}

}  // namespace capstan::jose
