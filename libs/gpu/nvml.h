#ifndef CAPSTAN_LIBS_GPU_NVML_H_
#define CAPSTAN_LIBS_GPU_NVML_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/gpu/device_reader.h"

namespace capstan::gpu {

// The name under which the driver installs it.
inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// Reads NVIDIA's devices through NVML, which is loaded at run time.
//
// NOT_FOUND, reason NO_NVML: there is no such library here, or it lacks a function, or it finds no
// driver: a machine without devices of this kind. The library stays loaded until the reader goes.
absl::StatusOr<std::unique_ptr<DeviceReader>> OpenNvml(const std::string& library = kNvmlLibrary);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_NVML_H_
