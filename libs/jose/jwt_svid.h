#ifndef CAPSTAN_LIBS_JOSE_JWT_SVID_H_
#define CAPSTAN_LIBS_JOSE_JWT_SVID_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/jose/key_set.h"

namespace capstan::jose {

// What is said by a token; made and read as the payload of a JWT-SVID (SPIFFE JWT-SVID 1.0 §3).
struct Claims {
  // `iss`; empty for none.
  std::string issuer;
  // `sub`: a SPIFFE id.
  std::string subject;
  // `aud`: at least one.
  std::vector<std::string> audiences;
  // `exp` and `iat`, in whole seconds.
  absl::Time expires;
  absl::Time issued_at = absl::InfinitePast();
  // `jti`; empty for none.
  std::string id;
};

// One more member of the payload, below `capstan`: what Capstan says about the subject.
struct Attribute {
  std::string name;
  std::string value;
};

// The payload's text; `aud` is always an array, `nbf` is `iat`.
std::string EncodeClaims(const Claims& claims, const std::vector<Attribute>& attributes);

// A token that was found to be valid.
struct JwtSvid {
  Claims claims;
  // The payload as it stands in the token: a JSON object.
  std::string payload;
};

// How far the issuer's clock may be ahead of or behind ours.
inline constexpr absl::Duration kLeeway = absl::Seconds(30);

// Checks the token of anyone against the keys of `trust_domain`: signature, `sub` of the trust
// domain, `aud` with `audience` in it, `exp` there and not passed, `nbf` and `iat` (if there) not
// to come. UNAUTHENTICATED with reason INVALID_TOKEN, UNKNOWN_KEY, TOKEN_EXPIRED or WRONG_AUDIENCE;
// the messages hold nothing of the token.
absl::StatusOr<JwtSvid> ValidateJwtSvid(absl::string_view token, const KeySet& keys,
                                        absl::string_view trust_domain, absl::string_view audience,
                                        absl::Time now);

}  // namespace capstan::jose

#endif  // CAPSTAN_LIBS_JOSE_JWT_SVID_H_
