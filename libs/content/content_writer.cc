#include "libs/content/content_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/content/content_reader.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::content {
namespace {

using ::capstan::dataloader::v1::Manifest;

constexpr size_t kReadSize = 1 << 20;
// Files held open until the next Sync.
constexpr size_t kMaxUnsynced = 256;

}  // namespace

ContentWriter::ContentWriter(const SafeRoot* root, const Manifest* manifest)
    : root_(root), manifest_(manifest), starts_(FileStarts(*manifest)) {}

absl::StatusOr<std::unique_ptr<ContentWriter>> ContentWriter::Open(const SafeRoot* root,
                                                                   const Manifest* manifest,
                                                                   int64_t offset,
                                                                   const std::atomic<bool>& stop) {
  auto writer = std::unique_ptr<ContentWriter>(new ContentWriter(root, manifest));
  int64_t rest = offset;
  int64_t from = 0;
  while (writer->next_ < manifest->files_size()) {
    const Manifest::File& file = manifest->files(writer->next_);
    // OpenNext makes the empty files that stand before a file with bytes, and those that stand
    // after the last one.
    if (rest <= 0) break;
    if (file.size_bytes() == 0) {
      CAPSTAN_RETURN_IF_ERROR(writer->MakeEmpty(file));
    } else {
      CAPSTAN_ASSIGN_OR_RETURN(from, writer->Kept(file, std::min(rest, file.size_bytes()), stop));
      if (from < file.size_bytes()) break;
      rest -= from;
      from = 0;
    }
    ++writer->next_;
  }
  CAPSTAN_RETURN_IF_ERROR(writer->OpenNext(from));
  return writer;
}

absl::StatusOr<int64_t> ContentWriter::Kept(const Manifest::File& file, int64_t limit,
                                            const std::atomic<bool>& stop) {
  absl::StatusOr<UniqueFd> fd = root_->OpenFile(file.path(), O_RDONLY);
  if (absl::IsNotFound(fd.status())) return 0;
  CAPSTAN_RETURN_IF_ERROR(fd.status());
  std::string buffer(kReadSize, '\0');
  int64_t done = 0;
  Sha256 hash;
  while (done < limit) {
    if (stop) return absl::CancelledError("stopped");
    const ssize_t got = ::read(fd->get(), buffer.data(),
                               std::min(buffer.size(), static_cast<size_t>(limit - done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", file.path());
    if (got == 0) return 0;
    hash.Update(absl::string_view(buffer.data(), static_cast<size_t>(got)));
    done += got;
  }
  // A beginning is judged when its end has come; OpenNext reads it again for the hash.
  if (done == file.size_bytes() && hash.Finish() != file.sha256()) return 0;
  return done;
}

absl::StatusOr<UniqueFd> ContentWriter::OpenFile(const Manifest::File& file) const {
  const size_t slash = file.path().rfind('/');
  if (slash != std::string::npos) {
    CAPSTAN_RETURN_IF_ERROR(root_->MakeDirectories(file.path().substr(0, slash), 0700));
  }
  return root_->OpenFile(file.path(), O_RDWR | O_CREAT, 0600);
}

absl::Status ContentWriter::MakeEmpty(const Manifest::File& file) {
  if (file.sha256() != Sha256::Of("")) {
    // Nothing that could come would mend it.
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_MANIFEST",
                         absl::StrCat("file '", absl::CHexEscape(file.path()),
                                      "' is empty, but its digest is not that of nothing"));
  }
  CAPSTAN_ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(file));
  if (::ftruncate(fd.get(), 0) != 0) return ErrnoStatus(errno, "truncate", file.path());
  return Keep(std::move(fd));
}

absl::Status ContentWriter::Keep(UniqueFd fd) {
  unsynced_.push_back(std::move(fd));
  return unsynced_.size() < kMaxUnsynced ? absl::OkStatus() : Sync();
}

absl::Status ContentWriter::OpenNext(int64_t from) {
  while (next_ < manifest_->files_size() && manifest_->files(next_).size_bytes() == 0) {
    CAPSTAN_RETURN_IF_ERROR(MakeEmpty(manifest_->files(next_)));
    ++next_;
  }
  if (next_ == manifest_->files_size()) {
    offset_ = starts_.back();
    return absl::OkStatus();
  }
  const Manifest::File& file = manifest_->files(next_);
  CAPSTAN_ASSIGN_OR_RETURN(file_, OpenFile(file));
  // Whatever an earlier attempt has left behind the part that is kept.
  if (::ftruncate(file_.get(), static_cast<off_t>(from)) != 0) {
    return ErrnoStatus(errno, "truncate", file.path());
  }
  hash_.Finish();
  std::string buffer;
  for (int64_t done = 0; done < from;) {
    buffer.resize(std::min(kReadSize, static_cast<size_t>(from - done)));
    const ssize_t got = ::pread(file_.get(), buffer.data(), buffer.size(), done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ErrnoStatus(got < 0 ? errno : EIO, "read", file.path());
    hash_.Update(absl::string_view(buffer.data(), static_cast<size_t>(got)));
    done += got;
  }
  offset_ = starts_[static_cast<size_t>(next_)] + from;
  ++next_;
  return absl::OkStatus();
}

std::string ContentWriter::path() const {
  return file_.valid() ? manifest_->files(next_ - 1).path() : "";
}

absl::Status ContentWriter::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    if (!file_.valid()) {
      return status::Error(absl::StatusCode::kOutOfRange, "CONTENT_TOO_LONG",
                           "more bytes came than the manifest's files have");
    }
    const int64_t end = starts_[static_cast<size_t>(next_)];
    const size_t take = std::min(bytes.size(), static_cast<size_t>(end - offset_));
    const int64_t start = starts_[static_cast<size_t>(next_) - 1];
    const std::string& path = manifest_->files(next_ - 1).path();
    size_t written = 0;
    while (written < take) {
      const ssize_t n =
          ::pwrite(file_.get(), bytes.data() + written, take - written,
                   static_cast<off_t>(offset_ - start + static_cast<int64_t>(written)));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "write", path);
      written += static_cast<size_t>(n);
    }
    hash_.Update(bytes.substr(0, take));
    offset_ += static_cast<int64_t>(take);
    bytes.remove_prefix(take);
    if (offset_ == end) CAPSTAN_RETURN_IF_ERROR(CloseFile());
  }
  return absl::OkStatus();
}

absl::Status ContentWriter::CloseFile() {
  const Manifest::File& file = manifest_->files(next_ - 1);
  if (hash_.Finish() != file.sha256()) {
    --next_;
    CAPSTAN_RETURN_IF_ERROR(OpenNext(0));
    return status::Error(
        absl::StatusCode::kDataLoss, "CONTENT_MISMATCH",
        absl::StrCat("file '", absl::CHexEscape(file.path()), "' is not what its digest says"),
        {{"file", absl::CHexEscape(file.path())}});
  }
  CAPSTAN_RETURN_IF_ERROR(Keep(std::move(file_)));
  return OpenNext(0);
}

absl::Status ContentWriter::Sync() {
  for (const UniqueFd& fd : unsynced_) {
    if (::fdatasync(fd.get()) != 0) return ErrnoStatus(errno, "fdatasync", "a received file");
  }
  unsynced_.clear();
  if (file_.valid() && ::fdatasync(file_.get()) != 0) {
    return ErrnoStatus(errno, "fdatasync", path());
  }
  return absl::OkStatus();
}

}  // namespace capstan::content
