#ifndef CAPSTAN_LIBS_GPU_DEVICE_READER_H_
#define CAPSTAN_LIBS_GPU_DEVICE_READER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"

namespace capstan::gpu {

// A process that has a context on a device.
struct ProcessUse {
  pid_t pid = 0;
  // Memory of the device that it holds; absent where the driver does not account it.
  absl::optional<int64_t> memory_bytes = {};

  friend bool operator==(const ProcessUse&, const ProcessUse&) = default;
};

// What is known of one device now. What the driver does not tell is absent, never 0.
struct DeviceUse {
  // Unique and the same over reboots, e.g. `GPU-8f2c…`.
  std::string uuid;
  // Part of the driver's last sample period (up to a second) in which a kernel ran, in per cent.
  absl::optional<double> busy_percent = {};
  std::vector<ProcessUse> processes = {};

  friend bool operator==(const DeviceUse&, const DeviceUse&) = default;
};

// Looks at the devices of this machine.
class DeviceReader {
 public:
  virtual ~DeviceReader() = default;

  // All devices, in the driver's order; one that can't be asked now is left out. Blocks in the
  // driver, on a broken device perhaps for ever. One thread at a time.
  virtual std::vector<DeviceUse> Read() = 0;
};

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_DEVICE_READER_H_
