// What the kernel says of the NVIDIA driver's device files. Pure.
#ifndef CAPSTAN_LIBS_GPU_DRIVER_FILES_H_
#define CAPSTAN_LIBS_GPU_DRIVER_FILES_H_

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::gpu {

// The major number of the character devices of this name, by the text of /proc/devices.
absl::optional<int> CharacterMajor(absl::string_view proc_devices, absl::string_view name);

// N of `/dev/nvidia-caps/nvidia-capN`, by the text of a file `access` below
// /proc/driver/nvidia/capabilities: its line `DeviceFileMinor: N`.
absl::optional<int> CapabilityMinor(absl::string_view access);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_DRIVER_FILES_H_
