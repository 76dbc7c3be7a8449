#ifndef CAPSTAN_LIBS_DIGEST_FD_DIGEST_H_
#define CAPSTAN_LIBS_DIGEST_FD_DIGEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace capstan {

struct FdDigest {
  int64_t size = 0;
  // The 32 bytes.
  std::string sha256;
};

// Reads from where the descriptor stands to the end, a piece at a time. `path` is for errors.
absl::StatusOr<FdDigest> DigestFd(int fd, const std::string& path);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_DIGEST_FD_DIGEST_H_
