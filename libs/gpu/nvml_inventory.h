#ifndef CAPSTAN_LIBS_GPU_NVML_INVENTORY_H_
#define CAPSTAN_LIBS_GPU_NVML_INVENTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/nvml_library.h"

namespace capstan::gpu {

// Lists NVIDIA's GPUs through NVML. NOT_FOUND, reason NO_NVML, as NvmlLibrary::Open; the library
// stays loaded until the inventory goes.
absl::StatusOr<std::unique_ptr<DeviceInventory>> OpenNvmlInventory(
    const std::string& library = kNvmlLibrary);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_NVML_INVENTORY_H_
