#include "libs/cgroup/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/cgroup/mounts.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::cgroup {
namespace {

// Files of cgroupfs are small, but cgroup.procs may list very many processes.
constexpr size_t kFileLimit = 16 << 20;
// Shares below 2 are refused by v1; v2 weights reach from 1 to 10,000.
constexpr int64_t kMinShares = 2;
constexpr int64_t kMaxShares = 262144;
// A fork bomb is frozen first, so a few rounds see everything; the bound is against endless loops.
constexpr int kFreezePolls = 1000;

absl::StatusOr<std::string> Read(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return ReadAll(fd.get(), kFileLimit, path);
}

absl::Status Write(const std::string& path, absl::string_view value) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  // One write(2): the kernel takes a value whole.
  if (write(fd.get(), value.data(), value.size()) < 0) return ErrnoStatus(errno, "write", path);
  return absl::OkStatus();
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

bool MakeDirectory(const std::string& path) {
  return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
}

bool Has(const std::vector<std::string>& words, absl::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool HasWord(const std::string& path, absl::string_view word) {
  const absl::StatusOr<std::string> text = Read(path);
  if (!text.ok()) return false;
  return Has(absl::StrSplit(*text, absl::ByAnyChar(" \n"), absl::SkipEmpty()), word);
}

std::vector<std::string> Subdirectories(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (entry->d_type == DT_DIR) names.push_back(name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

// Removes a group and, bottom up, those a Task has made below it.
absl::Status RemoveGroup(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  for (const std::string& name : Subdirectories(path)) {
    CAPSTAN_RETURN_IF_ERROR(RemoveGroup(absl::StrCat(path, "/", name)));
  }
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  if (errno == EBUSY) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "CGROUP_NOT_EMPTY",
                         absl::StrCat(path, " still holds a process"), {{"path", path}});
  }
  return ErrnoStatus(errno, "rmdir", path);
}

// Pids in the group and below.
absl::StatusOr<std::vector<pid_t>> Processes(const std::string& path) {
  const absl::StatusOr<std::string> text = Read(absl::StrCat(path, "/cgroup.procs"));
  if (!text.ok()) {
    // ENODEV: removed between open and read.
    if (!Exists(path)) return std::vector<pid_t>();
    return text.status();
  }
  std::vector<pid_t> pids;
  for (absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(line, &pid)) pids.push_back(pid);
  }
  for (const std::string& name : Subdirectories(path)) {
    CAPSTAN_ASSIGN_OR_RETURN(std::vector<pid_t> below, Processes(absl::StrCat(path, "/", name)));
    pids.insert(pids.end(), below.begin(), below.end());
  }
  return pids;
}

int64_t Counter(const std::string& path, absl::string_view name) {
  const absl::StatusOr<std::string> text = Read(path);
  if (!text.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(line, ' ');
    int64_t value = 0;
    if (pair.first == name && absl::SimpleAtoi(pair.second, &value)) return value;
  }
  return 0;
}

int64_t Shares(int64_t cpu_millis) {
  return std::clamp(cpu_millis * 1024 / 1000, kMinShares, kMaxShares);
}

// The kernel's own mapping of shares to weights.
int64_t Weight(int64_t cpu_millis) {
  return 1 + (Shares(cpu_millis) - kMinShares) * 9999 / (kMaxShares - kMinShares);
}

absl::Status LimitV2(const std::string& path, const Limits& limits) {
  if (limits.cpu_millis > 0) {
    CAPSTAN_RETURN_IF_ERROR(
        Write(absl::StrCat(path, "/cpu.weight"), absl::StrCat(Weight(limits.cpu_millis))));
  }
  if (limits.memory_bytes > 0) {
    CAPSTAN_RETURN_IF_ERROR(
        Write(absl::StrCat(path, "/memory.max"), absl::StrCat(limits.memory_bytes)));
    // Absent on a kernel without swap accounting.
    const std::string swap = absl::StrCat(path, "/memory.swap.max");
    if (Exists(swap)) CAPSTAN_RETURN_IF_ERROR(Write(swap, "0"));
  }
  return absl::OkStatus();
}

absl::Status LimitMemoryV1(const std::string& path, int64_t bytes) {
  if (bytes <= 0) return absl::OkStatus();
  const std::string memory = absl::StrCat(path, "/memory.limit_in_bytes");
  const std::string with_swap = absl::StrCat(path, "/memory.memsw.limit_in_bytes");
  // The limit with swap must never be the smaller one, so the order depends on the direction.
  absl::Status first = Write(memory, absl::StrCat(bytes));
  if (Exists(with_swap)) {
    CAPSTAN_RETURN_IF_ERROR(Write(with_swap, absl::StrCat(bytes)));
    if (!first.ok()) return Write(memory, absl::StrCat(bytes));
  }
  return first;
}

}  // namespace

