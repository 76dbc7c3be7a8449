#ifndef CAPSTAN_LIBS_GPU_FAKE_DEVICE_READER_H_
#define CAPSTAN_LIBS_GPU_FAKE_DEVICE_READER_H_

#include <vector>

#include "libs/gpu/device_reader.h"

namespace capstan::gpu {

// Tells what it is given.
class FakeDeviceReader final : public DeviceReader {
 public:
  std::vector<DeviceUse> Read() override {
    ++reads;
    return devices;
  }

  std::vector<DeviceUse> devices;
  int reads = 0;
};

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_FAKE_DEVICE_READER_H_
