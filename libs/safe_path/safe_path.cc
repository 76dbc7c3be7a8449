#include "libs/safe_path/safe_path.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/safe_path/fold.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/utf8/utf8.h"

namespace capstan {
namespace {

constexpr size_t kMaxPath = 1024;
constexpr size_t kMaxComponent = 255;

absl::Status Unsafe(absl::string_view path, absl::string_view why) {
  const std::string shown = absl::CHexEscape(path.substr(0, 200));
  return status::Error(absl::StatusCode::kInvalidArgument, "UNSAFE_PATH",
                       absl::StrCat("path '", shown, "' ", why), {{"path", shown}});
}

long OpenAt2(int dir, const std::string& path, int flags, mode_t mode) {
  struct open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  while (true) {
    const long fd = ::syscall(SYS_openat2, dir, path.c_str(), &how, sizeof(how));
    // EAGAIN: something was renamed during the walk; the kernel asks to try again.
    if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) return fd;
  }
}

std::pair<std::string, std::string> SplitParent(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return {".", std::string(path)};
  return {std::string(path.substr(0, slash)), std::string(path.substr(slash + 1))};
}

struct DirCloser {
  void operator()(DIR* dir) const { ::closedir(dir); }
};
using UniqueDir = std::unique_ptr<DIR, DirCloser>;

absl::StatusOr<std::vector<std::pair<std::string, unsigned char>>> ReadDirectory(
    UniqueFd fd, absl::string_view path) {
  UniqueDir dir(::fdopendir(fd.get()));
  if (dir == nullptr) return ErrnoStatus(errno, "opendir", path);
  fd.Release();
  std::vector<std::pair<std::string, unsigned char>> entries;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, "readdir", path);
      break;
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    unsigned char type = entry->d_type;
    if (type == DT_UNKNOWN) {
      struct stat st{};
      if (::fstatat(::dirfd(dir.get()), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return ErrnoStatus(errno, "stat", absl::StrCat(path, "/", name));
      }
      type = S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_LNK;
    }
    entries.emplace_back(name, type);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::string Join(absl::string_view folder, absl::string_view name) {
  return folder.empty() ? std::string(name) : absl::StrCat(folder, "/", name);
}

absl::Status RemoveTreeAt(int parent, const std::string& name, absl::string_view path) {
  UniqueFd fd(static_cast<int>(OpenAt2(parent, name, O_RDONLY | O_DIRECTORY, 0)));
  if (!fd.valid()) {
    if (errno == ENOENT) return absl::OkStatus();
    if (errno != ENOTDIR && errno != ELOOP) return ErrnoStatus(errno, "open", path);
    if (::unlinkat(parent, name.c_str(), 0) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, "unlink", path);
    }
    return absl::OkStatus();
  }
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  CAPSTAN_ASSIGN_OR_RETURN(const auto entries, ReadDirectory(std::move(copy), path));
  for (const auto& [entry, type] : entries) {
    CAPSTAN_RETURN_IF_ERROR(RemoveTreeAt(fd.get(), entry, absl::StrCat(path, "/", entry)));
  }
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "rmdir", path);
  }
  return absl::OkStatus();
}

}  // namespace

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

absl::Status ErrnoStatus(int error, absl::string_view what, absl::string_view path) {
  const std::string shown = absl::CHexEscape(path);
  const std::string message = absl::StrCat(what, " '", shown, "': ", ::strerror(error));
  const std::map<std::string, std::string> metadata = {{"path", shown}};
  switch (error) {
    case ENOENT:
      return status::Error(absl::StatusCode::kNotFound, "FILE_NOT_FOUND", message, metadata);
    case EEXIST:
      return status::Error(absl::StatusCode::kAlreadyExists, "FILE_EXISTS", message, metadata);
    case EACCES:
    case EPERM:
      return status::Error(absl::StatusCode::kPermissionDenied, "FILE_ACCESS_DENIED", message,
                           metadata);
    case ENOSPC:
    case EDQUOT:
      return status::Error(absl::StatusCode::kResourceExhausted, "DISK_FULL", message, metadata);
    case ELOOP:
    case EXDEV:
      // openat2's answers to a symbolic link and to a path that leaves the root.
      return status::Error(absl::StatusCode::kInvalidArgument, "UNSAFE_PATH", message, metadata);
    case ENOTDIR:
    case EISDIR:
      return status::Error(absl::StatusCode::kFailedPrecondition, "WRONG_FILE_TYPE", message,
                           metadata);
    default:
      return status::Error(absl::StatusCode::kInternal, "FILE_ERROR", message, metadata);
  }
}

