// Tokens: made, read again, and everything that must not be believed (RFC 8725).
#include "libs/jose/jwt_svid.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "libs/jose/cjose_ptr.h"
#include "libs/jose/key_set.h"
#include "libs/jose/signing_key.h"
#include "libs/status/error.h"
#include "nlohmann/json.hpp"

namespace capstan::jose {
namespace {

constexpr char kDomain[] = "x.local";
constexpr char kSubject[] = "spiffe://x.local/project/p/sa/a";

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(1'800'000'000 + seconds); }

SigningKey Key(const char* algorithm = kEs256) {
  auto key = SigningKey::Generate(algorithm);
  EXPECT_TRUE(key.ok()) << key.status();
  return *std::move(key);
}

KeySet SetOf(const std::vector<SigningKey>& keys) {
  std::vector<std::string> jwks;
  for (const SigningKey& key : keys) jwks.push_back(key.public_jwk());
  auto set = KeySet::Parse(MakeKeySet(jwks, "jwt-svid"));
  EXPECT_TRUE(set.ok()) << set.status();
  return *std::move(set);
}

Claims Good() {
  return {.issuer = "https://issuer.example",
          .subject = kSubject,
          .audiences = {"aws", "gcp"},
          .expires = At(300),
          .issued_at = At(0),
          .id = "t-1"};
}

std::string Reason(const absl::StatusOr<JwtSvid>& svid) {
  return svid.ok() ? "OK" : status::Reason(svid.status());
}

// A token with any header at all, signed by the key all the same.
std::string SignWith(const SigningKey& key, const nlohmann::json& header,
                     const std::string& payload) {
  const std::string jwk = key.PrivateJwk();
  cjose_err error = {};
  const JwkPtr owned(cjose_jwk_import(jwk.data(), jwk.size(), &error));
  const HeaderPtr made(cjose_header_new(&error));
  for (const auto& [name, value] : header.items()) {
    EXPECT_TRUE(
        value.is_string()
            ? cjose_header_set(made.get(), name.c_str(), value.get<std::string>().c_str(), &error)
            : cjose_header_set_raw(made.get(), name.c_str(), value.dump().c_str(), &error));
  }
  const JwsPtr jws(cjose_jws_sign(owned.get(), made.get(),
                                  reinterpret_cast<const uint8_t*>(payload.data()), payload.size(),
                                  &error));
  const char* compact = nullptr;
  EXPECT_TRUE(jws != nullptr && cjose_jws_export(jws.get(), &compact, &error)) << error.message;
  return compact == nullptr ? "" : compact;
}

TEST(SigningKeyTest, ThumbprintIsTheStandards) {
  // RFC 7638 §3.1.
  const auto key = SigningKey::FromPrivateJwk(
      kRs256,
      R"({"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aP)"
      R"(FFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4)"
      R"(QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08q)"
      R"(NLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzK)"
      R"(nqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"})");
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->key_id(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
}

TEST(SigningKeyTest, RefusesWhatIsNoWholeKey) {
  for (const char* algorithm : {kEs256, kRs256}) {
    const nlohmann::json whole = nlohmann::json::parse(Key(algorithm).PrivateJwk());
    for (const char* name : {"x", "y", "n", "e", "p", "q", "dp", "dq", "qi"}) {
      if (!whole.contains(name)) continue;
      nlohmann::json jwk = whole;
      jwk.erase(name);
      EXPECT_FALSE(SigningKey::FromPrivateJwk(algorithm, jwk.dump()).ok()) << name;
      jwk[name] = whole[name].get<std::string>() + "=";
      EXPECT_FALSE(SigningKey::FromPrivateJwk(algorithm, jwk.dump()).ok()) << name;
      jwk[name] = 1;
      EXPECT_FALSE(SigningKey::FromPrivateJwk(algorithm, jwk.dump()).ok()) << name;
    }
  }
}

TEST(SigningKeyTest, KeepsItsIdentityThroughItsPrivateText) {
  for (const char* algorithm : {kEs256, kRs256}) {
    const SigningKey key = Key(algorithm);
    const auto again = SigningKey::FromPrivateJwk(algorithm, key.PrivateJwk());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->key_id(), key.key_id());
    EXPECT_EQ(again->public_jwk(), key.public_jwk());
    const auto token = again->Sign(EncodeClaims(Good(), {}));
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(Reason(ValidateJwtSvid(*token, SetOf({key}), kDomain, "aws", At(1))), "OK");
    const nlohmann::json shown = nlohmann::json::parse(key.public_jwk());
    for (const char* secret : {"d", "p", "q", "dp", "dq", "qi"})
      EXPECT_FALSE(shown.contains(secret));
    EXPECT_FALSE(SigningKey::FromPrivateJwk(algorithm == std::string(kEs256) ? kRs256 : kEs256,
                                            key.PrivateJwk())
                     .ok());
  }
  EXPECT_FALSE(SigningKey::Generate("HS256").ok());
  EXPECT_FALSE(SigningKey::FromPrivateJwk(kEs256, "{}").ok());
}

TEST(JwtSvidTest, SaysWhatItWasMadeOf) {
  const SigningKey key = Key();
  const auto token = key.Sign(EncodeClaims(Good(), {{"job", "projects/p/jobs/j"}}));
  ASSERT_TRUE(token.ok()) << token.status();
  const auto svid = ValidateJwtSvid(*token, SetOf({Key(), key}), kDomain, "gcp", At(10));
  ASSERT_TRUE(svid.ok()) << svid.status();
  EXPECT_EQ(svid->claims.subject, kSubject);
  EXPECT_EQ(svid->claims.issuer, "https://issuer.example");
  EXPECT_EQ(svid->claims.audiences, (std::vector<std::string>{"aws", "gcp"}));
  EXPECT_EQ(svid->claims.expires, At(300));
  EXPECT_EQ(svid->claims.id, "t-1");
  const nlohmann::json payload = nlohmann::json::parse(svid->payload);
  EXPECT_EQ(payload["capstan"]["job"], "projects/p/jobs/j");
  EXPECT_EQ(payload["iat"], 1'800'000'000);
  // RFC 7518 §3.4: r and s, not DER.
  std::string signature;
  const std::vector<std::string> parts = absl::StrSplit(*token, '.');
  ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[2], &signature));
  EXPECT_EQ(signature.size(), 64u);
}

