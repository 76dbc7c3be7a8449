#include "services/data_loader/adapters/file_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::data_loader {
namespace {

constexpr absl::string_view kScheme = "file://";
// Written on while it is still in the cache that it was read into.
constexpr size_t kReadSize = 256 << 10;

std::string Validator(const struct ::stat& st) {
  return absl::StrCat(st.st_dev, "-", st.st_ino, "-", st.st_size, "-", st.st_mtim.tv_sec, ".",
                      st.st_mtim.tv_nsec, "-", st.st_ctim.tv_sec, ".", st.st_ctim.tv_nsec);
}

std::string Shown(const std::string& uri, const std::string& path) {
  return absl::StrCat(absl::StripSuffix(uri, "/"), "/", absl::CHexEscape(path));
}

absl::Status ObjectNotFound(const std::string& shown) {
  return status::Error(absl::StatusCode::kNotFound, "OBJECT_NOT_FOUND",
                       absl::StrCat("object '", shown, "' is not at its source"),
                       {{"object", shown}});
}

absl::Status SourceChanged(const std::string& shown) {
  return status::Error(absl::StatusCode::kAborted, "SOURCE_CHANGED",
                       absl::StrCat("object '", shown,
                                    "' was changed while it was loaded; load it "
                                    "again"),
                       {{"object", shown}});
}

}  // namespace

absl::StatusOr<FileSource> FileSource::Open(const std::string& uri,
                                            const std::vector<std::string>& allowed_roots) {
  absl::string_view path = uri;
  if (!absl::ConsumePrefix(&path, kScheme)) {
    return status::Error(absl::StatusCode::kInvalidArgument, "SOURCE_SCHEME",
                         absl::StrCat("source '", uri, "' is not file://"));
  }
  path = absl::StripSuffix(path, "/");
  for (const std::string& allowed : allowed_roots) {
    const std::string root(absl::StripSuffix(allowed, "/"));
    absl::string_view below = path;
    if (path != root && !absl::ConsumePrefix(&below, root + "/")) continue;
    CAPSTAN_ASSIGN_OR_RETURN(SafeRoot opened, SafeRoot::Open(root));
    if (path == root) return FileSource(std::move(opened), uri);
    absl::StatusOr<SafeRoot> descended = opened.Descend(below);
    if (absl::IsNotFound(descended.status())) return ObjectNotFound(uri);
    CAPSTAN_RETURN_IF_ERROR(descended.status());
    return FileSource(*std::move(descended), uri);
  }
  return status::Error(
      absl::StatusCode::kPermissionDenied, "SOURCE_NOT_ALLOWED",
      absl::StrCat("source '", uri,
                   "' lies outside the folders that the "
                   "data_loader may read; ask an operator to allow it, or copy the "
                   "data to an allowed bucket"),
      {{"source", uri}});
}

absl::StatusOr<std::vector<LoadPlan::File>> FileSource::List(
    const std::vector<std::string>& objects) const {
  std::vector<std::string> paths = objects;
  if (paths.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(paths, root_.ListFiles(""));
    if (paths.empty()) {
      return status::Error(absl::StatusCode::kNotFound, "OBJECT_NOT_FOUND",
                           absl::StrCat("source '", uri_, "' holds no objects"),
                           {{"object", uri_}});
    }
  }
  std::sort(paths.begin(), paths.end());
  CAPSTAN_RETURN_IF_ERROR(CheckPathSet(paths));
  std::vector<LoadPlan::File> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    const absl::StatusOr<struct ::stat> st = root_.Stat(path);
    if (absl::IsNotFound(st.status())) return ObjectNotFound(Shown(uri_, path));
    CAPSTAN_RETURN_IF_ERROR(st.status());
    if (!S_ISREG(st->st_mode)) {
      return status::Error(absl::StatusCode::kInvalidArgument, "NOT_A_REGULAR_FILE",
                           absl::StrCat("object '", Shown(uri_, path), "' is not a regular file"),
                           {{"object", Shown(uri_, path)}});
    }
    LoadPlan::File& file = files.emplace_back();
    file.set_path(path);
    file.set_size_bytes(st->st_size);
    file.set_validator(Validator(*st));
  }
  return files;
}

absl::StatusOr<UniqueFd> FileSource::OpenObject(const LoadPlan::File& planned) const {
  absl::StatusOr<UniqueFd> fd = root_.OpenFile(planned.path(), O_RDONLY | O_NOFOLLOW);
  if (absl::IsNotFound(fd.status())) return ObjectNotFound(Shown(uri_, planned.path()));
  CAPSTAN_RETURN_IF_ERROR(fd.status());
  CAPSTAN_RETURN_IF_ERROR(CheckOpen(*fd, planned));
  return fd;
}

absl::Status FileSource::CheckUnchanged(const LoadPlan::File& planned) const {
  return OpenObject(planned).status();
}

absl::Status FileSource::Read(const LoadPlan::File& planned, int64_t offset, int64_t length,
                              absl::FunctionRef<absl::Status(absl::string_view)> sink) const {
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd in, OpenObject(planned));
  std::string buffer(std::min(kReadSize, static_cast<size_t>(length)), '\0');
  for (int64_t done = 0; done < length;) {
    const size_t want = std::min(buffer.size(), static_cast<size_t>(length - done));
    const ssize_t got = ::pread(in.get(), buffer.data(), want, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", planned.path());
    if (got == 0) {
      return status::Error(absl::StatusCode::kDataLoss, "SOURCE_TRUNCATED",
                           absl::StrCat("object '", Shown(uri_, planned.path()), "' ends at byte ",
                                        offset + done, "; it had ", planned.size_bytes()),
                           {{"object", Shown(uri_, planned.path())}});
    }
    CAPSTAN_RETURN_IF_ERROR(sink(absl::string_view(buffer.data(), static_cast<size_t>(got))));
    done += got;
  }
  return absl::OkStatus();
}

absl::Status FileSource::CheckOpen(const UniqueFd& fd, const LoadPlan::File& planned) const {
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return ErrnoStatus(errno, "stat", planned.path());
  if (Validator(st) != planned.validator()) return SourceChanged(Shown(uri_, planned.path()));
  return absl::OkStatus();
}

}  // namespace capstan::data_loader
