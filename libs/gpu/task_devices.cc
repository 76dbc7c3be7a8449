#include "libs/gpu/task_devices.h"

namespace capstan::gpu {

std::map<size_t, std::vector<TaskDevice>> DevicesOfTasks(
    const std::vector<DeviceUse>& devices, absl::FunctionRef<absl::optional<size_t>(pid_t)> owner) {
  std::map<pid_t, absl::optional<size_t>> owners;
  std::map<size_t, std::vector<TaskDevice>> found;
  for (const DeviceUse& device : devices) {
    for (const ProcessUse& process : device.processes) {
      const auto [known, is_new] = owners.try_emplace(process.pid);
      if (is_new) known->second = owner(process.pid);
      if (!known->second.has_value()) continue;
      std::vector<TaskDevice>& its = found[*known->second];
      if (its.empty() || its.back().uuid != device.uuid) {
        its.push_back({device.uuid, device.busy_percent, 0});
      }
      absl::optional<int64_t>& memory = its.back().memory_bytes;
      if (memory.has_value() && process.memory_bytes.has_value()) {
        *memory += *process.memory_bytes;
      } else {
        memory.reset();
      }
    }
  }
  return found;
}

}  // namespace capstan::gpu