TEST(JwtSvidTest, HoldsForItsTimeAndItsAudience) {
  const SigningKey key = Key();
  const KeySet keys = SetOf({key});
  const std::string token = *key.Sign(EncodeClaims(Good(), {}));
  EXPECT_EQ(Reason(ValidateJwtSvid(token, keys, kDomain, "aws", At(329))), "OK");
  EXPECT_EQ(Reason(ValidateJwtSvid(token, keys, kDomain, "aws", At(330))), "TOKEN_EXPIRED");
  EXPECT_EQ(Reason(ValidateJwtSvid(token, keys, kDomain, "aws", At(-30))), "OK");
  EXPECT_EQ(Reason(ValidateJwtSvid(token, keys, kDomain, "aws", At(-31))), "INVALID_TOKEN");
  EXPECT_EQ(Reason(ValidateJwtSvid(token, keys, kDomain, "azure", At(0))), "WRONG_AUDIENCE");
  EXPECT_EQ(Reason(ValidateJwtSvid(token, keys, kDomain, "", At(0))), "WRONG_AUDIENCE");
  EXPECT_EQ(Reason(ValidateJwtSvid(token, keys, "y.local", "aws", At(0))), "INVALID_TOKEN");
  EXPECT_EQ(Reason(ValidateJwtSvid(token, SetOf({Key()}), kDomain, "aws", At(0))), "UNKNOWN_KEY");
}

TEST(JwtSvidTest, EveryChangedByteIsFound) {
  const SigningKey key = Key();
  const KeySet keys = SetOf({key});
  const std::string token = *key.Sign(EncodeClaims(Good(), {}));
  for (size_t i = 0; i < token.size(); ++i) {
    for (const char other : {'A', 'b', '_', '.', '=', '\0'}) {
      std::string changed = token;
      if (changed[i] == other) continue;
      changed[i] = other;
      EXPECT_NE(Reason(ValidateJwtSvid(changed, keys, kDomain, "aws", At(0))), "OK") << i;
    }
  }
  EXPECT_NE(Reason(ValidateJwtSvid(token + "=", keys, kDomain, "aws", At(0))), "OK");
  EXPECT_NE(Reason(ValidateJwtSvid(token + ".", keys, kDomain, "aws", At(0))), "OK");
}

TEST(JwtSvidTest, BelievesOnlyTheHeaderThatItMakes) {
  const SigningKey key = Key();
  const KeySet keys = SetOf({key});
  const std::string payload = EncodeClaims(Good(), {});
  const nlohmann::json good = {{"alg", "ES256"}, {"kid", key.key_id()}};
  const auto reason = [&](const nlohmann::json& header) {
    return Reason(ValidateJwtSvid(SignWith(key, header, payload), keys, kDomain, "aws", At(0)));
  };
  EXPECT_EQ(reason(good), "OK");
  nlohmann::json header = good;
  header["typ"] = "JOSE";
  EXPECT_EQ(reason(header), "OK");
  header["typ"] = "wit+jwt";
  EXPECT_EQ(reason(header), "INVALID_TOKEN");
  const std::vector<std::pair<std::string, nlohmann::json>> others = {
      {"jku", "https://evil.example/keys"},
      {"x5u", "https://evil.example/c.pem"},
      {"crit", nlohmann::json::array({"exp"})},
      {"cty", "JWT"},
      {"epk", nlohmann::json::object()}};
  for (const auto& [name, value] : others) {
    header = good;
    header[name] = value;
    EXPECT_EQ(reason(header), "INVALID_TOKEN") << name;
  }
  const SigningKey mine = Key();
  header = good;
  header["jwk"] = nlohmann::json::parse(mine.public_jwk());
  EXPECT_EQ(Reason(ValidateJwtSvid(SignWith(mine, header, payload), keys, kDomain, "aws", At(0))),
            "INVALID_TOKEN");
  header = good;
  header.erase("kid");
  EXPECT_EQ(reason(header), "UNKNOWN_KEY");
}

