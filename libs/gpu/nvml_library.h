#ifndef CAPSTAN_LIBS_GPU_NVML_LIBRARY_H_
#define CAPSTAN_LIBS_GPU_NVML_LIBRARY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/gpu/nvml_abi.h"

namespace capstan::gpu {

// The name under which the driver installs NVML.
inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";
// More than a machine has; a driver that says more is not believed.
inline constexpr unsigned int kMostDevices = 64;

// What is called of NVML. The first group is there always; of the rest, what this driver's library
// does not have is null.
struct NvmlFunctions {
  nvml::DeviceGetCount count = nullptr;
  nvml::DeviceGetHandleByIndex handle = nullptr;
  nvml::DeviceGetUuid uuid = nullptr;

  nvml::ErrorString error = nullptr;
  nvml::DeviceGetUtilizationRates utilization = nullptr;
  nvml::DeviceGetComputeRunningProcesses processes = nullptr;
  nvml::DeviceGetName name = nullptr;
  nvml::DeviceGetMinorNumber minor = nullptr;
  nvml::DeviceGetMemoryInfo memory = nullptr;
  nvml::DeviceGetRemappedRows remapped_rows = nullptr;
  nvml::DeviceGetMigMode mig_mode = nullptr;
  nvml::DeviceGetGpuInstanceProfileInfo profile = nullptr;
  nvml::DeviceGetGpuInstanceProfileInfoV profile_v = nullptr;
  nvml::DeviceGetGpuInstancePossiblePlacements placements = nullptr;
  nvml::DeviceGetGpuInstances instances = nullptr;
  nvml::GpuInstanceGetInfo instance = nullptr;
  nvml::DeviceGetGpuInstanceById instance_by_id = nullptr;
  nvml::DeviceCreateGpuInstanceWithPlacement create = nullptr;
  nvml::GpuInstanceDestroy destroy = nullptr;
  nvml::GpuInstanceGetComputeInstanceProfileInfo compute_profile = nullptr;
  nvml::GpuInstanceGetComputeInstances compute_instances = nullptr;
  nvml::GpuInstanceCreateComputeInstance compute_create = nullptr;
  nvml::ComputeInstanceGetInfo compute_instance = nullptr;
  nvml::ComputeInstanceDestroy compute_destroy = nullptr;
  nvml::DeviceGetMaxMigDeviceCount most_mig_devices = nullptr;
  nvml::DeviceGetMigDeviceHandleByIndex mig_device = nullptr;
  nvml::DeviceGetInstanceId gpu_instance_id = nullptr;
  nvml::DeviceGetInstanceId compute_instance_id = nullptr;
};

// NVML, loaded and begun for as long as this lives; several may, beside each other. Its functions
// may be called from any thread, and may block in the driver, on a broken device perhaps for ever;
// so may opening and closing.
class NvmlLibrary {
 public:
  // NOT_FOUND, reason NO_NVML: there is no such library here, or it lacks a function of the first
  // group, or it finds no driver: a machine without devices of this kind.
  static absl::StatusOr<std::unique_ptr<NvmlLibrary>> Open(const std::string& library);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const NvmlFunctions& functions() const { return functions_; }
  // The driver's own words for an error, with its number.
  std::string Words(nvml::Return code) const;

 private:
  NvmlLibrary() = default;
  absl::Status Load(const std::string& library);
  template <typename Function>
  bool Find(const char* name, Function* function);

  void* library_ = nullptr;
  nvml::Shutdown shutdown_ = nullptr;
  NvmlFunctions functions_;
};

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_NVML_LIBRARY_H_
