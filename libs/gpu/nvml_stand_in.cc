// A stand-in for NVIDIA's management library, with its names and layouts as its reference has them
// (https://docs.nvidia.com/deploy/nvml-api/), written down here apart from nvml_abi.h so that a
// slip there shows. Not NVIDIA's code, and no proof that a driver does the same.
//
// What came with MIG is in nvml_stand_in_mig.cc; the library of an old driver is without that.
#include "libs/gpu/nvml_stand_in.h"

#include "libs/gpu/nvml_stand_in_types.h"

namespace {

using capstan::gpu::Scene;
using capstan::gpu::SceneProcess;

struct nvmlUtilization_t {
  unsigned int gpu;
  unsigned int memory;
};

struct nvmlProcessInfo_t {
  unsigned int pid;
  unsigned long long usedGpuMemory;  // NOLINT(google-runtime-int)
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};

struct nvmlMemory_t {
  unsigned long long total;  // NOLINT(google-runtime-int)
  unsigned long long free;   // NOLINT(google-runtime-int)
  unsigned long long used;   // NOLINT(google-runtime-int)
};

Scene scene;

}  // namespace

extern "C" {

Scene* CapstanNvmlScene() { return &scene; }

nvmlReturn_t nvmlInit_v2() {
  if (scene.no_driver) return NVML_ERROR_DRIVER_NOT_LOADED;
  ++scene.open;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown() {
  --scene.open;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  if (const nvmlReturn_t wanted = Wanted("nvmlDeviceGetCount_v2")) return wanted;
  *count = static_cast<unsigned int>(scene.devices.size());
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  if (index >= scene.devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  if (scene.devices[index].lost) return NVML_ERROR_GPU_IS_LOST;
  *device = &scene.devices[index];
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  if (const nvmlReturn_t wanted = Wanted("nvmlDeviceGetUUID")) return wanted;
  return Copy(device->uuid, uuid, length);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minorNumber) {
  if (const nvmlReturn_t wanted = Wanted("nvmlDeviceGetMinorNumber")) return wanted;
  *minorNumber = device->minor;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  return Copy(device->product, name, length);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  if (const nvmlReturn_t wanted = Wanted("nvmlDeviceGetMemoryInfo")) return wanted;
  if (device->mig_now && scene.unprivileged) return NVML_ERROR_NO_PERMISSION;
  *memory = {device->memory_bytes, device->memory_bytes, 0};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  if (device->utilization_unsupported) return NVML_ERROR_NOT_SUPPORTED;
  utilization->gpu = device->busy_percent;
  utilization->memory = 99;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  ++scene.process_calls;
  const auto there = static_cast<unsigned int>(device->processes.size());
  if (*count < there) {
    *count = there;
    for (int i = 0; i < device->growth; ++i) device->processes.push_back(device->processes.front());
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  for (unsigned int i = 0; i < there; ++i) {
    const SceneProcess& process = device->processes[i];
    infos[i] = {process.pid, process.memory_bytes, 0xFFFFFFFF, 0xFFFFFFFF};
  }
  *count = there;
  return NVML_SUCCESS;
}

}  // extern "C"