absl::Status CheckRelativePath(absl::string_view path) {
  if (path.empty()) return Unsafe(path, "is empty");
  if (path.size() > kMaxPath) {
    return Unsafe(path, absl::StrCat("has ", path.size(), " bytes; at most ", kMaxPath));
  }
  if (!IsUtf8(path)) return Unsafe(path, "is not valid UTF-8");
  for (const unsigned char c : path) {
    if (c < 0x20 || c == 0x7f) return Unsafe(path, "has a control byte");
    if (c == '\\') return Unsafe(path, "has a backslash");
  }
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty()) return Unsafe(path, "begins or ends with '/' or has '//'");
    if (part == "." || part == "..") return Unsafe(path, "has a '.' or '..' component");
    if (part.size() > kMaxComponent) {
      return Unsafe(path, absl::StrCat("has a component of more than ", kMaxComponent, " bytes"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPathSet(const std::vector<std::string>& paths) {
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> folders;
  for (const std::string& path : paths) {
    CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(path));
    const std::string folded = FoldPath(path);
    const auto [it, added] = files.emplace(folded, path);
    if (!added) {
      return Unsafe(path, absl::StrCat("would meet '", absl::CHexEscape(it->second),
                                       "' on a file system that folds case or accents"));
    }
    for (size_t slash = folded.find('/'); slash != std::string::npos;
         slash = folded.find('/', slash + 1)) {
      folders.emplace(folded.substr(0, slash), path);
    }
  }
  for (const auto& [folded, path] : files) {
    const auto folder = folders.find(folded);
    if (folder != folders.end()) {
      return Unsafe(path, absl::StrCat("is a file, but also a folder of '",
                                       absl::CHexEscape(folder->second), "'"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SafeRoot> SafeRoot::Open(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", directory);
  return SafeRoot(std::move(fd), directory);
}

absl::StatusOr<UniqueFd> SafeRoot::OpenFile(absl::string_view path, int flags, mode_t mode) const {
  CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(path));
  UniqueFd fd(static_cast<int>(OpenAt2(fd_.get(), std::string(path), flags, mode)));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return fd;
}

absl::Status SafeRoot::MakeDirectories(absl::string_view path, mode_t mode) const {
  CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(path));
  UniqueFd held;
  int parent = fd_.get();
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    const std::string name(part);
    if (::mkdirat(parent, name.c_str(), mode) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "mkdir", path);
    }
    UniqueFd next(static_cast<int>(OpenAt2(parent, name, O_RDONLY | O_DIRECTORY, 0)));
    if (!next.valid()) return ErrnoStatus(errno, "open", path);
    held = std::move(next);
    parent = held.get();
  }
  return absl::OkStatus();
}

absl::StatusOr<struct ::stat> SafeRoot::Stat(absl::string_view path) const {
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(path, O_PATH | O_NOFOLLOW));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return ErrnoStatus(errno, "stat", path);
  return st;
}

absl::Status SafeRoot::Remove(absl::string_view path) const {
  CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(path));
  const auto [folder, name] = SplitParent(path);
  UniqueFd parent(static_cast<int>(OpenAt2(fd_.get(), folder, O_RDONLY | O_DIRECTORY, 0)));
  if (!parent.valid()) return ErrnoStatus(errno, "open", path);
  if (::unlinkat(parent.get(), name.c_str(), 0) != 0) return ErrnoStatus(errno, "unlink", path);
  return absl::OkStatus();
}

absl::Status SafeRoot::RemoveTree(absl::string_view path) const {
  CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(path));
  const auto [folder, name] = SplitParent(path);
  UniqueFd parent(static_cast<int>(OpenAt2(fd_.get(), folder, O_RDONLY | O_DIRECTORY, 0)));
  if (!parent.valid()) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "open", path);
  }
  return RemoveTreeAt(parent.get(), name, path);
}

