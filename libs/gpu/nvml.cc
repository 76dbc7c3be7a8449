#include "libs/gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/gpu/nvml_abi.h"
#include "libs/status/error.h"

namespace capstan::gpu {
namespace {

// More than a machine has; a driver that says more is not believed.
constexpr unsigned int kMostDevices = 64;
constexpr unsigned int kMostProcesses = 4096;
// How often the list of processes may have grown while it was being read.
constexpr int kAttempts = 4;

absl::Status NoNvml(const std::string& why) {
  return status::Error(absl::StatusCode::kNotFound, "NO_NVML", why);
}

class NvmlReader final : public DeviceReader {
 public:
  NvmlReader() = default;
  ~NvmlReader() override {
    if (shutdown_ != nullptr) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }
  NvmlReader(const NvmlReader&) = delete;
  NvmlReader& operator=(const NvmlReader&) = delete;

  absl::Status Open(const std::string& library) {
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return NoNvml(absl::StrCat(library, ": ", LastError()));
    nvml::Init init = nullptr;
    nvml::Shutdown shutdown = nullptr;
    const bool whole =
        Find("nvmlInit_v2", &init) && Find("nvmlShutdown", &shutdown) &&
        Find("nvmlDeviceGetCount_v2", &count_) && Find("nvmlDeviceGetHandleByIndex_v2", &handle_) &&
        Find("nvmlDeviceGetUUID", &uuid_) && Find("nvmlDeviceGetUtilizationRates", &utilization_);
    if (!whole) return NoNvml(absl::StrCat(library, " lacks a function: ", LastError()));
    // Drivers before 510 have the former; without either no device is anyone's.
    if (!Find("nvmlDeviceGetComputeRunningProcesses_v3", &processes_)) {
      Find("nvmlDeviceGetComputeRunningProcesses_v2", &processes_);
    }
    const nvml::Return begun = init();
    if (begun != nvml::kSuccess) {
      return NoNvml(absl::StrCat(library, " can't be used: nvmlInit_v2 returned ", begun));
    }
    shutdown_ = shutdown;
    return absl::OkStatus();
  }

  std::vector<DeviceUse> Read() override {
    unsigned int count = 0;
    if (count_(&count) != nvml::kSuccess) return {};
    std::vector<DeviceUse> devices;
    for (unsigned int index = 0; index < std::min(count, kMostDevices); ++index) {
      nvml::Device device = nullptr;
      char uuid[nvml::kUuidBytes] = {};
      if (handle_(index, &device) != nvml::kSuccess ||
          uuid_(device, uuid, sizeof uuid) != nvml::kSuccess) {
        continue;
      }
      DeviceUse use;
      use.uuid.assign(uuid, strnlen(uuid, sizeof uuid));
      nvml::Utilization utilization = {};
      // Not of a device that is cut into slices.
      if (utilization_(device, &utilization) == nvml::kSuccess) {
        use.busy_percent = std::min(utilization.gpu, 100u);
      }
      use.processes = Processes(device);
      devices.push_back(std::move(use));
    }
    return devices;
  }

 private:
  static std::string LastError() {
    const char* text = dlerror();
    return text == nullptr ? "no cause is known" : text;
  }

  template <typename Function>
  bool Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, name));
    return *function != nullptr;
  }

  std::vector<ProcessUse> Processes(nvml::Device device) const {
    if (processes_ == nullptr) return {};
    std::vector<nvml::ProcessInfo> infos(64);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto count = static_cast<unsigned int>(infos.size());
      const nvml::Return got = processes_(device, &count, infos.data());
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

  void* library_ = nullptr;
  nvml::Shutdown shutdown_ = nullptr;
  nvml::DeviceGetCount count_ = nullptr;
  nvml::DeviceGetHandleByIndex handle_ = nullptr;
  nvml::DeviceGetUuid uuid_ = nullptr;
  nvml::DeviceGetUtilizationRates utilization_ = nullptr;
  nvml::DeviceGetComputeRunningProcesses processes_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceReader>> OpenNvml(const std::string& library) {
  auto reader = std::make_unique<NvmlReader>();
  const absl::Status opened = reader->Open(library);
  if (!opened.ok()) return opened;
  return reader;
}

}  // namespace capstan::gpu
