#include "services/node_agent/shim/process_identity.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan::node_agent {

int64_t ProcessStartTicks(pid_t pid) {
  const std::string path = absl::StrCat("/proc/", pid, "/stat");
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return 0;
  const absl::StatusOr<std::string> stat = ReadAll(fd.get(), 4096, path);
  if (!stat.ok()) return 0;
  // The name, field 2, may hold anything, also `) `: fields are counted from its last parenthesis.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(*stat).substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kState = 0;
  constexpr size_t kStartTime = 22 - 3;
  int64_t ticks = 0;
  if (fields.size() <= kStartTime || fields[kState] == "Z" || fields[kState] == "X" ||
      !absl::SimpleAtoi(fields[kStartTime], &ticks)) {
    return 0;
  }
  return ticks;
}

UniqueFd OpenProcess(pid_t pid, int64_t start_ticks) {
  if (pid <= 0 || start_ticks <= 0) return UniqueFd();
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // Compared after opening: from then on the descriptor stays with the process that was compared.
  if (!fd.valid() || ProcessStartTicks(pid) != start_ticks) return UniqueFd();
  return fd;
}

bool SignalProcess(const UniqueFd& process, int signal) {
  return process.valid() && syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

}  // namespace capstan::node_agent
