#ifndef CAPSTAN_LIBS_GPU_GPU_JSON_H_
#define CAPSTAN_LIBS_GPU_GPU_JSON_H_

#include <string>

#include "libs/gpu/device_inventory.h"
#include "libs/gpu/device_reader.h"

namespace capstan::gpu {

// One line without its end, for `gpu_look`: all that is known of the GPU, and `model`, what it is
// called. What is not known is left out.
std::string GpuJson(const Gpu& gpu);

// The same of who uses a device.
std::string DeviceUseJson(const DeviceUse& device);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_GPU_JSON_H_
