#ifndef CAPSTAN_SERVICES_CREDENTIALS_TRUST_DOMAIN_H_
#define CAPSTAN_SERVICES_CREDENTIALS_TRUST_DOMAIN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/store/store.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/event.h"
#include "services/credentials/ports/key_keeper.h"
#include "services/credentials/ports/secret_source.h"
#include "services/credentials/ports/signer.h"

namespace capstan::credentials {

struct TrustDomainOptions {
  // The key keeper's file.
  std::string key_file;
  // Name of a new trust domain; empty for `capstan-<8 hex digits>.local`.
  std::string new_name;
  // Who becomes admin of a new one.
  absl::optional<int64_t> admin_uid;
};

// The trust domain with the means to sign for it.
struct TrustDomain {
  v1::TrustDomainRecord record;
  std::unique_ptr<Signer> signer;
  // Seals the domain's other keys.
  std::unique_ptr<KeyKeeper> keeper;
  // Set if the store held none: to be applied, once, in the first term.
  absl::optional<FirstRun> first_run;
};

// Opens the stored trust domain, or makes one in memory if the store holds none. Blocks, so not on
// the store's strand. FAILED_PRECONDITION or NOT_FOUND, naming the file, if the CA's key cannot be
// opened: a second trust domain is never made over an existing one.
absl::StatusOr<TrustDomain> OpenTrustDomain(const TrustDomainOptions& options, store::Store* store,
                                            SecretSource* secrets, absl::Time now);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_TRUST_DOMAIN_H_
