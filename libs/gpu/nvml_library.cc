#include "libs/gpu/nvml_library.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::gpu {
namespace {

absl::Status NoNvml(const std::string& why) {
  return status::Error(absl::StatusCode::kNotFound, "NO_NVML", why);
}

std::string LastError() {
  const char* text = dlerror();
  return text == nullptr ? "no cause is known" : text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvmlLibrary>> NvmlLibrary::Open(const std::string& library) {
  std::unique_ptr<NvmlLibrary> opened(new NvmlLibrary());
  const absl::Status loaded = opened->Load(library);
  if (!loaded.ok()) return loaded;
  return opened;
}

NvmlLibrary::~NvmlLibrary() {
  if (shutdown_ != nullptr) shutdown_();
  if (library_ != nullptr) dlclose(library_);
}

template <typename Function>
bool NvmlLibrary::Find(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library_, name));
  return *function != nullptr;
}

absl::Status NvmlLibrary::Load(const std::string& library) {
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return NoNvml(absl::StrCat(library, ": ", LastError()));
  nvml::Init init = nullptr;
  nvml::Shutdown shutdown = nullptr;
  NvmlFunctions& f = functions_;
  const bool whole = Find("nvmlInit_v2", &init) && Find("nvmlShutdown", &shutdown) &&
                     Find("nvmlDeviceGetCount_v2", &f.count) &&
                     Find("nvmlDeviceGetHandleByIndex_v2", &f.handle) &&
                     Find("nvmlDeviceGetUUID", &f.uuid);
  if (!whole) return NoNvml(absl::StrCat(library, " lacks a function: ", LastError()));
  Find("nvmlErrorString", &f.error);
  Find("nvmlDeviceGetUtilizationRates", &f.utilization);
  // Drivers before 510 have the former; without either no device is anyone's.
  if (!Find("nvmlDeviceGetComputeRunningProcesses_v3", &f.processes)) {
    Find("nvmlDeviceGetComputeRunningProcesses_v2", &f.processes);
  }
  Find("nvmlDeviceGetName", &f.name);
  Find("nvmlDeviceGetMinorNumber", &f.minor);
  Find("nvmlDeviceGetMemoryInfo", &f.memory);
  Find("nvmlDeviceGetRemappedRows", &f.remapped_rows);
  Find("nvmlDeviceGetMigMode", &f.mig_mode);
  Find("nvmlDeviceGetGpuInstanceProfileInfo", &f.profile);
  Find("nvmlDeviceGetGpuInstanceProfileInfoV", &f.profile_v);
  Find("nvmlDeviceGetGpuInstancePossiblePlacements_v2", &f.placements);
  Find("nvmlDeviceGetGpuInstances", &f.instances);
  Find("nvmlGpuInstanceGetInfo", &f.instance);
  Find("nvmlDeviceGetGpuInstanceById", &f.instance_by_id);
  Find("nvmlDeviceCreateGpuInstanceWithPlacement", &f.create);
  Find("nvmlGpuInstanceDestroy", &f.destroy);
  Find("nvmlGpuInstanceGetComputeInstanceProfileInfo", &f.compute_profile);
  Find("nvmlGpuInstanceGetComputeInstances", &f.compute_instances);
  Find("nvmlGpuInstanceCreateComputeInstance", &f.compute_create);
  Find("nvmlComputeInstanceGetInfo_v2", &f.compute_instance);
  Find("nvmlComputeInstanceDestroy", &f.compute_destroy);
  Find("nvmlDeviceGetMaxMigDeviceCount", &f.most_mig_devices);
  Find("nvmlDeviceGetMigDeviceHandleByIndex", &f.mig_device);
  Find("nvmlDeviceGetGpuInstanceId", &f.gpu_instance_id);
  Find("nvmlDeviceGetComputeInstanceId", &f.compute_instance_id);
  const nvml::Return begun = init();
  if (begun != nvml::kSuccess) {
    return NoNvml(absl::StrCat(library, " can't be used: nvmlInit_v2 returned ", Words(begun)));
  }
  shutdown_ = shutdown;
  return absl::OkStatus();
}

std::string NvmlLibrary::Words(nvml::Return code) const {
  const char* words = functions_.error == nullptr ? nullptr : functions_.error(code);
  return words == nullptr ? absl::StrCat("error ", code)
                          : absl::StrCat(words, " (error ", code, ")");
}

}  // namespace capstan::gpu
