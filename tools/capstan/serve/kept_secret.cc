#include "tools/capstan/serve/kept_secret.h"

#include <fcntl.h>

#include <cerrno>

#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "openssl/rand.h"

namespace capstan::serve {
namespace {

constexpr size_t kBytes = 32;

}  // namespace

absl::StatusOr<std::string> ReadOrMakeSecret(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.valid()) {
    CAPSTAN_ASSIGN_OR_RETURN(std::string secret, ReadAll(fd.get(), kBytes, path));
    if (secret.size() == kBytes) return secret;
  } else if (errno != ENOENT) {
    return ErrnoStatus(errno, "opening", path);
  }
  std::string secret(kBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()), kBytes) != 1) {
    return status::Error(absl::StatusCode::kInternal, "NO_RANDOMNESS",
                         "OpenSSL has no random bytes to give");
  }
  CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(path, secret, 0600));
  return secret;
}

}  // namespace capstan::serve
