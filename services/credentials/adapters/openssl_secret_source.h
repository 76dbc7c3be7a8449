#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_SECRET_SOURCE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_SECRET_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// OpenSSL's generator, seeded by the kernel.
class OpenSslSecretSource final : public SecretSource {
 public:
  absl::StatusOr<std::string> Bytes(size_t size) override;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_SECRET_SOURCE_H_
