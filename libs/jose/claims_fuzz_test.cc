// Tokens that the issuer has signed, with any payload: only claims that hold are accepted, and a
// token that was changed is not.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/jose/jwt_svid.h"
#include "libs/jose/key_set.h"
#include "libs/jose/signing_key.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::jose::Claims;
using capstan::jose::KeySet;
using capstan::jose::SigningKey;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

const SigningKey& Key() {
  static const SigningKey* const key =
      new SigningKey(SigningKey::Generate(capstan::jose::kEs256).value());
  return *key;
}

const KeySet& Keys() {
  static const KeySet* const keys =
      new KeySet(KeySet::Parse(capstan::jose::MakeKeySet({Key().public_jwk()}, "sig")).value());
  return *keys;
}

auto Validate(absl::string_view token) {
  return capstan::jose::ValidateJwtSvid(token, Keys(), "x.local", "aws", kNow);
}

void CheckAnyPayload(absl::string_view payload) {
  const auto token = Key().Sign(payload);
  if (!token.ok()) return;
  const auto svid = Validate(*token);
  if (!svid.ok()) return;
  Require(svid->payload == payload);
  Require(absl::StartsWith(svid->claims.subject, "spiffe://x.local/"));
  const std::vector<std::string>& audiences = svid->claims.audiences;
  Require(audiences.size() <= 64 &&
          std::find(audiences.begin(), audiences.end(), "aws") != audiences.end());
  Require(svid->claims.expires > kNow - absl::Minutes(5));
  Require(svid->claims.issued_at < kNow + absl::Minutes(5));
}

void CheckOwnToken(FuzzInput* input) {
  Claims claims;
  claims.subject = absl::StrCat("spiffe://x.local/", input->Word({"svc/scheduler", "node/c/n"}));
  claims.audiences = {"aws", input->Word({"gcp", "aws", ""})};
  claims.issued_at = kNow - absl::Seconds(input->Byte());
  claims.expires = kNow + absl::Seconds(1 + input->Byte());
  claims.id = input->Word({"id", "\"", ""});
  const auto token = Key().Sign(capstan::jose::EncodeClaims(claims, {}));
  Require(token.ok());
  const auto svid = Validate(*token);
  Require(svid.ok() && svid->claims.subject == claims.subject && svid->claims.id == claims.id);
  Require(svid->claims.audiences == claims.audiences && svid->claims.expires == claims.expires);
  // Any other byte anywhere.
  std::string changed = *token;
  const size_t at = (input->Byte() * 256 + input->Byte()) % changed.size();
  changed[at] = static_cast<char>(changed[at] ^ (1 + input->Below(255)));
  Require(!Validate(changed).ok());
  changed = *token;
  changed.resize(at);
  Require(!Validate(changed).ok());
}

void CheckPrivateKey(absl::string_view jwk) {
  for (const char* algorithm : {"ES256", "RS256", "none"}) {
    const auto key = SigningKey::FromPrivateJwk(algorithm, jwk);
    if (!key.ok()) continue;
    const auto again = SigningKey::FromPrivateJwk(algorithm, key->PrivateJwk());
    Require(again.ok() && again->key_id() == key->key_id());
    Require(again->public_jwk() == key->public_jwk());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  switch (input.Below(3)) {
    case 0:
      CheckAnyPayload(input.Rest());
      break;
    case 1:
      CheckOwnToken(&input);
      break;
    default:
      CheckPrivateKey(input.Rest());
  }
  return 0;
}
