// Envelope encryption: a fresh data key encrypts, the key keeper wraps the data key.
#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_ENVELOPE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_ENVELOPE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/ports/key_keeper.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// `context` says what the secret is for; opening needs the same.
absl::StatusOr<v1::SealedKey> SealEnvelope(absl::string_view secret, absl::string_view context,
                                           KeyKeeper* keeper, SecretSource* source);
// FAILED_PRECONDITION if another keeper's key sealed it, DATA_LOSS if it cannot be opened.
absl::StatusOr<std::string> OpenEnvelope(const v1::SealedKey& sealed, absl::string_view context,
                                         KeyKeeper* keeper);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_ENVELOPE_H_
