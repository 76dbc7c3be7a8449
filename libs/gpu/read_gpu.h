#ifndef CAPSTAN_LIBS_GPU_READ_GPU_H_
#define CAPSTAN_LIBS_GPU_READ_GPU_H_

#include "libs/gpu/device_inventory.h"
#include "libs/gpu/nvml_library.h"

namespace capstan::gpu {

// Asks the driver all that a Gpu holds; changes nothing. Blocks in the driver.
Gpu ReadGpu(const NvmlFunctions& nvml, int index);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_READ_GPU_H_
