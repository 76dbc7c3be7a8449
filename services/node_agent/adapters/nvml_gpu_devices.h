#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NVML_GPU_DEVICES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NVML_GPU_DEVICES_H_

#include <memory>
#include <string>

#include "libs/gpu/nvml_library.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/gpu_devices.h"

namespace capstan::node_agent {

// This machine's NVIDIA GPUs, through NVML. Nothing is remembered: each call looks. The driver is
// called on `driver` alone, the first time at the first call, and may hang there: then nothing is
// answered any more, and the strand goes on. Both strands must outlive this.
struct NvmlGpuDevicesOptions {
  std::string library = gpu::kNvmlLibrary;
  // Where the driver says which device files MIG instances take.
  std::string capabilities = "/proc/driver/nvidia/capabilities";
};
std::unique_ptr<GpuDevices> MakeNvmlGpuDevices(NvmlGpuDevicesOptions options, Strand* strand,
                                               Strand* driver);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NVML_GPU_DEVICES_H_
