#include "services/data_loader/adapters/staged_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::data_loader {
namespace {

// Hashed while it is still in the cache that it was read into.
constexpr size_t kPiece = 256 << 10;

}  // namespace

absl::StatusOr<StagedFile> StagedFile::Open(const SafeRoot& root, const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(UniqueFd fd, root.OpenFile(path, O_RDWR | O_CREAT, 0600));
  return StagedFile(std::move(fd), path);
}

absl::Status StagedFile::Write(int64_t offset, absl::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "write", path_);
    offset += n;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

void StagedFile::BeginWriteOut(int64_t offset, int64_t size) const {
  // Not every file system knows it; whatever is wrong with the disk Sync tells.
  ::sync_file_range(fd_.get(), offset, size, SYNC_FILE_RANGE_WRITE);
}

absl::Status StagedFile::Sync() const {
  if (::fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, "fdatasync", path_);
  return absl::OkStatus();
}

absl::Status StagedFile::Read(int64_t offset, int64_t size,
                              absl::FunctionRef<absl::Status(absl::string_view)> sink) const {
  const size_t piece = std::min(kPiece, static_cast<size_t>(size));
  const auto buffer = std::make_unique_for_overwrite<char[]>(piece);
  for (int64_t done = 0; done < size;) {
    const size_t want = std::min(piece, static_cast<size_t>(size - done));
    const ssize_t got = ::pread(fd_.get(), buffer.get(), want, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path_);
    if (got == 0) {
      return status::Error(absl::StatusCode::kDataLoss, "STAGED_FILES_LOST",
                           absl::StrCat("staged file '", path_, "' ends at byte ", offset + done));
    }
    CAPSTAN_RETURN_IF_ERROR(sink(absl::string_view(buffer.get(), static_cast<size_t>(got))));
    done += got;
  }
  return absl::OkStatus();
}

}  // namespace capstan::data_loader
