#include "libs/gpu/nvml_inventory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/gpu/nvml_abi.h"
#include "libs/gpu/read_gpu.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::gpu {
namespace {

class NvmlInventory final : public DeviceInventory {
 public:
  explicit NvmlInventory(std::unique_ptr<NvmlLibrary> library) : library_(std::move(library)) {}

  absl::StatusOr<std::vector<Gpu>> List() override {
    unsigned int count = 0;
    const nvml::Return got = library_->functions().count(&count);
    if (got != nvml::kSuccess) {
      return status::Error(
          absl::StatusCode::kUnavailable, "NVML_FAILED",
          absl::StrCat("the driver does not say which GPUs there are: ", library_->Words(got)));
    }
    std::vector<Gpu> gpus;
    const auto most = static_cast<int>(std::min(count, kMostDevices));
    for (int index = 0; index < most; ++index) {
      gpus.push_back(ReadGpu(library_->functions(), index));
    }
    return gpus;
  }

 private:
  const std::unique_ptr<NvmlLibrary> library_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceInventory>> OpenNvmlInventory(const std::string& library) {
  CAPSTAN_ASSIGN_OR_RETURN(auto opened, NvmlLibrary::Open(library));
  return std::make_unique<NvmlInventory>(std::move(opened));
}

}  // namespace capstan::gpu
