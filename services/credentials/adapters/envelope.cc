#include "services/credentials/adapters/envelope.h"

#include <openssl/crypto.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/credentials/adapters/aead.h"

namespace capstan::credentials {

absl::StatusOr<v1::SealedKey> SealEnvelope(absl::string_view secret, absl::string_view context,
                                           KeyKeeper* keeper, SecretSource* source) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string data_key, source->Bytes(kAeadKeySize));
  CAPSTAN_ASSIGN_OR_RETURN(std::string nonce, source->Bytes(kAeadNonceSize));
  CAPSTAN_ASSIGN_OR_RETURN(std::string ciphertext, AeadSeal(data_key, nonce, secret, context));
  v1::SealedKey sealed;
  sealed.set_keeper_key_id(keeper->key_id());
  CAPSTAN_ASSIGN_OR_RETURN(*sealed.mutable_wrapped_data_key(), keeper->Wrap(data_key, context));
  OPENSSL_cleanse(data_key.data(), data_key.size());
  sealed.set_nonce(std::move(nonce));
  sealed.set_ciphertext(std::move(ciphertext));
  return sealed;
}

absl::StatusOr<std::string> OpenEnvelope(const v1::SealedKey& sealed, absl::string_view context,
                                         KeyKeeper* keeper) {
  if (sealed.keeper_key_id() != keeper->key_id()) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "WRONG_KEY_KEEPER",
        absl::StrCat("The key was sealed by key keeper key `", sealed.keeper_key_id(),
                     "`, but this one is `", keeper->key_id(),
                     "`; restore the key keeper that belongs to this store."),
        {{"sealed_by", sealed.keeper_key_id()}, {"keeper", keeper->key_id()}});
  }
  CAPSTAN_ASSIGN_OR_RETURN(std::string data_key,
                           keeper->Unwrap(sealed.wrapped_data_key(), context));
  absl::StatusOr<std::string> secret =
      AeadOpen(data_key, sealed.nonce(), sealed.ciphertext(), context);
  OPENSSL_cleanse(data_key.data(), data_key.size());
  return secret;
}

}  // namespace capstan::credentials
