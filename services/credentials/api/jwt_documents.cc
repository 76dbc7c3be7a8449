#include "services/credentials/api/jwt_documents.h"

#include <utility>

#include "libs/jose/key_set.h"

namespace capstan::credentials {

void JwtDocumentHolder::Set(const JwtKeySet& keys) {
  if (keys.public_jwks.empty()) return;
  auto documents = std::make_shared<JwtDocuments>();
  documents->openid_keys = jose::MakeKeySet(keys.public_jwks, "sig");
  documents->spiffe_keys =
      jose::MakeSpiffeKeySet(keys.public_jwks, "jwt-svid", keys.sequence, keys.refresh_hint);
  documents->refresh_hint = keys.refresh_hint;
  absl::MutexLock lock(&mutex_);
  documents_ = std::move(documents);
}

std::shared_ptr<const JwtDocuments> JwtDocumentHolder::Get() const {
  absl::MutexLock lock(&mutex_);
  return documents_;
}

}  // namespace capstan::credentials
