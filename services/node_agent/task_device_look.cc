#include "services/node_agent/task_device_look.h"

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "libs/cgroup/cgroup.h"
#include "libs/cgroup/usage.h"
#include "libs/gpu/task_devices.h"
#include "libs/session/task_id.h"

namespace capstan::node_agent {
namespace {

// Of the thread that looks.
class TaskDeviceLook {
 public:
  explicit TaskDeviceLook(std::function<absl::StatusOr<std::unique_ptr<gpu::DeviceReader>>()> open)
      : open_(std::move(open)) {}

  UsageSampler::Devices Look(const UsageSampler::Groups& groups) {
    if (!opened_) {
      opened_ = true;
      if (auto reader = open_(); reader.ok()) reader_ = *std::move(reader);
    }
    UsageSampler::Devices found;
    if (reader_ == nullptr) return found;
    const std::vector<gpu::DeviceUse> devices = reader_->Read();
    std::vector<const session::TaskId*> tasks;
    std::map<pid_t, size_t> owners;
    for (const auto& [id, group] : groups) {
      cgroup::Paths paths;
      paths.v2 = group.v2();
      paths.v1_freezer = group.v1_freezer();
      for (const pid_t pid : cgroup::ReadProcesses(paths)) {
        owners[pid] = tasks.size();
      }
      tasks.push_back(&id);
    }
    auto by_task = gpu::DevicesOfTasks(devices, [&owners](pid_t pid) -> absl::optional<size_t> {
      const auto owner = owners.find(pid);
      if (owner == owners.end()) return absl::nullopt;
      return owner->second;
    });
    for (auto& [task, its] : by_task) found[*tasks[task]] = std::move(its);
    return found;
  }

 private:
  const std::function<absl::StatusOr<std::unique_ptr<gpu::DeviceReader>>()> open_;
  bool opened_ = false;
  std::unique_ptr<gpu::DeviceReader> reader_;
};

}  // namespace

UsageSampler::DeviceLook MakeTaskDeviceLook(
    std::function<absl::StatusOr<std::unique_ptr<gpu::DeviceReader>>()> open) {
  // A std::function is copied.
  return [look = std::make_shared<TaskDeviceLook>(std::move(open))](
             const UsageSampler::Groups& groups) { return look->Look(groups); };
}

}  // namespace capstan::node_agent
