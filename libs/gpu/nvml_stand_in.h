// What the stand-in for NVML shows, set by a test through `CapstanNvmlScene`.
#ifndef CAPSTAN_LIBS_GPU_NVML_STAND_IN_H_
#define CAPSTAN_LIBS_GPU_NVML_STAND_IN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace capstan::gpu {

struct SceneProcess {
  unsigned int pid = 0;
  uint64_t memory_bytes = 0;
};

struct SceneDevice {
  std::string uuid;
  unsigned int busy_percent = 0;
  // NVML_ERROR_NOT_SUPPORTED, as of a device that is cut into slices.
  bool utilization_unsupported = false;
  // NVML_ERROR_GPU_IS_LOST for all that is asked of it.
  bool lost = false;
  std::vector<SceneProcess> processes = {};
  // Processes that come each time the list did not fit.
  int growth = 0;
};

struct Scene {
  // NVML_ERROR_DRIVER_NOT_LOADED at nvmlInit_v2.
  bool no_driver = false;
  std::vector<SceneDevice> devices;
  // Inits less shutdowns.
  int open = 0;
  int process_calls = 0;
};

// Exported by the stand-in with C linkage as `CapstanNvmlScene`.
using SceneOf = Scene* (*)();

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_NVML_STAND_IN_H_