absl::Status SafeRoot::Rename(absl::string_view from, absl::string_view to, bool replace) const {
  CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(from));
  CAPSTAN_RETURN_IF_ERROR(CheckRelativePath(to));
  const auto [from_folder, from_name] = SplitParent(from);
  const auto [to_folder, to_name] = SplitParent(to);
  UniqueFd from_fd(static_cast<int>(OpenAt2(fd_.get(), from_folder, O_RDONLY | O_DIRECTORY, 0)));
  if (!from_fd.valid()) return ErrnoStatus(errno, "open", from);
  UniqueFd to_fd(static_cast<int>(OpenAt2(fd_.get(), to_folder, O_RDONLY | O_DIRECTORY, 0)));
  if (!to_fd.valid()) return ErrnoStatus(errno, "open", to);
  if (::renameat2(from_fd.get(), from_name.c_str(), to_fd.get(), to_name.c_str(),
                  replace ? 0 : RENAME_NOREPLACE) != 0) {
    return ErrnoStatus(errno, "rename", to);
  }
  return absl::OkStatus();
}

absl::Status SafeRoot::Sync(absl::string_view path) const {
  if (path.empty()) {
    return ::fsync(fd_.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "fsync", path_);
  }
  CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(path, O_RDONLY));
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "fsync", path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SafeRoot::ListFiles(absl::string_view path) const {
  std::vector<std::string> files;
  std::vector<std::string> pending = {std::string(path)};
  while (!pending.empty()) {
    const std::string folder = std::move(pending.back());
    pending.pop_back();
    UniqueFd fd;
    if (folder.empty()) {
      // A descriptor of its own: the root's has one shared read position.
      fd = UniqueFd(static_cast<int>(OpenAt2(fd_.get(), ".", O_RDONLY | O_DIRECTORY, 0)));
      if (!fd.valid()) return ErrnoStatus(errno, "open", path_);
    } else {
      CAPSTAN_ASSIGN_OR_RETURN(fd, OpenFile(folder, O_RDONLY | O_DIRECTORY));
    }
    CAPSTAN_ASSIGN_OR_RETURN(const auto entries, ReadDirectory(std::move(fd), folder));
    for (const auto& [name, type] : entries) {
      std::string entry = Join(folder, name);
      if (type == DT_DIR) {
        pending.push_back(std::move(entry));
      } else if (type == DT_REG) {
        files.push_back(std::move(entry));
      } else {
        const std::string shown = absl::CHexEscape(entry);
        return status::Error(
            absl::StatusCode::kInvalidArgument, "NOT_A_REGULAR_FILE",
            absl::StrCat("'", shown, "' is neither a regular file nor a folder; remove it"),
            {{"path", shown}});
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<SafeRoot> SafeRoot::Descend(absl::string_view path) const {
  CAPSTAN_ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_DIRECTORY));
  return SafeRoot(std::move(fd), absl::StrCat(path_, "/", path));
}

absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write", path);
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAll(int fd, size_t limit, absl::string_view path) {
  std::string bytes;
  char buffer[65536];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read", path);
    }
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(n));
    if (bytes.size() > limit) {
      return status::Error(absl::StatusCode::kOutOfRange, "FILE_TOO_LARGE",
                           absl::StrCat("'", path, "' has more than ", limit, " bytes"));
    }
  }
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes, mode_t mode) {
  const auto [folder, name] = SplitParent(path);
  const std::string directory = folder.empty() ? "/" : folder;
  UniqueFd dir(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid()) return ErrnoStatus(errno, "open", directory);
  const std::string temporary = absl::StrCat(".", name, ".", ::getpid(), ".tmp");
  UniqueFd fd(
      ::openat(dir.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoStatus(errno, "create", path);
  absl::Status written = WriteAll(fd.get(), bytes, path);
  if (written.ok() && ::fsync(fd.get()) != 0) written = ErrnoStatus(errno, "fsync", path);
  if (written.ok() && ::renameat(dir.get(), temporary.c_str(), dir.get(), name.c_str()) != 0) {
    written = ErrnoStatus(errno, "rename", path);
  }
  if (!written.ok()) {
    ::unlinkat(dir.get(), temporary.c_str(), 0);
    return written;
  }
  if (::fsync(dir.get()) != 0) return ErrnoStatus(errno, "fsync", directory);
  return absl::OkStatus();
}

}  // namespace capstan
