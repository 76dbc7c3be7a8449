#include "libs/digest/fd_digest.h"

#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/string_view.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/safe_path.h"

namespace capstan {
namespace {

constexpr size_t kPiece = 1 << 20;

}  // namespace

absl::StatusOr<FdDigest> DigestFd(int fd, const std::string& path) {
  FdDigest digest;
  Sha256 sum;
  std::string piece(kPiece, '\0');
  while (true) {
    const ssize_t n = read(fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "reading", path);
    if (n == 0) break;
    sum.Update(absl::string_view(piece.data(), static_cast<size_t>(n)));
    digest.size += n;
  }
  digest.sha256 = sum.Finish();
  return digest;
}

}  // namespace capstan
