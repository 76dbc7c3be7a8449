#include "services/node_agent/adapters/identity_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/safe_path/folder_names.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {
namespace {

constexpr char kNextLink[] = "next";

// Where the link points; empty if there is none.
std::string CurrentSet(int folder) {
  char target[NAME_MAX + 1];
  const ssize_t size = readlinkat(folder, kCurrentIdentity, target, sizeof target);
  return size <= 0 ? "" : std::string(target, static_cast<size_t>(size));
}

// Removes a set, or a link.
absl::Status RemoveEntry(int folder, const std::string& path, const std::string& name) {
  if (unlinkat(folder, name.c_str(), 0) == 0) return absl::OkStatus();
  if (errno != EISDIR && errno != EPERM) return ErrnoStatus(errno, "unlink", name);
  for (const std::string& file : FolderNames(absl::StrCat(path, "/", name))) {
    if (unlinkat(folder, absl::StrCat(name, "/", file).c_str(), 0) != 0) {
      return ErrnoStatus(errno, "unlink", file);
    }
  }
  if (unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0) return ErrnoStatus(errno, "rmdir", name);
  return absl::OkStatus();
}

absl::Status WriteFile(int set, const IdentityFile& file, int64_t unix_uid) {
  // Nobody else ever has a right to it, not even before it has its owner.
  const mode_t mode = file.secret ? 0400 : 0444;
  UniqueFd fd(
      openat(set, file.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400));
  if (!fd.valid()) return ErrnoStatus(errno, "create", file.name);
  if (file.secret && unix_uid > 0) {
    const auto uid = static_cast<uid_t>(unix_uid);
    if (fchown(fd.get(), uid, uid) != 0) return ErrnoStatus(errno, "chown", file.name);
  }
  CAPSTAN_RETURN_IF_ERROR(WriteAll(fd.get(), file.bytes, file.name));
  // Whatever the umask is.
  if (fchmod(fd.get(), mode) != 0) return ErrnoStatus(errno, "chmod", file.name);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplaceIdentity(const std::string& folder, const std::string& name,
                             const std::vector<IdentityFile>& files, int64_t unix_uid) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", folder);
  const std::string before = CurrentSet(fd.get());
  for (const std::string& entry : FolderNames(folder)) {
    if (entry == before || entry == kCurrentIdentity) continue;
    CAPSTAN_RETURN_IF_ERROR(RemoveEntry(fd.get(), folder, entry));
  }
  if (mkdirat(fd.get(), name.c_str(), 0755) != 0) return ErrnoStatus(errno, "mkdir", name);
  UniqueFd set(openat(fd.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!set.valid()) return ErrnoStatus(errno, "open", name);
  if (fchmod(set.get(), 0755) != 0) return ErrnoStatus(errno, "chmod", name);
  for (const IdentityFile& file : files) {
    CAPSTAN_RETURN_IF_ERROR(WriteFile(set.get(), file, unix_uid));
  }
  CrashPoint(crash::kAgentIdentityWritten);
  if (symlinkat(name.c_str(), fd.get(), kNextLink) != 0) return ErrnoStatus(errno, "link", name);
  if (renameat(fd.get(), kNextLink, fd.get(), kCurrentIdentity) != 0) {
    return ErrnoStatus(errno, "rename", kCurrentIdentity);
  }
  CrashPoint(crash::kAgentIdentityLinked);
  return absl::OkStatus();
}

}  // namespace capstan::node_agent
