#ifndef CAPSTAN_LIBS_CGROUP_USAGE_H_
#define CAPSTAN_LIBS_CGROUP_USAGE_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/cgroup/cgroup.h"

namespace capstan::cgroup {

// What the processes of a group use. What the machine does not account is absent, never 0.
struct Usage {
  // Of all cores, since the group was made.
  absl::optional<absl::Duration> cpu_time = {};
  // Without pages of files that were read or written once and that the kernel may drop at once: the
  // working set, as Kubernetes counts it.
  absl::optional<int64_t> memory_bytes = {};
  // The most at any time, pages of files included: what the limit is compared with.
  absl::optional<int64_t> memory_peak_bytes = {};
  // In the group and below it.
  absl::optional<int64_t> processes = {};
  // To and from block devices, since the group was made.
  absl::optional<int64_t> io_read_bytes = {};
  absl::optional<int64_t> io_write_bytes = {};
};

// Reads the kernel's files: `cpu.stat`, `memory.current`, `memory.peak`, `memory.stat` and
// `io.stat` under v2 (Documentation/admin-guide/cgroup-v2.rst), and where v1 accounts instead
// `cpuacct.usage`, `memory.usage_in_bytes` and `memory.max_usage_in_bytes`. A group that is gone
// uses nothing that is known. Blocks for files of cgroupfs only.
Usage ReadUsage(const Paths& paths);

// The processes in the group and below it, as this process's namespace numbers them; none if it is
// gone.
std::vector<pid_t> ReadProcesses(const Paths& paths);

}  // namespace capstan::cgroup

#endif  // CAPSTAN_LIBS_CGROUP_USAGE_H_