TEST(JwtSvidTest, AnAlgorithmBelongsToItsKey) {
  const SigningKey key = Key(kRs256);
  const KeySet keys = SetOf({key});
  const std::string payload = absl::WebSafeBase64Escape(EncodeClaims(Good(), {}));
  for (const char* algorithm : {"none", "None", "NONE", "HS256", "ES256", "RS512", "PS256", ""}) {
    const std::string header = absl::WebSafeBase64Escape(
        nlohmann::json({{"alg", algorithm}, {"kid", key.key_id()}}).dump());
    for (const char* signature : {"", "AAAA"}) {
      EXPECT_EQ(Reason(ValidateJwtSvid(absl::StrCat(header, ".", payload, ".", signature), keys,
                                       kDomain, "aws", At(0))),
                "INVALID_TOKEN")
          << algorithm;
    }
  }
}

TEST(JwtSvidTest, PayloadsThatAreNoClaims) {
  const SigningKey key = Key();
  const KeySet keys = SetOf({key});
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  for (
      const std::string& payload : std::vector<std::string>{
          "", "null", "[]", "{", R"({"sub":"spiffe://x.local/a","aud":"aws"})",
          R"({"sub":"spiffe://x.local/a","exp":1800000300})",
          R"({"sub":"spiffe://x.local/a","aud":[],"exp":1800000300})",
          R"({"sub":"spiffe://x.local/a","aud":["aws",1],"exp":1800000300})",
          R"({"aud":"aws","exp":1800000300})",
          R"({"sub":"spiffe://x.local.evil/a","aud":"aws","exp":1800000300})",
          R"({"sub":"spiffe://x.local/a","aud":"aws","exp":"1800000300"})",
          R"({"sub":"spiffe://x.local/a","aud":"aws","exp":1e300})",
          R"({"sub":"spiffe://x.local/a","aud":"aws","exp":-1})",
          R"({"sub":"spiffe://x.local/a","sub":"spiffe://x.local/b","aud":"aws","exp":1800000300})",
          absl::StrCat(R"({"sub":"spiffe://x.local/a","aud":"aws","exp":1800000300,"a":)", deep,
                       "}"),
          "{\"sub\":\"spiffe://x.local/\xff\",\"aud\":\"aws\",\"exp\":1800000300}"}) {
    EXPECT_EQ(Reason(ValidateJwtSvid(*key.Sign(payload), keys, kDomain, "aws", At(0))),
              "INVALID_TOKEN")
        << payload;
  }
  EXPECT_EQ(Reason(ValidateJwtSvid(
                *key.Sign(R"({"sub":"spiffe://x.local/a","aud":"aws","exp":1800000300})"), keys,
                kDomain, "aws", At(0))),
            "OK");
}

TEST(KeySetTest, LeavesOutWhatItCannotUse) {
  const SigningKey key = Key();
  nlohmann::json set =
      nlohmann::json::parse(MakeSpiffeKeySet({key.public_jwk()}, "jwt-svid", 7, absl::Minutes(5)));
  EXPECT_EQ(set["spiffe_sequence"], 7);
  EXPECT_EQ(set["spiffe_refresh_hint"], 300);
  nlohmann::json other = set["keys"][0];
  other["kid"] = "other";
  other["alg"] = "ES384";
  set["keys"].push_back(other);
  other = set["keys"][0];
  other.erase("kid");
  set["keys"].push_back(other);
  other = {{"kty", "oct"}, {"k", "c2VjcmV0"}, {"alg", "RS256"}, {"kid", "confused"}};
  set["keys"].push_back(other);
  // 512 bits.
  other = {{"kty", "RSA"}, {"e", "AQAB"}, {"alg", "RS256"}, {"kid", "short"}};
  other["n"] = absl::WebSafeBase64Escape(std::string(64, '\xff'));
  set["keys"].push_back(other);
  // Padding within a member, and none of one.
  for (const char* y : {"4Etl6SRW2YiLUrN5vfvVH===7x8PxltmWWlbbM4IFyM", "="}) {
    other = set["keys"][0];
    other["kid"] = "padded";
    other["y"] = y;
    set["keys"].push_back(other);
  }
  const auto parsed = KeySet::Parse(set.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->size(), 1u);
}

TEST(KeySetTest, RefusesWhatIsNoSet) {
  std::string many = R"({"keys":[{})";
  for (size_t i = 0; i < KeySet::kMaxKeys; ++i) many += ",{}";
  for (const std::string& text : std::vector<std::string>{
           "", "[]", "{}", R"({"keys":{}})", R"({"keys":[1]})", R"({"keys":[],"keys":[]})",
           many + "]}", std::string(300'000, ' ')}) {
    EXPECT_EQ(KeySet::Parse(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text.substr(0, 40);
  }
}

}  // namespace
}  // namespace capstan::jose
