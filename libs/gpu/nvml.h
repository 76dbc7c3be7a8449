#ifndef CAPSTAN_LIBS_GPU_NVML_H_
#define CAPSTAN_LIBS_GPU_NVML_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/gpu/device_reader.h"
#include "libs/gpu/nvml_library.h"

namespace capstan::gpu {

// Reads NVIDIA's devices through NVML, which is loaded at run time.
//
// NOT_FOUND, reason NO_NVML, as NvmlLibrary::Open. The library stays loaded until the reader goes.
absl::StatusOr<std::unique_ptr<DeviceReader>> OpenNvml(const std::string& library = kNvmlLibrary);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_NVML_H_
