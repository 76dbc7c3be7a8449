#include "services/node_agent/adapters/task_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/safe_path/folder_names.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/shim/process_identity.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimStatus;
using capstan::type::v1::TaskKey;

constexpr size_t kMaxWord = 64;
constexpr size_t kStatusLimit = 1 << 20;

bool IsWord(absl::string_view word) {
  return !word.empty() && word.size() <= kMaxWord && word.front() != '-' &&
         std::all_of(word.begin(), word.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-'; });
}

absl::Status MakeFolder(const std::string& path, mode_t mode, int64_t owner, int64_t group) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return ErrnoStatus(errno, "mkdir", path);
  // Whatever the umask is.
  if (chmod(path.c_str(), mode) != 0) return ErrnoStatus(errno, "chmod", path);
  if (group > 0 && chown(path.c_str(), static_cast<uid_t>(owner), static_cast<gid_t>(group)) != 0) {
    return ErrnoStatus(errno, "chown", path);
  }
  return absl::OkStatus();
}

// Renames to a free number below the folder.
absl::Status MoveAside(int from_fd, const std::string& from, int to_fd) {
  // Goes on where the last one stood, so that a wide tree costs no search.
  static std::atomic<int64_t> next{0};
  while (true) {
    const int64_t n = next.fetch_add(1);
    if (renameat2(from_fd, from.c_str(), to_fd, absl::StrCat(n).c_str(), RENAME_NOREPLACE) == 0) {
      return absl::OkStatus();
    }
    if (errno != EEXIST) return ErrnoStatus(errno, "rename", from);
  }
}

// Without root the owner of a folder may have shut it. What comes next fails where this has.
void OpenToOwner(int fd, const std::string& name) {
  [[maybe_unused]] const int opened = fchmodat(fd, name.c_str(), 0700, 0);
}

