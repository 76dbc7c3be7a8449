#ifndef CAPSTAN_LIBS_GPU_FAKE_DEVICE_INVENTORY_H_
#define CAPSTAN_LIBS_GPU_FAKE_DEVICE_INVENTORY_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/gpu/device_inventory.h"

namespace capstan::gpu {

// Lists what `machine` holds, which must outlive it.
class FakeDeviceInventory final : public DeviceInventory {
 public:
  struct Machine {
    std::vector<Gpu> gpus;
    // Answered while not OK.
    absl::Status failure;
    int lists = 0;
  };
  explicit FakeDeviceInventory(Machine* machine) : machine_(machine) {}

  absl::StatusOr<std::vector<Gpu>> List() override {
    ++machine_->lists;
    if (!machine_->failure.ok()) return machine_->failure;
    return machine_->gpus;
  }

 private:
  Machine* const machine_;
};

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_FAKE_DEVICE_INVENTORY_H_
