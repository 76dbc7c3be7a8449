#include "libs/content/content_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::content {
namespace {

using ::capstan::dataloader::v1::Manifest;

absl::Status Damaged(const Manifest::File& file) {
  const std::string path = absl::CHexEscape(file.path());
  return status::Error(absl::StatusCode::kDataLoss, "CONTENT_DAMAGED",
                       absl::StrCat("file '", path, "' lacks bytes that its manifest names"),
                       {{"file", path}});
}

}  // namespace

std::vector<int64_t> FileStarts(const Manifest& manifest) {
  std::vector<int64_t> starts = {0};
  starts.reserve(static_cast<size_t>(manifest.files_size()) + 1);
  for (const Manifest::File& file : manifest.files()) {
    starts.push_back(starts.back() + file.size_bytes());
  }
  return starts;
}

ContentReader::ContentReader(SafeRoot root, Manifest manifest)
    : root_(std::move(root)), manifest_(std::move(manifest)), starts_(FileStarts(manifest_)) {}

absl::StatusOr<std::string> ContentReader::Read(int64_t offset, size_t limit) {
  std::string bytes;
  if (offset < 0 || offset >= total_bytes()) return bytes;
  bytes.resize(std::min(limit, static_cast<size_t>(total_bytes() - offset)));
  size_t filled = 0;
  while (filled < bytes.size()) {
    const int64_t at = offset + static_cast<int64_t>(filled);
    // The last file that begins at or before it: empty files before it begin there too.
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), at);
    const int index = static_cast<int>(next - starts_.begin()) - 1;
    const Manifest::File& file = manifest_.files(index);
    if (index != open_file_) {
      absl::StatusOr<UniqueFd> opened = root_.OpenFile(file.path(), O_RDONLY);
      if (absl::IsNotFound(opened.status())) return Damaged(file);
      CAPSTAN_RETURN_IF_ERROR(opened.status());
      file_ = *std::move(opened);
      open_file_ = index;
    }
    const size_t want = std::min(bytes.size() - filled, static_cast<size_t>(*next - at));
    const ssize_t got = ::pread(file_.get(), bytes.data() + filled, want,
                                static_cast<off_t>(at - starts_[static_cast<size_t>(index)]));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", file.path());
    if (got == 0) return Damaged(file);
    filled += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace capstan::content
