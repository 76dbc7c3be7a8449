#include "libs/gpu/nvml.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/types/optional.h"
#include "libs/gpu/nvml_abi.h"
#include "libs/gpu/nvml_library.h"
#include "libs/status/status_macros.h"

namespace capstan::gpu {
namespace {

constexpr unsigned int kMostProcesses = 4096;
// How often the list of processes may have grown while it was being read.
constexpr int kAttempts = 4;

class NvmlReader final : public DeviceReader {
 public:
  explicit NvmlReader(std::unique_ptr<NvmlLibrary> library)
      : library_(std::move(library)), nvml_(library_->functions()) {}

  std::vector<DeviceUse> Read() override {
    unsigned int count = 0;
    if (nvml_.count(&count) != nvml::kSuccess) return {};
    std::vector<DeviceUse> devices;
    for (unsigned int index = 0; index < std::min(count, kMostDevices); ++index) {
      nvml::Device device = nullptr;
      char uuid[nvml::kUuidBytes] = {};
      if (nvml_.handle(index, &device) != nvml::kSuccess ||
          nvml_.uuid(device, uuid, sizeof uuid) != nvml::kSuccess) {
        continue;
      }
      DeviceUse use;
      use.uuid.assign(uuid, strnlen(uuid, sizeof uuid));
      nvml::Utilization utilization = {};
      // Not of a device that is cut into slices.
      if (nvml_.utilization != nullptr &&
          nvml_.utilization(device, &utilization) == nvml::kSuccess) {
        use.busy_percent = std::min(utilization.gpu, 100u);
      }
      use.processes = Processes(device);
      devices.push_back(std::move(use));
    }
    return devices;
  }

 private:
  std::vector<ProcessUse> Processes(nvml::Device device) const {
    if (nvml_.processes == nullptr) return {};
    std::vector<nvml::ProcessInfo> infos(64);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto count = static_cast<unsigned int>(infos.size());
      const nvml::Return got = nvml_.processes(device, &count, infos.data());
      if (got == nvml::kInsufficientSize && infos.size() < kMostProcesses) {
        // A few more than there were.
        infos.resize(std::min<size_t>(std::max<size_t>(count, infos.size()) + 32, kMostProcesses));
        continue;
      }
      if (got != nvml::kSuccess) return {};
      infos.resize(std::min<size_t>(count, infos.size()));
      std::vector<ProcessUse> processes;
      for (const nvml::ProcessInfo& info : infos) {
        ProcessUse process;
        process.pid = static_cast<pid_t>(info.pid);
        if (info.used_gpu_memory != nvml::kNotAvailable) {
          process.memory_bytes = static_cast<int64_t>(info.used_gpu_memory);
        }
        processes.push_back(process);
      }
      return processes;
    }
    return {};
  }

  const std::unique_ptr<NvmlLibrary> library_;
  const NvmlFunctions& nvml_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceReader>> OpenNvml(const std::string& library) {
  CAPSTAN_ASSIGN_OR_RETURN(auto opened, NvmlLibrary::Open(library));
  return std::make_unique<NvmlReader>(std::move(opened));
}

}  // namespace capstan::gpu
