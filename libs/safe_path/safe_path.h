// Files below a root, opened so that no hostile name or symbolic link leads out of it.
#ifndef CAPSTAN_LIBS_SAFE_PATH_SAFE_PATH_H_
#define CAPSTAN_LIBS_SAFE_PATH_SAFE_PATH_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// A file descriptor that closes itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { Reset(-1); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd);

 private:
  int fd_ = -1;
};

// Checks a relative path that comes from outside (an object's key, a file of a Bundle): not empty,
// at most 1,024 bytes with components of at most 255, valid UTF-8, no leading or trailing or double
// `/`, no `.` or `..`, no control bytes or backslashes. INVALID_ARGUMENT with reason UNSAFE_PATH
// names the path, escaped.
absl::Status CheckRelativePath(absl::string_view path);

// Checks each path, and that no two are the same file or one the other's folder, also where a file
// system folds case or composes accents: of two names that would meet, the set is refused, since
// readers elsewhere would see only one.
absl::Status CheckPathSet(const std::vector<std::string>& paths);

// A directory, held open. All paths are relative, checked, and resolved by openat2 with
// RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS. Thread-safe.
class SafeRoot {
 public:
  // `directory` is the platform's own and trusted; it must exist.
  static absl::StatusOr<SafeRoot> Open(const std::string& directory);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // open(2) flags and mode. O_CLOEXEC is added.
  absl::StatusOr<UniqueFd> OpenFile(absl::string_view path, int flags, mode_t mode = 0) const;
  // Makes the folder and those above it.
  absl::Status MakeDirectories(absl::string_view path, mode_t mode = 0755) const;
  absl::StatusOr<struct ::stat> Stat(absl::string_view path) const;
  absl::Status Remove(absl::string_view path) const;
  // Removes everything below and the folder itself, never following a link. OK if absent.
  absl::Status RemoveTree(absl::string_view path) const;
  // Renames within the root; refuses to replace (RENAME_NOREPLACE) unless `replace`.
  absl::Status Rename(absl::string_view from, absl::string_view to, bool replace) const;
  // fsyncs a file or a folder; "" is the root itself.
  absl::Status Sync(absl::string_view path) const;
  // Regular files below `path` ("" is the root), sorted. Anything that is neither a regular file
  // nor a folder is refused with reason NOT_A_REGULAR_FILE.
  absl::StatusOr<std::vector<std::string>> ListFiles(absl::string_view path) const;
  // A SafeRoot of a folder below.
  absl::StatusOr<SafeRoot> Descend(absl::string_view path) const;

 private:
  SafeRoot(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

// The status of an errno: NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (reason DISK_FULL), …
// with the path in the message.
absl::Status ErrnoStatus(int error, absl::string_view what, absl::string_view path);

// Writes all, across short writes and EINTR.
absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view path);
// The whole file, at most `limit` bytes.
absl::StatusOr<std::string> ReadAll(int fd, size_t limit, absl::string_view path);

// Replaces a file so that a reader, also after a crash, sees the old or the new content, whole:
// writes beside it, fsyncs, renames, fsyncs the folder.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes, mode_t mode);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_SAFE_PATH_SAFE_PATH_H_
