#include "services/credentials/api/join_token.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/auth/spiffe_id.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"

namespace capstan::credentials {
namespace {

constexpr size_t kIdBytes = 16;
constexpr size_t kSecretBytes = 32;

bool IsHex(absl::string_view text, size_t digits) {
  if (text.size() != digits) return false;
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c)) && (c < 'a' || c > 'f')) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<JoinTokenParts> ParseJoinToken(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('.', 3));
  if (parts.size() != 3 || !IsHex(parts[0], 2 * kIdBytes) || !IsHex(parts[1], 2 * kSecretBytes) ||
      !IsHex(parts[2], 2 * Sha256::kSize)) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_JOIN_TOKEN",
                         "The join token is not of the form `<id>.<secret>.<bundle hash>`.");
  }
  return JoinTokenParts{std::string(parts[0]), std::string(parts[1]), std::string(parts[2])};
}

absl::Status JoinTokenMaker::Validate(absl::string_view path) const {
  using Kind = auth::SpiffeId::Kind;
  status::FieldErrors errors;
  const absl::StatusOr<auth::SpiffeId> id = auth::SpiffeId::ParsePath(trust_domain_, path);
  if (!id.ok() ||
      (id->kind != Kind::kService && id->kind != Kind::kExecutor && id->kind != Kind::kNode)) {
    errors.Add("path", absl::StrCat("is `", absl::CHexEscape(path.substr(0, 200)),
                                    "`; expected /svc/<service>, /executor/<cluster> or "
                                    "/node/<cluster>/<node>"));
  } else if (id->service == "credentials") {
    errors.Add("path",
               "is credentials' own, which signs its own certificate; expected that of another "
               "service, an executor or a Node");
  }
  return errors.ToStatus();
}

void JoinTokenMaker::Make(const std::string& principal, const std::string& path, absl::Duration ttl,
                          Callback done) {
  const absl::StatusOr<auth::SpiffeId> identity = auth::SpiffeId::ParsePath(trust_domain_, path);
  if (!identity.ok()) return done(identity.status());
  absl::StatusOr<std::string> id = secrets_->Bytes(kIdBytes);
  absl::StatusOr<std::string> secret = secrets_->Bytes(kSecretBytes);
  if (!id.ok()) return done(id.status());
  if (!secret.ok()) return done(secret.status());
  CreateJoinToken event;
  event.principal = principal;
  event.identity = *identity;
  event.ttl = ttl;
  event.token_id = absl::BytesToHexString(*id);
  const std::string secret_text = absl::BytesToHexString(*secret);
  event.secret_sha256 = Sha256::Of(secret_text);
  std::string token = absl::StrCat(event.token_id, ".", secret_text, ".", bundle_sha256_);
  sink_->Submit(std::move(event), [token = std::move(token),
                                   done = std::move(done)](absl::StatusOr<Answer> answer) mutable {
    if (!answer.ok()) return done(answer.status());
    const TokenMade& made = std::get<TokenMade>(*answer);
    v1::JoinToken result;
    result.set_token(std::move(token));
    result.set_spiffe_id(made.spiffe_id);
    *result.mutable_expire_time() = ToProto(made.expire_time);
    done(std::move(result));
  });
}

}  // namespace capstan::credentials