absl::StatusOr<Tree> Tree::Open(absl::string_view name, const std::string& mountinfo) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, Read(mountinfo));
  Tree tree;
  std::string freezer;
  for (const Mount& mount : ParseMounts(text)) {
    const std::string path = absl::StrCat(mount.path, "/", name);
    if (mount.v2) {
      if (!tree.v2_.empty() || !MakeDirectory(path)) continue;
      if (!Exists(absl::StrCat(path, "/cgroup.kill"))) {
        rmdir(path.c_str());
        continue;
      }
      tree.v2_ = path;
      // Controllers that a v1 hierarchy holds are not listed here; then v1 limits.
      const std::string available = absl::StrCat(mount.path, "/cgroup.controllers");
      tree.v2_limits_ =
          HasWord(available, "cpu") && HasWord(available, "memory") &&
          Write(absl::StrCat(mount.path, "/cgroup.subtree_control"), "+cpu +memory").ok() &&
          Write(absl::StrCat(path, "/cgroup.subtree_control"), "+cpu +memory").ok();
      continue;
    }
    if (Has(mount.controllers, "freezer") && freezer.empty()) freezer = path;
    if (Has(mount.controllers, "cpu") && tree.v1_cpu_.empty() && MakeDirectory(path)) {
      tree.v1_cpu_ = path;
    }
    if (Has(mount.controllers, "memory") && tree.v1_memory_.empty() && MakeDirectory(path)) {
      tree.v1_memory_ = path;
    }
  }
  if (tree.v2_.empty() && !freezer.empty() && MakeDirectory(freezer)) tree.v1_freezer_ = freezer;
  return tree;
}

bool Tree::limits() const { return v2_limits_ || (!v1_cpu_.empty() && !v1_memory_.empty()); }

absl::StatusOr<Paths> Tree::Make(const std::string& leaf, const Limits& limits) const {
  const auto make = [&leaf](const std::string& parent, std::string* path) -> absl::Status {
    if (parent.empty()) return absl::OkStatus();
    const std::string made = absl::StrCat(parent, "/", leaf);
    if (!MakeDirectory(made)) return ErrnoStatus(errno, "mkdir", made);
    *path = made;
    return absl::OkStatus();
  };
  Paths paths;
  CAPSTAN_RETURN_IF_ERROR(make(v2_, &paths.v2));
  CAPSTAN_RETURN_IF_ERROR(make(v1_freezer_, &paths.v1_freezer));
  CAPSTAN_RETURN_IF_ERROR(make(v1_cpu_, &paths.v1_cpu));
  CAPSTAN_RETURN_IF_ERROR(make(v1_memory_, &paths.v1_memory));
  if (v2_limits_) CAPSTAN_RETURN_IF_ERROR(LimitV2(paths.v2, limits));
  if (!paths.v1_cpu.empty() && limits.cpu_millis > 0) {
    CAPSTAN_RETURN_IF_ERROR(
        Write(absl::StrCat(paths.v1_cpu, "/cpu.shares"), absl::StrCat(Shares(limits.cpu_millis))));
  }
  if (!paths.v1_memory.empty()) {
    CAPSTAN_RETURN_IF_ERROR(LimitMemoryV1(paths.v1_memory, limits.memory_bytes));
  }
  return paths;
}

Paths Tree::Find(const std::string& leaf) const {
  const auto find = [&leaf](const std::string& parent) {
    const std::string path = absl::StrCat(parent, "/", leaf);
    return !parent.empty() && Exists(path) ? path : std::string();
  };
  Paths paths;
  paths.v2 = find(v2_);
  paths.v1_freezer = find(v1_freezer_);
  paths.v1_cpu = find(v1_cpu_);
  paths.v1_memory = find(v1_memory_);
  return paths;
}

