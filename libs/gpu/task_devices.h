// Which Task uses which device. Pure.
#ifndef CAPSTAN_LIBS_GPU_TASK_DEVICES_H_
#define CAPSTAN_LIBS_GPU_TASK_DEVICES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "libs/gpu/device_reader.h"

namespace capstan::gpu {

// What one Task uses of one device.
struct TaskDevice {
  std::string uuid;
  // Of the whole device, whoever keeps it busy.
  absl::optional<double> busy_percent = {};
  // Held by the Task's own processes; absent if that of one of them is not known.
  absl::optional<int64_t> memory_bytes = {};

  friend bool operator==(const TaskDevice&, const TaskDevice&) = default;
};

// The devices on which each Task has a process, in the devices' order. `owner` says, for a pid, the
// number of the Task it belongs to; absent: none that is known. It is asked once for each pid.
std::map<size_t, std::vector<TaskDevice>> DevicesOfTasks(
    const std::vector<DeviceUse>& devices, absl::FunctionRef<absl::optional<size_t>(pid_t)> owner);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_TASK_DEVICES_H_
