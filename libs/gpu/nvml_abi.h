// The part of NVIDIA's management library (NVML) that Capstan calls, declared anew: its library
// comes with the driver, its header with the CUDA toolkit, which no machine of ours needs.
//
// Source: `nvml.h` of CUDA 12 and the NVML API Reference
// (https://docs.nvidia.com/deploy/nvml-api/): names with their version suffix, values of
// nvmlReturn_t, layout of nvmlUtilization_t and nvmlProcessInfo_t (version 2, which
// nvmlDeviceGetComputeRunningProcesses_v2 and _v3 fill). NVIDIA keeps these symbols from release to
// release; what changes gets a new suffix.
#ifndef CAPSTAN_LIBS_GPU_NVML_ABI_H_
#define CAPSTAN_LIBS_GPU_NVML_ABI_H_

namespace capstan::gpu::nvml {

// nvmlReturn_t.
using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kInsufficientSize = 7;

// nvmlDevice_t: opaque.
using Device = struct DeviceHandle*;

// nvmlUtilization_t: per cent.
struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};

// nvmlProcessInfo_v2_t.
struct ProcessInfo {
  unsigned int pid;
  // kNotAvailable where it is not accounted.
  unsigned long long used_gpu_memory;  // NOLINT(google-runtime-int): the header's own type
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};
// NVML_VALUE_NOT_AVAILABLE as an unsigned long long.
inline constexpr auto kNotAvailable = ~0ULL;

// NVML_DEVICE_UUID_V2_BUFFER_SIZE.
inline constexpr unsigned int kUuidBytes = 96;

using Init = Return (*)();
using Shutdown = Return (*)();
using DeviceGetCount = Return (*)(unsigned int* count);
using DeviceGetHandleByIndex = Return (*)(unsigned int index, Device* device);
using DeviceGetUuid = Return (*)(Device device, char* uuid, unsigned int bytes);
using DeviceGetUtilizationRates = Return (*)(Device device, Utilization* utilization);
// `count` says how many fit, and is told how many there are.
using DeviceGetComputeRunningProcesses = Return (*)(Device device, unsigned int* count,
                                                    ProcessInfo* infos);

}  // namespace capstan::gpu::nvml

#endif  // CAPSTAN_LIBS_GPU_NVML_ABI_H_
