#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_JOSE_JWT_KEYS_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_JOSE_JWT_KEYS_H_

#include <memory>
#include <string>

#include "libs/strand/strand.h"
#include "services/credentials/ports/jwt_keys.h"
#include "services/credentials/ports/key_keeper.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

struct JoseJwtKeysOptions {
  // Binds sealed keys to this trust domain.
  std::string trust_domain;
  // For the claim `iss`; empty for none.
  std::string issuer;
  // Where callbacks run.
  Strand* strand = nullptr;
  // Where keys are made, sealed and opened: all of it takes time.
  Strand* io_strand = nullptr;
  KeyKeeper* keeper = nullptr;
  SecretSource* secrets = nullptr;
};

// Keys in this process's memory, sealed by the key keeper where they are stored. To be destroyed
// when both strands have nothing left to do for it, or have stopped.
std::unique_ptr<JwtKeys> MakeJoseJwtKeys(JoseJwtKeysOptions options);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_JOSE_JWT_KEYS_H_
