#ifndef CAPSTAN_SERVICES_CREDENTIALS_PORTS_SECRET_SOURCE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_PORTS_SECRET_SOURCE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace capstan::credentials {

// Randomness that no one can guess: for tokens, serials and keys. Thread-safe.
class SecretSource {
 public:
  virtual ~SecretSource() = default;

  // `size` random bytes; UNAVAILABLE if the system cannot vouch for them.
  virtual absl::StatusOr<std::string> Bytes(size_t size) = 0;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_PORTS_SECRET_SOURCE_H_
