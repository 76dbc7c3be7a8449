#include "libs/jose/jwt_svid.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/jose/json_text.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::jose {
namespace {

constexpr size_t kMaxAudiences = 64;
constexpr size_t kMaxSubject = 2048;
// Year 9999: later times are no times.
constexpr double kMaxSeconds = 253402300799;

absl::Status Invalid(absl::string_view reason, absl::string_view message) {
  return status::Error(absl::StatusCode::kUnauthenticated, reason, message);
}

// NumericDate (RFC 7519 §2).
absl::StatusOr<absl::Time> TimeOf(const nlohmann::json& value) {
  const double seconds = value.is_number() ? value.get<double>() : -1;
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMaxSeconds) {
    return Invalid("INVALID_TOKEN", "the token's exp, nbf and iat are seconds since 1970");
  }
  return absl::FromUnixSeconds(0) + absl::Seconds(seconds);
}

absl::StatusOr<std::vector<std::string>> AudiencesOf(const nlohmann::json& payload) {
  std::vector<std::string> audiences;
  const auto aud = payload.find("aud");
  if (aud != payload.end() && aud->is_string()) {
    audiences.push_back(aud->get<std::string>());
  } else if (aud != payload.end() && aud->is_array() && aud->size() <= kMaxAudiences) {
    for (const nlohmann::json& one : *aud) {
      if (!one.is_string()) return Invalid("INVALID_TOKEN", "the token's aud is no list of texts");
      audiences.push_back(one.get<std::string>());
    }
  }
  if (audiences.empty()) return Invalid("INVALID_TOKEN", "the token has no aud");
  return audiences;
}

}  // namespace

std::string EncodeClaims(const Claims& claims, const std::vector<Attribute>& attributes) {
  nlohmann::json payload = {{"sub", claims.subject},
                            {"aud", claims.audiences},
                            {"exp", absl::ToUnixSeconds(claims.expires)},
                            {"iat", absl::ToUnixSeconds(claims.issued_at)},
                            {"nbf", absl::ToUnixSeconds(claims.issued_at)}};
  if (!claims.issuer.empty()) payload["iss"] = claims.issuer;
  if (!claims.id.empty()) payload["jti"] = claims.id;
  for (const Attribute& attribute : attributes) {
    payload["capstan"][attribute.name] = attribute.value;
  }
  // Whatever an audience holds, the token is UTF-8.
  return payload.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<JwtSvid> ValidateJwtSvid(absl::string_view token, const KeySet& keys,
                                        absl::string_view trust_domain, absl::string_view audience,
                                        absl::Time now) {
  JwtSvid svid;
  CAPSTAN_ASSIGN_OR_RETURN(svid.payload, keys.Verify(token));
  const absl::optional<nlohmann::json> payload = ParseObject(svid.payload);
  if (!payload.has_value()) return Invalid("INVALID_TOKEN", "the token's payload is no object");
  const auto text = [&](const char* name) {
    const auto it = payload->find(name);
    return it != payload->end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  svid.claims.issuer = text("iss");
  svid.claims.id = text("jti");
  svid.claims.subject = text("sub");
  if (svid.claims.subject.size() > kMaxSubject ||
      !absl::StartsWith(svid.claims.subject, absl::StrCat("spiffe://", trust_domain, "/"))) {
    return Invalid("INVALID_TOKEN", "the token's sub is no SPIFFE id of the trust domain");
  }
  CAPSTAN_ASSIGN_OR_RETURN(svid.claims.audiences, AudiencesOf(*payload));
  if (audience.empty() || std::find(svid.claims.audiences.begin(), svid.claims.audiences.end(),
                                    audience) == svid.claims.audiences.end()) {
    return Invalid("WRONG_AUDIENCE", "the token is for another audience");
  }
  if (!payload->contains("exp")) return Invalid("INVALID_TOKEN", "the token has no exp");
  CAPSTAN_ASSIGN_OR_RETURN(svid.claims.expires, TimeOf((*payload)["exp"]));
  if (svid.claims.expires + kLeeway <= now)
    return Invalid("TOKEN_EXPIRED", "the token has expired");
  for (const char* name : {"nbf", "iat"}) {
    if (!payload->contains(name)) continue;
    CAPSTAN_ASSIGN_OR_RETURN(const absl::Time time, TimeOf((*payload)[name]));
    if (time > now + kLeeway) return Invalid("INVALID_TOKEN", "the token is not valid yet");
    if (absl::string_view(name) == "iat") svid.claims.issued_at = time;
  }
  return svid;
}

}  // namespace capstan::jose
