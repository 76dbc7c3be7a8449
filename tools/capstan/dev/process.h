// Child processes, and processes of former runs.
#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_PROCESS_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::dev {

// A process for sure: its pid with its start time, which together are never used again in a boot.
struct ProcessId {
  pid_t pid = 0;
  // Field 22 of /proc/<pid>/stat.
  int64_t start_ticks = 0;
};

// Absolute path of this program.
absl::StatusOr<std::string> OwnProgram();

// Absent if there is no such process (a zombie counts as none).
absl::optional<ProcessId> FindProcess(pid_t pid);
bool IsAlive(const ProcessId& process);

// `<pid> <start ticks>`.
absl::Status WritePidFile(const std::string& path, const ProcessId& process);
// Absent if there is no file, or its process has ended.
absl::optional<ProcessId> ReadPidFile(const std::string& path);

// Sends a signal to exactly this process, if it still runs.
void SignalProcess(const ProcessId& process, int signal);
// Waits until it has ended; false if it has not within `time_out`. Works for strangers too.
bool WaitForEnd(const ProcessId& process, absl::Duration time_out);

struct SpawnOptions {
  // Absolute path and arguments.
  std::vector<std::string> argv;
  // `NAME=value`, all of it.
  std::vector<std::string> environment;
  // Descriptors of ours and the numbers under which the child has them; all others are closed.
  std::vector<std::pair<int, int>> descriptors;
  // Both output streams are appended to it.
  std::string output_file;
};

// A child in a session of its own, so that a terminal's Ctrl-C reaches only us.
class Child {
 public:
  static absl::StatusOr<Child> Spawn(const SpawnOptions& options);

  const ProcessId& id() const { return id_; }
  // Readable once the child has ended.
  int pidfd() const { return pidfd_.get(); }
  // Reaps it if it has ended; then its wait status.
  absl::optional<int> TryReap();

 private:
  Child(ProcessId id, UniqueFd pidfd) : id_(id), pidfd_(std::move(pidfd)) {}

  ProcessId id_;
  UniqueFd pidfd_;
};

// `exit code 3`, `signal 9 (Killed)`.
std::string DescribeWaitStatus(int wait_status);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_PROCESS_H_
