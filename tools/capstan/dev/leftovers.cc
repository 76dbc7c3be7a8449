#include "tools/capstan/dev/leftovers.h"

#include <signal.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/cgroup/cgroup.h"
#include "libs/process/stop_signal.h"
#include "libs/safe_path/folder_names.h"
#include "tools/capstan/dev/parts.h"
#include "tools/capstan/dev/process.h"

namespace capstan::dev {

std::vector<std::string> StopLeftovers(const std::string& data_dir, bool keep_tasks,
                                       absl::Duration task_bound, absl::Duration part_bound) {
  std::vector<std::string> found;
  const std::vector<PartSpec> parts = PossibleParts();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const std::string pid_file = PidFile(data_dir, part->name);
    const absl::optional<ProcessId> process = ReadPidFile(pid_file);
    if (process.has_value()) {
      found.emplace_back(part->name);
      const bool is_agent = part->service == kNodeAgent;
      SignalProcess(*process, is_agent && !keep_tasks ? process::kStopTasksSignal : SIGTERM);
      if (!WaitForEnd(*process, is_agent && !keep_tasks ? task_bound : part_bound)) {
        SignalProcess(*process, SIGKILL);
        WaitForEnd(*process, part_bound);
      }
    }
    unlink(pid_file.c_str());
  }
  return found;
}

void RemoveRunFiles(const std::string& data_dir) {
  const std::string folder = RunFolder(data_dir);
  for (const std::string& name : FolderNames(folder)) {
    unlink(absl::StrCat(folder, "/", name).c_str());
  }
  rmdir(folder.c_str());
  const auto tree = cgroup::Tree::Open(CgroupName(data_dir));
  // Groups with Tasks, which `--keep-tasks` left, keep it from going.
  if (tree.ok()) (void)tree->RemoveTree();
}

}  // namespace capstan::dev
