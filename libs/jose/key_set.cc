#include "libs/jose/key_set.h"

#include <stdlib.h>

#include <utility>

#include "absl/strings/str_split.h"
#include "libs/jose/cjose_ptr.h"
#include "libs/jose/json_text.h"
#include "libs/jose/jwk_members.h"
#include "libs/jose/signing_key.h"
#include "libs/status/error.h"

namespace capstan::jose {
namespace {

constexpr size_t kMaxKeyId = 128;
constexpr size_t kMaxHeaderBytes = 1024;
// An RSA key below 2,048 bits is none (RFC 7518 §3.3); above 4,096 it only costs time.
constexpr size_t kMinRsaBits = 2048;
constexpr size_t kMaxRsaBits = 4096;

absl::Status InvalidToken(absl::string_view why) {
  return status::Error(absl::StatusCode::kUnauthenticated, "INVALID_TOKEN", why);
}

// The member's text; empty if there is none, or it is no text.
std::string Text(const nlohmann::json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// The key, if it is one for its algorithm.
std::shared_ptr<cjose_jwk_t> ImportKey(const nlohmann::json& jwk, const std::string& algorithm) {
  const bool ec = algorithm == kEs256;
  if (Text(jwk, "kty") != (ec ? "EC" : "RSA") || (ec && Text(jwk, "crv") != "P-256")) {
    return nullptr;
  }
  // Its public members alone: whatever else is there is not looked at.
  const std::vector<const char*> names =
      ec ? std::vector<const char*>{"x", "y"} : std::vector<const char*>{"n", "e"};
  if (!HasMembers(jwk, names)) return nullptr;
  nlohmann::json members = {{"kty", jwk["kty"]}};
  if (ec) members["crv"] = jwk["crv"];
  for (const char* name : names) members[name] = jwk[name];
  const std::string text = members.dump();
  cjose_err error = {};
  std::shared_ptr<cjose_jwk_t> key(cjose_jwk_import(text.data(), text.size(), &error),
                                   [](cjose_jwk_t* owned) { cjose_jwk_release(owned); });
  if (key == nullptr) return nullptr;
  const size_t bits = cjose_jwk_get_keysize(key.get(), &error);
  if (!ec && (bits < kMinRsaBits || bits > kMaxRsaBits)) return nullptr;
  return key;
}

nlohmann::json KeysOf(const std::vector<std::string>& public_jwks, absl::string_view use) {
  nlohmann::json keys = nlohmann::json::array();
  for (const std::string& jwk : public_jwks) {
    absl::optional<nlohmann::json> key = ParseObject(jwk);
    if (!key.has_value()) continue;
    (*key)["use"] = std::string(use);
    keys.push_back(*std::move(key));
  }
  return {{"keys", std::move(keys)}};
}

}  // namespace

absl::StatusOr<KeySet> KeySet::Parse(absl::string_view json) {
  const auto refused = [] {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_KEY_SET",
                         "expected a JSON Web Key Set of at most 64 keys");
  };
  if (json.size() > kMaxSetBytes) return refused();
  const absl::optional<nlohmann::json> parsed = ParseObject(json);
  if (!parsed.has_value() || !parsed->contains("keys")) return refused();
  const nlohmann::json& keys = (*parsed)["keys"];
  if (!keys.is_array() || keys.size() > kMaxKeys) return refused();
  KeySet set;
  for (const nlohmann::json& jwk : keys) {
    if (!jwk.is_object()) return refused();
    const std::string algorithm = Text(jwk, "alg");
    const std::string id = Text(jwk, "kid");
    if (!IsAlgorithm(algorithm) || id.empty() || id.size() > kMaxKeyId) continue;
    std::shared_ptr<cjose_jwk_t> key = ImportKey(jwk, algorithm);
    if (key != nullptr) set.keys_.try_emplace(id, Key{algorithm, std::move(key)});
  }
  return set;
}

absl::StatusOr<std::string> KeySet::Verify(absl::string_view token) const {
  if (token.size() > kMaxTokenBytes) return InvalidToken("a token has at most 16 KiB");
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3 || parts[0].size() > kMaxHeaderBytes) {
    return InvalidToken("a token is header, payload and signature");
  }
  const absl::optional<std::string> header_text = DecodeBase64Url(parts[0]);
  const absl::optional<std::string> payload = DecodeBase64Url(parts[1]);
  if (!header_text.has_value() || !payload.has_value() || !DecodeBase64Url(parts[2]).has_value()) {
    return InvalidToken("a token's parts are base64url without padding");
  }
  const absl::optional<nlohmann::json> header = ParseObject(*header_text);
  if (!header.has_value()) return InvalidToken("a token's header is a JSON object");
  for (const auto& [name, value] : header->items()) {
    if ((name != "alg" && name != "kid" && name != "typ") || !value.is_string()) {
      return InvalidToken("a token's header has alg, kid and typ, and nothing else");
    }
  }
  const std::string type = Text(*header, "typ");
  if (header->contains("typ") && type != "JWT" && type != "JOSE") {
    return InvalidToken("a token's typ is JWT or JOSE");
  }
  const auto key = keys_.find(Text(*header, "kid"));
  if (key == keys_.end()) {
    return status::Error(absl::StatusCode::kUnauthenticated, "UNKNOWN_KEY",
                         "no key of the issuer's has the token's kid");
  }
  if (Text(*header, "alg") != key->second.algorithm) {
    return InvalidToken("the token's alg is not its key's");
  }
  cjose_err error = {};
  const JwsPtr jws(cjose_jws_import(token.data(), token.size(), &error));
  if (jws == nullptr || !cjose_jws_verify(jws.get(), key->second.jwk.get(), &error)) {
    return InvalidToken("the token's signature is wrong");
  }
  return *payload;
}

std::string MakeKeySet(const std::vector<std::string>& public_jwks, absl::string_view use) {
  return KeysOf(public_jwks, use).dump();
}

std::string MakeSpiffeKeySet(const std::vector<std::string>& public_jwks, absl::string_view use,
                             int64_t sequence, absl::Duration refresh_hint) {
  nlohmann::json set = KeysOf(public_jwks, use);
  set["spiffe_sequence"] = sequence;
  set["spiffe_refresh_hint"] = absl::ToInt64Seconds(refresh_hint);
  return set.dump();
}

}  // namespace capstan::jose
