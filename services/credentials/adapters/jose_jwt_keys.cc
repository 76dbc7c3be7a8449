#include "services/credentials/adapters/jose_jwt_keys.h"

#include <openssl/crypto.h>

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/jose/jwt_svid.h"
#include "libs/jose/signing_key.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/credentials/adapters/envelope.h"

namespace capstan::credentials {
namespace {

struct Made {
  v1::JwtKeyRecord record;
  jose::SigningKey key;
};

std::string ContextOf(const std::string& trust_domain, const std::string& key_id) {
  return absl::StrCat("capstan-jwt/", trust_domain, "/", key_id);
}

absl::StatusOr<Made> MakeKey(const JoseJwtKeysOptions& options, const std::string& algorithm) {
  CAPSTAN_ASSIGN_OR_RETURN(jose::SigningKey key, jose::SigningKey::Generate(algorithm));
  v1::JwtKeyRecord record;
  record.set_algorithm(algorithm);
  record.set_key_id(key.key_id());
  record.set_public_jwk(key.public_jwk());
  std::string secret = key.PrivateJwk();
  auto sealed = SealEnvelope(secret, ContextOf(options.trust_domain, key.key_id()), options.keeper,
                             options.secrets);
  OPENSSL_cleanse(secret.data(), secret.size());
  if (!sealed.ok()) return sealed.status();
  *record.mutable_private_jwk() = *std::move(sealed);
  return Made{std::move(record), std::move(key)};
}

absl::StatusOr<jose::SigningKey> OpenKey(const JoseJwtKeysOptions& options,
                                         const v1::JwtKeyRecord& record) {
  CAPSTAN_ASSIGN_OR_RETURN(
      std::string secret,
      OpenEnvelope(record.private_jwk(), ContextOf(options.trust_domain, record.key_id()),
                   options.keeper));
  auto key = jose::SigningKey::FromPrivateJwk(record.algorithm(), secret);
  OPENSSL_cleanse(secret.data(), secret.size());
  if (key.ok() && key->key_id() != record.key_id()) {
    return status::Error(absl::StatusCode::kDataLoss, "JWT_KEY_DAMAGED",
                         "A stored key is not the one that its record names.",
                         {{"key_id", record.key_id()}});
  }
  return key;
}

class JoseJwtKeys final : public JwtKeys {
 public:
  explicit JoseJwtKeys(JoseJwtKeysOptions options) : options_(std::move(options)) {}

  void Make(const std::string& algorithm,
            absl::AnyInvocable<void(absl::StatusOr<v1::JwtKeyRecord>)> done) override {
    options_.io_strand->Post([this, alive = std::weak_ptr<char>(alive_), algorithm,
                              strand = options_.strand, options = options_,
                              done = std::move(done)]() mutable {
      strand->Post(
          [this, alive, made = MakeKey(options, algorithm), done = std::move(done)]() mutable {
            if (alive.expired()) return;
            if (!made.ok()) return done(made.status());
            keys_.insert_or_assign(made->record.key_id(), std::move(made->key));
            done(std::move(made->record));
          });
    });
  }

  void Open(const std::vector<v1::JwtKeyRecord>& records,
            absl::AnyInvocable<void(absl::Status)> done) override {
    std::map<std::string, jose::SigningKey> kept;
    std::vector<v1::JwtKeyRecord> closed;
    for (const v1::JwtKeyRecord& record : records) {
      const auto open = keys_.find(record.key_id());
      if (open == keys_.end()) {
        closed.push_back(record);
      } else {
        kept.insert(*open);
      }
    }
    keys_ = std::move(kept);
    options_.io_strand->Post([this, alive = std::weak_ptr<char>(alive_), closed = std::move(closed),
                              strand = options_.strand, options = options_,
                              done = std::move(done)]() mutable {
      absl::Status first;
      std::vector<jose::SigningKey> opened;
      for (const v1::JwtKeyRecord& record : closed) {
        absl::StatusOr<jose::SigningKey> key = OpenKey(options, record);
        if (key.ok()) {
          opened.push_back(*std::move(key));
        } else if (first.ok()) {
          first = key.status();
        }
      }
      strand->Post(
          [this, alive, first, opened = std::move(opened), done = std::move(done)]() mutable {
            if (alive.expired()) return;
            for (jose::SigningKey& key : opened)
              keys_.insert_or_assign(key.key_id(), std::move(key));
            done(first);
          });
    });
  }

  absl::StatusOr<std::string> Sign(const JwtOrder& order) override {
    const auto key = keys_.find(order.key_id);
    if (key == keys_.end()) {
      return status::WithRetryDelay(
          status::Error(absl::StatusCode::kUnavailable, "KEY_NOT_OPEN",
                        "The key that signs tokens is not open yet, or cannot be opened."),
          absl::Seconds(1));
    }
    return key->second.Sign(jose::EncodeClaims({.issuer = options_.issuer,
                                                .subject = order.subject,
                                                .audiences = order.audiences,
                                                .expires = order.expires,
                                                .issued_at = order.issued_at,
                                                .id = order.id},
                                               {{"project", order.task.project},
                                                {"service_account", order.task.service_account},
                                                {"job", order.job},
                                                {"job_uid", order.task.job_uid},
                                                {"generation", absl::StrCat(order.task.generation)},
                                                {"group", order.task.group},
                                                {"index", absl::StrCat(order.task.index)}}));
  }

 private:
  const JoseJwtKeysOptions options_;
  // On the strand.
  std::map<std::string, jose::SigningKey> keys_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace

std::unique_ptr<JwtKeys> MakeJoseJwtKeys(JoseJwtKeysOptions options) {
  return std::make_unique<JoseJwtKeys>(std::move(options));
}

}  // namespace capstan::credentials
