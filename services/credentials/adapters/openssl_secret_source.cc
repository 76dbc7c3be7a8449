#include "services/credentials/adapters/openssl_secret_source.h"

#include <openssl/rand.h>

#include <string>

#include "libs/status/error.h"

namespace capstan::credentials {

absl::StatusOr<std::string> OpenSslSecretSource::Bytes(size_t size) {
  std::string bytes(size, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(size)) != 1) {
    return status::Error(absl::StatusCode::kUnavailable, "NO_RANDOMNESS",
                         "The random generator could not be seeded.");
  }
  return bytes;
}

}  // namespace capstan::credentials
