// Linux control groups as Capstan uses them: a folder in each hierarchy for every Task, to weigh
// its cpu, bound its memory, and end everything in it. Works with v2, with v1, and with the hybrid
// of both, where v2 ends Tasks and v1 controllers limit them.
#ifndef CAPSTAN_LIBS_CGROUP_CGROUP_H_
#define CAPSTAN_LIBS_CGROUP_CGROUP_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::cgroup {

// The folders of one group, absolute. What this machine lacks is empty.
struct Paths {
  // v2 folder; has `cgroup.kill`.
  std::string v2;
  // v1 freezer folder; only where there is no usable v2.
  std::string v1_freezer;
  // v1 folders that only limit (cpu, memory).
  std::string v1_cpu;
  std::string v1_memory;

  // True if processes in the group can be ended together.
  bool fences() const { return !v2.empty() || !v1_freezer.empty(); }
};

// 0 means no limit.
struct Limits {
  // Relative weight, in thousandths of a core.
  int64_t cpu_millis = 0;
  // Hard limit on memory and swap together.
  int64_t memory_bytes = 0;
};

// The groups `<hierarchy>/<name>/<leaf>` of this machine. Immutable after Open; thread-safe.
class Tree {
 public:
  // Finds the mounted hierarchies and makes `name` in each that may be written. Never fails for
  // want of a hierarchy: see fences() and limits().
  static absl::StatusOr<Tree> Open(absl::string_view name,
                                   const std::string& mountinfo = "/proc/self/mountinfo");

  // True if a group's processes can be ended together.
  bool fences() const { return !v2_.empty() || !v1_freezer_.empty(); }
  // True if cpu and memory are enforced, both.
  bool limits() const;

  // Makes a group; idempotent, limits are set again. A machine without cgroups gives empty Paths.
  absl::StatusOr<Paths> Make(const std::string& leaf, const Limits& limits) const;
  // The folders of the group that exist.
  Paths Find(const std::string& leaf) const;
  // Every leaf that exists in some hierarchy, sorted.
  std::vector<std::string> List() const;
  // Removes the group and groups made below it. FAILED_PRECONDITION with reason CGROUP_NOT_EMPTY if
  // a process is left. OK if absent.
  absl::Status Remove(const std::string& leaf) const;
  // Removes the tree itself once no group is left.
  absl::Status RemoveTree() const;

 private:
  // Absolute paths of `<hierarchy>/<name>`, empty where missing.
  std::string v2_;
  std::string v1_freezer_;
  std::string v1_cpu_;
  std::string v1_memory_;
  bool v2_limits_ = false;
};

// Puts a process into every folder of the group.
absl::Status Join(const Paths& paths, pid_t pid);

// True if no process, in the group or below, is left. A group that is gone is empty; an error
// reading counts as not empty.
bool IsEmpty(const Paths& paths);

// Sends SIGKILL to every process of the group: `cgroup.kill`, or under v1 freeze, kill, thaw. One
// round: under v1 call again until IsEmpty. OK if the group is gone.
absl::Status Kill(const Paths& paths);

// Processes of the group that the kernel killed for want of memory; 0 if unknown.
int64_t OutOfMemoryKills(const Paths& paths);

// A descriptor that polls POLLPRI when the group becomes empty or populated. Invalid under v1,
// which has no such event.
UniqueFd OpenPopulatedEvents(const Paths& paths);

}  // namespace capstan::cgroup

#endif  // CAPSTAN_LIBS_CGROUP_CGROUP_H_