// Removes an entry of the trash whose own folders go to the trash first.
absl::Status RemoveOne(int trash_fd, const std::string& name, const std::string& trash) {
  if (unlinkat(trash_fd, name.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
  OpenToOwner(trash_fd, name);
  UniqueFd fd(openat(trash_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", absl::StrCat(trash, "/", name));
  for (const std::string& entry : FolderNames(absl::StrCat(trash, "/", name))) {
    if (unlinkat(fd.get(), entry.c_str(), 0) == 0) continue;
    OpenToOwner(fd.get(), entry);
    CAPSTAN_RETURN_IF_ERROR(MoveAside(fd.get(), entry, trash_fd));
  }
  if (unlinkat(trash_fd, name.c_str(), AT_REMOVEDIR) != 0) {
    return ErrnoStatus(errno, "rmdir", absl::StrCat(trash, "/", name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> TaskLeaf(const TaskKey& key) {
  if (!IsWord(key.job_uid()) || !IsWord(key.group()) || key.generation() < 0 || key.index() < 0) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_TASK_KEY",
                         "A Task's key needs words of letters, digits and `-`.");
  }
  return absl::StrCat(key.job_uid(), ".", key.generation(), ".", key.group(), "-", key.index());
}

absl::optional<TaskKey> ParseTaskLeaf(absl::string_view leaf) {
  const std::vector<absl::string_view> parts = absl::StrSplit(leaf, '.');
  if (parts.size() != 3) return absl::nullopt;
  const size_t dash = parts[2].rfind('-');
  TaskKey key;
  int64_t generation = 0;
  int32_t index = 0;
  if (dash == absl::string_view::npos || !absl::SimpleAtoi(parts[1], &generation) ||
      !absl::SimpleAtoi(parts[2].substr(dash + 1), &index)) {
    return absl::nullopt;
  }
  key.set_job_uid(std::string(parts[0]));
  key.set_generation(generation);
  key.set_group(std::string(parts[2].substr(0, dash)));
  key.set_index(index);
  // Only a name that comes out the same is one of ours.
  const absl::StatusOr<std::string> again = TaskLeaf(key);
  if (!again.ok() || *again != leaf) return absl::nullopt;
  return key;
}

std::string TaskFolder(const std::string& tasks, const TaskKey& key) {
  return absl::StrCat(tasks, "/", key.job_uid(), "/", key.generation(), "/", key.group(), "-",
                      key.index());
}

absl::Status MakeTaskFolder(const std::string& tasks, const TaskKey& key, int64_t unix_uid) {
  const std::string job = absl::StrCat(tasks, "/", key.job_uid());
  const std::string generation = absl::StrCat(job, "/", key.generation());
  const std::string folder = TaskFolder(tasks, key);
  // Passable for Tasks that see the machine's folders as they are, but not to be listed.
  for (const std::string* path : {&tasks, &job, &generation, &folder}) {
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(*path, 0711, 0, 0));
  }
  for (const char* name : {"output", "work", "metrics"}) {
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(absl::StrCat(folder, "/", name), 0700, unix_uid, unix_uid));
  }
  for (const char* name : {"socket", "identity"}) {
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(absl::StrCat(folder, "/", name), 0750, 0, unix_uid));
  }
  for (const char* name : {kLogFolder, kRootFolder}) {
    CAPSTAN_RETURN_IF_ERROR(MakeFolder(absl::StrCat(folder, "/", name), 0700, 0, 0));
  }
  return absl::OkStatus();
}

std::vector<TaskKey> ListTaskFolders(const std::string& tasks) {
  std::vector<TaskKey> keys;
  for (const std::string& job : FolderNames(tasks)) {
    const std::string job_path = absl::StrCat(tasks, "/", job);
    for (const std::string& generation : FolderNames(job_path)) {
      for (const std::string& task : FolderNames(absl::StrCat(job_path, "/", generation))) {
        const absl::optional<TaskKey> key =
            ParseTaskLeaf(absl::StrCat(job, ".", generation, ".", task));
        if (key.has_value()) keys.push_back(*key);
      }
    }
  }
  std::sort(keys.begin(), keys.end(), [](const TaskKey& a, const TaskKey& b) {
    return std::make_tuple(a.job_uid(), a.generation(), a.group(), a.index()) <
           std::make_tuple(b.job_uid(), b.generation(), b.group(), b.index());
  });
  return keys;
}

absl::Status MoveToTrash(const std::string& tasks, const std::string& trash, const TaskKey& key) {
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(trash, 0700, 0, 0));
  UniqueFd trash_fd(open(trash.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!trash_fd.valid()) return ErrnoStatus(errno, "open", trash);
  absl::Status moved = MoveAside(AT_FDCWD, TaskFolder(tasks, key), trash_fd.get());
  if (!moved.ok() && !absl::IsNotFound(moved)) return moved;
  // Not empty while the gang has other Tasks here.
  const std::string job = absl::StrCat(tasks, "/", key.job_uid());
  if (rmdir(absl::StrCat(job, "/", key.generation()).c_str()) == 0) rmdir(job.c_str());
  return absl::OkStatus();
}

absl::Status EmptyTrash(const std::string& trash) {
  UniqueFd trash_fd(open(trash.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!trash_fd.valid()) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "open", trash);
  }
  // Folders within a folder are moved up instead of being descended into: no depth is too deep.
  while (true) {
    const std::vector<std::string> names = FolderNames(trash);
    if (names.empty()) return absl::OkStatus();
    for (const std::string& name : names) {
      CAPSTAN_RETURN_IF_ERROR(RemoveOne(trash_fd.get(), name, trash));
    }
  }
}

absl::optional<ShimStatus> ReadShimStatus(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kStatusFile);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return absl::nullopt;
  const absl::StatusOr<std::string> bytes = ReadAll(fd.get(), kStatusLimit, path);
  ShimStatus status;
  if (!bytes.ok() || !status.ParseFromString(*bytes)) return absl::nullopt;
  return status;
}

bool IsShimLocked(const std::string& folder) {
  UniqueFd fd(open(absl::StrCat(folder, "/", kLockFile).c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid() || flock(fd.get(), LOCK_SH | LOCK_NB) == 0) return false;
  return errno == EWOULDBLOCK;
}

bool MayShimWrite(const std::string& folder) {
  // Locked first: one that records its end in between is not taken for one that never did.
  if (!IsShimLocked(folder)) return false;
  const absl::optional<ShimStatus> status = ReadShimStatus(folder);
  // An end without its time may be told before the last lines are written.
  return !status.has_value() || !status->has_end() || status->end_boottime_ns() == 0;
}

void KillShim(const std::string& folder) {
  const absl::optional<ShimStatus> status = ReadShimStatus(folder);
  if (!status.has_value()) return;
  SignalProcess(OpenProcess(static_cast<pid_t>(status->shim_pid()), status->shim_start_ticks()),
                SIGKILL);
}

}  // namespace capstan::node_agent