std::vector<std::string> Tree::List() const {
  std::set<std::string> leaves;
  for (const std::string* root : {&v2_, &v1_freezer_, &v1_cpu_, &v1_memory_}) {
    if (root->empty()) continue;
    for (std::string& name : Subdirectories(*root)) leaves.insert(std::move(name));
  }
  return std::vector<std::string>(leaves.begin(), leaves.end());
}

absl::Status Tree::Remove(const std::string& leaf) const {
  const Paths paths = Find(leaf);
  // The fencing folder goes first: if a process is left, nothing is removed.
  CAPSTAN_RETURN_IF_ERROR(RemoveGroup(paths.v2));
  CAPSTAN_RETURN_IF_ERROR(RemoveGroup(paths.v1_freezer));
  CAPSTAN_RETURN_IF_ERROR(RemoveGroup(paths.v1_cpu));
  return RemoveGroup(paths.v1_memory);
}

absl::Status Tree::RemoveTree() const {
  for (const std::string* root : {&v2_, &v1_freezer_, &v1_cpu_, &v1_memory_}) {
    if (root->empty() || rmdir(root->c_str()) == 0 || errno == ENOENT) continue;
    return ErrnoStatus(errno, "rmdir", *root);
  }
  return absl::OkStatus();
}

absl::Status Join(const Paths& paths, pid_t pid) {
  for (const std::string* path : {&paths.v2, &paths.v1_freezer, &paths.v1_cpu, &paths.v1_memory}) {
    if (path->empty()) continue;
    CAPSTAN_RETURN_IF_ERROR(Write(absl::StrCat(*path, "/cgroup.procs"), absl::StrCat(pid)));
  }
  return absl::OkStatus();
}

bool IsEmpty(const Paths& paths) {
  if (!paths.v2.empty()) {
    const absl::StatusOr<std::string> events = Read(absl::StrCat(paths.v2, "/cgroup.events"));
    if (!events.ok()) return !Exists(paths.v2);
    return !absl::StrContains(*events, "populated 1");
  }
  for (const std::string* path : {&paths.v1_freezer, &paths.v1_cpu, &paths.v1_memory}) {
    if (path->empty()) continue;
    const absl::StatusOr<std::vector<pid_t>> pids = Processes(*path);
    if (!pids.ok() || !pids->empty()) return false;
  }
  return true;
}

absl::Status Kill(const Paths& paths) {
  if (!paths.v2.empty()) {
    const absl::Status killed = Write(absl::StrCat(paths.v2, "/cgroup.kill"), "1");
    return Exists(paths.v2) ? killed : absl::OkStatus();
  }
  if (paths.v1_freezer.empty() || !Exists(paths.v1_freezer)) return absl::OkStatus();
  const std::string state = absl::StrCat(paths.v1_freezer, "/freezer.state");
  // Frozen, nothing can fork between the listing and the signals.
  CAPSTAN_RETURN_IF_ERROR(Write(state, "FROZEN"));
  for (int i = 0; i < kFreezePolls; ++i) {
    const absl::StatusOr<std::string> now = Read(state);
    if (!now.ok() || absl::StartsWith(*now, "FROZEN")) break;
  }
  const absl::StatusOr<std::vector<pid_t>> pids = Processes(paths.v1_freezer);
  if (pids.ok()) {
    for (const pid_t pid : *pids) {
      // 0 stands for a process that our pid namespace cannot see; to kill() it is our own group.
      if (pid > 0) kill(pid, SIGKILL);
    }
  }
  const absl::Status thawed = Write(state, "THAWED");
  return pids.ok() ? thawed : pids.status();
}

int64_t OutOfMemoryKills(const Paths& paths) {
  if (!paths.v1_memory.empty()) {
    return Counter(absl::StrCat(paths.v1_memory, "/memory.oom_control"), "oom_kill");
  }
  if (paths.v2.empty()) return 0;
  return Counter(absl::StrCat(paths.v2, "/memory.events"), "oom_kill");
}

UniqueFd OpenPopulatedEvents(const Paths& paths) {
  if (paths.v2.empty()) return UniqueFd();
  return UniqueFd(open(absl::StrCat(paths.v2, "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace capstan::cgroup
