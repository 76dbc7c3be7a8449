#include "services/node_agent/shim/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/shim/gpu_files.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;

// A copy of a mount and those below it, attached nowhere yet.
absl::StatusOr<UniqueFd> CloneTree(const std::string& path, bool read_only, bool devices = false) {
  UniqueFd tree(
      open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  if (!tree.valid()) return ErrnoStatus(errno, "open_tree", path);
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_NOSUID;
  if (read_only) attributes.attr_set |= MOUNT_ATTR_RDONLY;
  if (!devices) attributes.attr_set |= MOUNT_ATTR_NODEV;
  if (mount_setattr(tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) !=
      0) {
    return ErrnoStatus(errno, "mount_setattr", path);
  }
  return tree;
}

// A copy of the mount of one device file, if it is the one that is meant; invalid if it is not there
// and need not be. What was copied is what is looked at: the path may lead elsewhere by then.
absl::StatusOr<UniqueFd> CloneGpuFile(const GpuFile& file, int64_t uid) {
  UniqueFd node(open_tree(AT_FDCWD, file.path.c_str(),
                          OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW));
  if (!node.valid() && errno == ENOENT) {
    if (file.optional) return node;
    return GpuFileIsMissing(file.path);
  }
  if (!node.valid()) return ErrnoStatus(errno, "open_tree", file.path);
  struct stat found;
  if (fstat(node.get(), &found) != 0) return ErrnoStatus(errno, "stat", file.path);
  CAPSTAN_RETURN_IF_ERROR(CheckGpuFile(file, found, uid));
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
  if (mount_setattr(node.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0) {
    return ErrnoStatus(errno, "mount_setattr", file.path);
  }
  return node;
}

std::string ReadProcDevices() {
  std::ifstream file("/proc/devices");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

absl::Status Attach(const UniqueFd& tree, const UniqueFd& target, absl::string_view name) {
  if (move_mount(tree.get(), "", target.get(), "",
                 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return ErrnoStatus(errno, "move_mount", name);
  }
  return absl::OkStatus();
}

absl::Status MountFresh(const char* type, const std::string& target, unsigned long flags,
                        const char* options) {
  if (mount(type, target.c_str(), type, flags | MS_NOSUID, options) != 0) {
    return ErrnoStatus(errno, absl::StrCat("mount ", type), target);
  }
  return absl::OkStatus();
}

absl::Status MakeReadOnly(const UniqueFd& mount) {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  if (mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0) {
    return ErrnoStatus(errno, "make read-only", "");
  }
  return absl::OkStatus();
}

// Opens a path as it would be seen with `root` as the root folder, so that a link of the machine's
// does not lead out of it.
UniqueFd OpenInRoot(const UniqueFd& root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(
      static_cast<int>(syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
}

// The path of an open folder, free of links.
absl::StatusOr<std::string> PathOf(const UniqueFd& fd) {
  char path[PATH_MAX];
  const ssize_t size =
      readlink(absl::StrCat("/proc/self/fd/", fd.get()).c_str(), path, sizeof path);
  if (size <= 0 || size == static_cast<ssize_t>(sizeof path)) {
    return ErrnoStatus(errno, "readlink", "");
  }
  return std::string(path, static_cast<size_t>(size));
}

bool IsDirectory(const UniqueFd& fd) {
  struct stat st;
  return fstat(fd.get(), &st) == 0 && S_ISDIR(st.st_mode);
}

class RootBuilder {
 public:
  RootBuilder(const ShimSpec& spec, const std::string& root) : spec_(spec), root_(root) {}

  absl::Status Build() {
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return ErrnoStatus(errno, "make mounts private", "/");
    }
    // Everything is copied before anything is covered: sources may lie below /tmp or hidden
    // folders.
    CAPSTAN_RETURN_IF_ERROR(CloneSources());
    CAPSTAN_RETURN_IF_ERROR(MountFresh("tmpfs", root_, MS_NODEV, "mode=0755,size=1m"));
    root_fd_ = UniqueFd(open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_fd_.valid()) return ErrnoStatus(errno, "open", root_);
    CAPSTAN_RETURN_IF_ERROR(AttachMachine());
    CAPSTAN_RETURN_IF_ERROR(MountSystem());
    CAPSTAN_RETURN_IF_ERROR(Hide());
    for (int i = 0; i < spec_.mounts_size(); ++i) {
      const ShimSpec::Mount& mount = spec_.mounts(i);
      CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd target,
                               OpenTarget(mount.target(), IsDirectory(mounts_[i])));
      CAPSTAN_RETURN_IF_ERROR(Attach(mounts_[i], target, mount.target()));
    }
    for (const UniqueFd& mount : read_only_later_) CAPSTAN_RETURN_IF_ERROR(MakeReadOnly(mount));
    return Enter();
  }

 private:
  struct Entry {
    std::string name;
    // Of a link; else `tree` is set.
    std::string link;
    UniqueFd tree;
  };

  std::string In(absl::string_view path) const { return absl::StrCat(root_, path); }

  // Mounts an empty folder that becomes read-only once everything below it has been made. By its
  // descriptor, since another mount may come to cover its path.
  absl::Status MountEmpty(const std::string& path, unsigned long flags) {
    CAPSTAN_RETURN_IF_ERROR(MountFresh("tmpfs", path, flags, "mode=0755,size=1m"));
    UniqueFd mounted(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!mounted.valid()) return ErrnoStatus(errno, "open", path);
    read_only_later_.push_back(std::move(mounted));
    return absl::OkStatus();
  }

  // True if the Task's uid may not pass the folder: then it can see nothing below it either.
  bool IsShut(const UniqueFd& folder) const {
    struct stat st;
    return spec_.unix_uid() > 0 && fstat(folder.get(), &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid != static_cast<uid_t>(spec_.unix_uid()) && (st.st_mode & S_IXOTH) == 0;
  }

  // The target of a mount, made where it is absent: a folder, or an empty file. A folder on the way
  // that the Task may not pass (root's home, where the platform's data may lie) is covered by an
  // empty one.
  absl::StatusOr<UniqueFd> OpenTarget(const std::string& path, bool directory) {
    const std::vector<std::string> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
    if (parts.empty()) return absl::InvalidArgumentError("a mount's target cannot be the root");
    std::string done;
    UniqueFd parent = OpenInRoot(root_fd_, "/");
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == "." || parts[i] == "..") {
        return absl::InvalidArgumentError(absl::StrCat("mount target ", path, ": `..` in it"));
      }
      absl::StrAppend(&done, "/", parts[i]);
      const bool last = i + 1 == parts.size();
      UniqueFd next = OpenInRoot(root_fd_, done);
      if (next.valid() && !last && IsShut(next)) {
        CAPSTAN_ASSIGN_OR_RETURN(const std::string shut, PathOf(next));
        CAPSTAN_RETURN_IF_ERROR(MountEmpty(shut, MS_NODEV));
        next = OpenInRoot(root_fd_, done);
      }
      if (!next.valid()) {
        const int made = directory || !last
                             ? mkdirat(parent.get(), parts[i].c_str(), 0755)
                             : mknodat(parent.get(), parts[i].c_str(), S_IFREG | 0644, 0);
        if (made != 0) return ErrnoStatus(errno, "make mount target", done);
        next = OpenInRoot(root_fd_, done);
        if (!next.valid()) return ErrnoStatus(errno, "open mount target", done);
      }
      parent = std::move(next);
    }
    return parent;
  }

  absl::Status CloneSources() {
    for (const ShimSpec::Mount& mount : spec_.mounts()) {
      CAPSTAN_ASSIGN_OR_RETURN(UniqueFd tree, CloneTree(mount.source(), mount.read_only()));
      mounts_.push_back(std::move(tree));
    }
    static constexpr const char* kDevices[] = {"null", "zero", "full", "random", "urandom"};
    for (const char* name : kDevices) {
      CAPSTAN_ASSIGN_OR_RETURN(UniqueFd tree, CloneTree(absl::StrCat("/dev/", name), false, true));
      devices_.emplace_back(name, std::move(tree));
    }
    CAPSTAN_RETURN_IF_ERROR(CloneGpuFiles());
    // Names are resolved by way of /run on many machines.
    char* resolved = realpath("/etc/resolv.conf", nullptr);
    if (resolved != nullptr && absl::StartsWith(resolved, "/run/")) {
      resolver_path_ = resolved;
      CAPSTAN_ASSIGN_OR_RETURN(resolver_, CloneTree(resolver_path_, true));
    }
    free(resolved);
    return CloneMachine();
  }

  // Those of other Tasks' GPUs are not copied, and can't be made in here: the Task has no right to
  // make device files, and no mount that lets them be opened.
  absl::Status CloneGpuFiles() {
    if (!spec_.has_gpus()) return absl::OkStatus();
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<GpuFile> files,
                             GpuFilesOf(spec_.gpus(), ReadProcDevices()));
    for (const GpuFile& file : files) {
      CAPSTAN_ASSIGN_OR_RETURN(UniqueFd node, CloneGpuFile(file, spec_.unix_uid()));
      if (!node.valid()) continue;
      devices_.emplace_back(std::string(absl::StripPrefix(file.path, "/dev/")), std::move(node));
    }
    return absl::OkStatus();
  }

  absl::Status CloneMachine() {
    DIR* dir = opendir("/");
    if (dir == nullptr) return ErrnoStatus(errno, "opendir", "/");
    std::vector<std::string> names;
    while (const dirent* entry = readdir(dir)) names.push_back(entry->d_name);
    closedir(dir);
    for (const std::string& name : names) {
      if (name == "." || name == ".." || name == "proc" || name == "dev" || name == "run" ||
          name == "tmp") {
        continue;
      }
      const std::string path = absl::StrCat("/", name);
      struct stat st;
      if (lstat(path.c_str(), &st) != 0) continue;
      Entry entry;
      entry.name = name;
      if (S_ISLNK(st.st_mode)) {
        char link[PATH_MAX];
        const ssize_t size = readlink(path.c_str(), link, sizeof link);
        if (size <= 0) continue;
        entry.link.assign(link, static_cast<size_t>(size));
      } else if (S_ISDIR(st.st_mode)) {
        CAPSTAN_ASSIGN_OR_RETURN(entry.tree, CloneTree(path, true));
      } else {
        continue;
      }
      machine_.push_back(std::move(entry));
    }
    return absl::OkStatus();
  }

  absl::Status AttachMachine() {
    for (const Entry& entry : machine_) {
      const std::string path = absl::StrCat("/", entry.name);
      if (!entry.tree.valid()) {
        if (symlink(entry.link.c_str(), In(path).c_str()) != 0) {
          return ErrnoStatus(errno, "symlink", path);
        }
        continue;
      }
      CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd target, OpenTarget(path, true));
      CAPSTAN_RETURN_IF_ERROR(Attach(entry.tree, target, path));
    }
    return absl::OkStatus();
  }

  absl::Status MakeFolder(absl::string_view path, mode_t mode) {
    if (mkdir(In(path).c_str(), mode) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "mkdir", path);
    }
    return absl::OkStatus();
  }

  absl::Status MountSystem() {
    CAPSTAN_RETURN_IF_ERROR(MakeFolder("/proc", 0555));
    CAPSTAN_RETURN_IF_ERROR(MountFresh("proc", In("/proc"), MS_NODEV | MS_NOEXEC, nullptr));
    CAPSTAN_RETURN_IF_ERROR(MakeFolder("/tmp", 0755));
    CAPSTAN_RETURN_IF_ERROR(MountFresh("tmpfs", In("/tmp"), MS_NODEV, "mode=1777"));
    if (access(In("/var/tmp").c_str(), F_OK) == 0) {
      CAPSTAN_RETURN_IF_ERROR(MountFresh("tmpfs", In("/var/tmp"), MS_NODEV, "mode=1777"));
    }
    CAPSTAN_RETURN_IF_ERROR(MakeFolder("/run", 0755));
    CAPSTAN_RETURN_IF_ERROR(MountEmpty(In("/run"), MS_NODEV));
    if (resolver_.valid()) {
      CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd target, OpenTarget(resolver_path_, false));
      CAPSTAN_RETURN_IF_ERROR(Attach(resolver_, target, resolver_path_));
    }
    // Other Tasks' names are to be read there.
    if (access(In("/sys/fs/cgroup").c_str(), F_OK) == 0) {
      CAPSTAN_RETURN_IF_ERROR(
          MountFresh("tmpfs", In("/sys/fs/cgroup"), MS_NODEV | MS_RDONLY, "mode=0555,size=4k"));
    }
    return MountDevices();
  }

  absl::Status MountDevices() {
    CAPSTAN_RETURN_IF_ERROR(MakeFolder("/dev", 0755));
    CAPSTAN_RETURN_IF_ERROR(MountEmpty(In("/dev"), MS_NOEXEC));
    for (const auto& [name, tree] : devices_) {
      const std::string path = absl::StrCat("/dev/", name);
      CAPSTAN_ASSIGN_OR_RETURN(const UniqueFd target, OpenTarget(path, false));
      CAPSTAN_RETURN_IF_ERROR(Attach(tree, target, path));
    }
    static constexpr std::pair<const char*, const char*> kLinks[] = {
        {"/proc/self/fd", "/dev/fd"},
        {"/proc/self/fd/0", "/dev/stdin"},
        {"/proc/self/fd/1", "/dev/stdout"},
        {"/proc/self/fd/2", "/dev/stderr"}};
    for (const auto& [to, from] : kLinks) {
      if (symlink(to, In(from).c_str()) != 0) return ErrnoStatus(errno, "symlink", from);
    }
    CAPSTAN_RETURN_IF_ERROR(MakeFolder("/dev/shm", 0755));
    CAPSTAN_RETURN_IF_ERROR(MountFresh("tmpfs", In("/dev/shm"), MS_NODEV | MS_NOEXEC, "mode=1777"));
    return absl::OkStatus();
  }

  absl::Status Hide() {
    for (const std::string& path : spec_.hidden_paths()) {
      const UniqueFd target = OpenInRoot(root_fd_, path);
      // Not to be seen already, for instance below /tmp.
      if (!target.valid()) continue;
      CAPSTAN_ASSIGN_OR_RETURN(const std::string real, PathOf(target));
      if (IsDirectory(target)) {
        CAPSTAN_RETURN_IF_ERROR(MountEmpty(real, MS_NODEV));
      } else if (mount("/dev/null", real.c_str(), nullptr, MS_BIND, nullptr) != 0) {
        return ErrnoStatus(errno, "hide", path);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Enter() {
    if (chdir(root_.c_str()) != 0) return ErrnoStatus(errno, "chdir", root_);
    CAPSTAN_RETURN_IF_ERROR(MakeReadOnly(root_fd_));
    // With both paths alike the old root comes to lie on the new one, from where it is taken away.
    if (syscall(SYS_pivot_root, ".", ".") != 0) return ErrnoStatus(errno, "pivot_root", root_);
    if (umount2(".", MNT_DETACH) != 0) return ErrnoStatus(errno, "detach old root", root_);
    if (chdir("/") != 0) return ErrnoStatus(errno, "chdir", "/");
    return absl::OkStatus();
  }

  const ShimSpec& spec_;
  const std::string root_;
  UniqueFd root_fd_;
  std::vector<UniqueFd> mounts_;
  std::vector<std::pair<std::string, UniqueFd>> devices_;
  std::vector<Entry> machine_;
  std::string resolver_path_;
  UniqueFd resolver_;
  std::vector<UniqueFd> read_only_later_;
};

absl::Status ClearCapabilities() {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    // EPERM where the process has no right over its bounding set; no_new_privs then stands alone.
    if (prctl(PR_CAPBSET_DROP, capability) != 0 && errno != EPERM) {
      return ErrnoStatus(errno, "drop from bounding set", absl::StrCat(capability));
    }
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  return absl::OkStatus();
}

}  // namespace

absl::Status EnterPrivateRoot(const ShimSpec& spec, const std::string& root) {
  return RootBuilder(spec, root).Build();
}

absl::Status DropRights(const ShimSpec& spec) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // The platform's session keyring is not the Task's.
  syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr, 0, 0, 0);
  CAPSTAN_RETURN_IF_ERROR(ClearCapabilities());
  if (spec.unix_uid() > 0) {
    const uid_t uid = static_cast<uid_t>(spec.unix_uid());
    if (setgroups(0, nullptr) != 0) return ErrnoStatus(errno, "setgroups", "");
    if (setresgid(uid, uid, uid) != 0) return ErrnoStatus(errno, "setresgid", absl::StrCat(uid));
    if (setresuid(uid, uid, uid) != 0) return ErrnoStatus(errno, "setresuid", absl::StrCat(uid));
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  if (syscall(SYS_capset, &header, none) != 0) return ErrnoStatus(errno, "capset", "");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return ErrnoStatus(errno, "no_new_privs", "");
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return ErrnoStatus(errno, "set undumpable", "");
  return absl::OkStatus();
}

}  // namespace capstan::node_agent
