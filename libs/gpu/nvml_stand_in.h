// What the stand-in for NVML shows, set by a test through `CapstanNvmlScene`.
#ifndef CAPSTAN_LIBS_GPU_NVML_STAND_IN_H_
#define CAPSTAN_LIBS_GPU_NVML_STAND_IN_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace capstan::gpu {

struct SceneProcess {
  unsigned int pid = 0;
  uint64_t memory_bytes = 0;
};

// A profile of GPU instances.
struct SceneProfile {
  // NVML_GPU_INSTANCE_PROFILE_*.
  unsigned int number = 0;
  unsigned int id = 0;
  std::string name;
  unsigned int slices = 0;
  unsigned int most = 0;
  uint64_t memory_mb = 0;
  unsigned int size = 0;
  std::vector<unsigned int> starts;
};

struct SceneDevice;

struct SceneComputeInstance {
  unsigned int id = 0;
  unsigned int slices = 0;
  unsigned int start = 0;
  // What nvmlComputeInstanceDestroy answers NVML_ERROR_IN_USE for.
  bool in_use = false;
  // The MIG device that it is.
  std::shared_ptr<SceneDevice> device = {};
};

struct SceneGpuInstance {
  unsigned int id = 0;
  unsigned int profile_id = 0;
  unsigned int start = 0;
  unsigned int size = 0;
  // Lists keep their elements where they are: handles point to them.
  std::list<SceneComputeInstance> computes = {};
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

  std::string product = {};
  // Of its device file.
  unsigned int minor = 0;
  uint64_t memory_bytes = 0;
  bool rows_pending = false;
  bool rows_failed = false;
  // Whether there is a MIG mode at all, and which it is.
  bool mig_capable = false;
  bool mig_now = false;
  bool mig_pending = false;
  std::vector<SceneProfile> profiles = {};
  std::list<SceneGpuInstance> instances = {};
  // Of a MIG device: whose it is.
  unsigned int gpu_instance = 0;
  unsigned int compute_instance = 0;
};

struct Scene {
  // NVML_ERROR_DRIVER_NOT_LOADED at nvmlInit_v2.
  bool no_driver = false;
  // Of a user who is not privileged: NVML_ERROR_NO_PERMISSION for what needs it.
  bool unprivileged = false;
  // The newest version of a profile's struct that is taken.
  unsigned int newest_profile_version = 3;
  // NVML_ERROR_INVALID_ARGUMENT also for profiles that there are, but not of this GPU.
  bool absent_is_invalid = false;
  // By a function's name: what it answers instead of doing anything.
  std::map<std::string, int> failures = {};
  std::vector<SceneDevice> devices = {};
  // Inits less shutdowns.
  int open = 0;
  int process_calls = 0;
  // What changed, in order: `+9@4` a GPU instance of profile 9 made at 4, `-9@4` one destroyed, `+c3`
  // and `-c3` a compute instance of 3 slices.
  std::vector<std::string> changes = {};
  // Names that compute instances have had.
  int named = 0;
};

// An H100 of 80 GB in MIG mode or not, with what NVIDIA publishes of its profiles.
inline SceneDevice SceneH100(const std::string& uuid, bool mig) {
  SceneDevice device{.uuid = uuid};
  device.product = "NVIDIA H100 80GB HBM3";
  device.memory_bytes = uint64_t{81559} << 20;
  device.utilization_unsupported = mig;
  device.mig_capable = true;
  device.mig_now = mig;
  device.mig_pending = mig;
  device.profiles = {{0, 19, "1g.10gb", 1, 7, 9856, 1, {0, 1, 2, 3, 4, 5, 6}},
                     {1, 14, "2g.20gb", 2, 3, 19968, 2, {0, 2, 4}},
                     {2, 9, "3g.40gb", 3, 2, 40192, 4, {0, 4}},
                     {3, 5, "4g.40gb", 4, 1, 40192, 4, {0}},
                     {4, 0, "7g.80gb", 7, 1, 80896, 8, {0}},
                     {7, 20, "1g.10gb+me", 1, 1, 9856, 1, {0, 1, 2, 3, 4, 5, 6}},
                     {9, 15, "1g.20gb", 1, 4, 19968, 2, {0, 2, 4, 6}}};
  return device;
}

// Exported by the stand-in with C linkage as `CapstanNvmlScene`.
using SceneOf = Scene* (*)();

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_NVML_STAND_IN_H_
