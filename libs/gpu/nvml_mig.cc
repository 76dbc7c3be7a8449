#include "libs/gpu/nvml_mig.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/gpu/nvml_abi.h"
#include "libs/gpu/read_gpu.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::gpu {
namespace {

// More than any library knows of, and more instances than a GPU has slices.
constexpr unsigned int kMostComputeProfiles = 64;
constexpr unsigned int kMostComputeInstances = 64;

absl::Status Refused(absl::string_view reason, const std::string& message) {
  return status::Error(absl::StatusCode::kFailedPrecondition, reason, message);
}

absl::Status Later(absl::string_view reason, const std::string& message) {
  return status::Error(absl::StatusCode::kUnavailable, reason, message);
}

}  // namespace

// One GPU, for one act.
class NvmlMig::Act {
 public:
  Act(const NvmlLibrary& library, int index)
      : library_(library), nvml_(library.functions()), index_(index) {}

  absl::Status Begin() {
    const bool whole = nvml_.instance_by_id != nullptr && nvml_.create != nullptr &&
                       nvml_.destroy != nullptr && nvml_.instance != nullptr &&
                       nvml_.compute_profile != nullptr && nvml_.compute_instances != nullptr &&
                       nvml_.compute_create != nullptr && nvml_.compute_instance != nullptr &&
                       nvml_.compute_destroy != nullptr && nvml_.most_mig_devices != nullptr &&
                       nvml_.mig_device != nullptr && nvml_.gpu_instance_id != nullptr &&
                       nvml_.compute_instance_id != nullptr;
    if (!whole) {
      return Refused("MIG_UNSUPPORTED",
                     "the driver's library has not all functions that MIG takes; "
                     "install a driver of release 470 or newer");
    }
    return Check("be asked for", nvml_.handle(static_cast<unsigned int>(index_), &device_));
  }

  absl::StatusOr<int> Create(int profile, Placement placement) {
    const nvml::Placement wanted = {static_cast<unsigned int>(placement.start),
                                    static_cast<unsigned int>(placement.size)};
    nvml::GpuInstance made = nullptr;
    CAPSTAN_RETURN_IF_ERROR(
        Check("make a GPU instance",
              nvml_.create(device_, static_cast<unsigned int>(profile), &wanted, &made)));
    nvml::GpuInstanceInfo info = {};
    CAPSTAN_RETURN_IF_ERROR(Check("say what it has made", nvml_.instance(made, &info)));
    return static_cast<int>(info.id);
  }

  // Null: there is none.
  absl::StatusOr<nvml::GpuInstance> Find(int instance) {
    nvml::GpuInstance found = nullptr;
    const nvml::Return got =
        nvml_.instance_by_id(device_, static_cast<unsigned int>(instance), &found);
    if (got == nvml::kNotFound) return nullptr;
    CAPSTAN_RETURN_IF_ERROR(Check("find its GPU instance", got));
    return found;
  }

  absl::StatusOr<std::string> Complete(nvml::GpuInstance instance, unsigned int slices) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<Compute> there, Computes(instance));
    if (there.size() == 1 && there[0].slices == slices) return NameOf(there[0].handle);
    // Of someone else's making, or cut off half-way.
    for (const Compute& compute : there) {
      CAPSTAN_RETURN_IF_ERROR(
          Check("remove a compute instance", nvml_.compute_destroy(compute.handle)));
    }
    CAPSTAN_ASSIGN_OR_RETURN(const unsigned int profile, ProfileOfAll(instance, slices));
    nvml::ComputeInstance made = nullptr;
    CAPSTAN_RETURN_IF_ERROR(
        Check("make a compute instance", nvml_.compute_create(instance, profile, &made)));
    return NameOf(made);
  }

  absl::Status Destroy(nvml::GpuInstance instance) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<Compute> there, Computes(instance));
    for (const Compute& compute : there) {
      CAPSTAN_RETURN_IF_ERROR(
          Check("remove a compute instance", nvml_.compute_destroy(compute.handle)));
    }
    return Check("remove a GPU instance", nvml_.destroy(instance));
  }

  absl::StatusOr<MigDeviceIds> IdsOf(const std::string& name) {
    absl::StatusOr<MigDeviceIds> found =
        Later("NVML_FAILED", absl::StrCat("GPU ", index_, " has no MIG device ", name));
    CAPSTAN_RETURN_IF_ERROR(EachMigDevice([&](nvml::Device mig, const MigDeviceIds& ids) {
      char uuid[nvml::kUuidBytes] = {};
      const nvml::Return got = nvml_.uuid(mig, uuid, sizeof uuid);
      if (got == nvml::kSuccess && std::string(uuid, strnlen(uuid, sizeof uuid)) == name) {
        found = ids;
      }
    }));
    return found;
  }

 private:
  struct Compute {
    nvml::ComputeInstance handle = nullptr;
    unsigned int slices = 0;
  };

  absl::Status Check(absl::string_view act, nvml::Return code) const {
    if (code == nvml::kSuccess) return absl::OkStatus();
    const std::string what =
        absl::StrCat("GPU ", index_, " can't ", act, ": ", library_.Words(code));
    switch (code) {
      case nvml::kInUse:
        return Later("MIG_IN_USE", absl::StrCat(what,
                                                "; a process still uses it, which nvidia-smi "
                                                "names: it is tried again"));
      case nvml::kInsufficientResources:
        return Later("MIG_NO_ROOM", absl::StrCat(what,
                                                 "; something else has its place, which "
                                                 "`nvidia-smi mig -lgi` shows"));
      case nvml::kNoPermission:
        return Refused("MIG_NOT_ALLOWED",
                       absl::StrCat(what,
                                    "; run this as root, or let it open "
                                    "/proc/driver/nvidia/capabilities/mig/config"));
      case nvml::kGpuIsLost:
      case nvml::kResetRequired:
        return Refused("GPU_FAULT", absl::StrCat(what, "; reset it, or restart the machine"));
      case nvml::kInvalidArgument:
      case nvml::kNotSupported:
      case nvml::kFunctionNotFound:
        return Refused("MIG_UNSUPPORTED", absl::StrCat(what,
                                                       "; see `nvidia-smi mig -lgipp` for "
                                                       "what this driver can make"));
      default:
        return Later("NVML_FAILED", what);
    }
  }

  // Asks for every profile of compute instances that the GPU instance has.
  template <typename Look>
  absl::Status EachProfile(nvml::GpuInstance instance, Look look) {
    for (unsigned int number = 0; number < kMostComputeProfiles; ++number) {
      nvml::ComputeProfileInfo profile = {};
      const nvml::Return got =
          nvml_.compute_profile(instance, number, nvml::kEnginesShared, &profile);
      if (got == nvml::kInvalidArgument && number >= nvml::kComputeProfileCount) break;
      if (got == nvml::kInvalidArgument || got == nvml::kNotSupported) continue;
      CAPSTAN_RETURN_IF_ERROR(Check("tell its compute profiles", got));
      CAPSTAN_RETURN_IF_ERROR(look(profile));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Compute>> Computes(nvml::GpuInstance instance) {
    std::vector<Compute> computes;
    CAPSTAN_RETURN_IF_ERROR(
        EachProfile(instance, [&](const nvml::ComputeProfileInfo& profile) -> absl::Status {
          std::vector<nvml::ComputeInstance> handles(kMostComputeInstances);
          unsigned int count = kMostComputeInstances;
          const nvml::Return got =
              nvml_.compute_instances(instance, profile.id, handles.data(), &count);
          if (got == nvml::kNotSupported) return absl::OkStatus();
          CAPSTAN_RETURN_IF_ERROR(Check("list its compute instances", got));
          handles.resize(std::min(count, kMostComputeInstances));
          for (const nvml::ComputeInstance handle : handles) {
            // Two profiles of one size may list the same.
            const auto same = [handle](const Compute& known) { return known.handle == handle; };
            if (std::any_of(computes.begin(), computes.end(), same)) continue;
            computes.push_back({handle, profile.slice_count});
          }
          return absl::OkStatus();
        }));
    return computes;
  }

  absl::StatusOr<unsigned int> ProfileOfAll(nvml::GpuInstance instance, unsigned int slices) {
    bool is_found = false;
    unsigned int id = 0;
    CAPSTAN_RETURN_IF_ERROR(
        EachProfile(instance, [&](const nvml::ComputeProfileInfo& profile) -> absl::Status {
          if (!is_found && profile.slice_count == slices) {
            is_found = true;
            id = profile.id;
          }
          return absl::OkStatus();
        }));
    if (is_found) return id;
    return Refused("MIG_UNSUPPORTED",
                   absl::StrCat("GPU ", index_, " has no compute instance of ", slices,
                                " slices for a GPU instance of so many"));
  }

  absl::StatusOr<std::string> NameOf(nvml::ComputeInstance compute) {
    nvml::ComputeInstanceInfo info = {};
    CAPSTAN_RETURN_IF_ERROR(
        Check("tell its compute instance", nvml_.compute_instance(compute, &info)));
    nvml::GpuInstanceInfo parent = {};
    CAPSTAN_RETURN_IF_ERROR(
        Check("tell its GPU instance", nvml_.instance(info.gpu_instance, &parent)));
    nvml::Device device = nullptr;
    CAPSTAN_RETURN_IF_ERROR(EachMigDevice([&](nvml::Device mig, const MigDeviceIds& ids) {
      if (ids.gpu_instance == static_cast<int>(parent.id) &&
          ids.compute_instance == static_cast<int>(info.id)) {
        device = mig;
      }
    }));
    if (device == nullptr) {
      return Later("NVML_FAILED", absl::StrCat("GPU ", index_,
                                               " has no MIG device for the instance that it made"));
    }
    char uuid[nvml::kUuidBytes] = {};
    CAPSTAN_RETURN_IF_ERROR(Check("name its MIG device", nvml_.uuid(device, uuid, sizeof uuid)));
    return std::string(uuid, strnlen(uuid, sizeof uuid));
  }

  template <typename Look>
  absl::Status EachMigDevice(Look look) {
    unsigned int count = 0;
    CAPSTAN_RETURN_IF_ERROR(
        Check("count its MIG devices", nvml_.most_mig_devices(device_, &count)));
    for (unsigned int number = 0; number < std::min(count, kMostComputeInstances); ++number) {
      nvml::Device mig = nullptr;
      unsigned int gpu_instance = 0;
      unsigned int compute_instance = 0;
      // Numbers have gaps.
      if (nvml_.mig_device(device_, number, &mig) != nvml::kSuccess) continue;
      if (nvml_.gpu_instance_id(mig, &gpu_instance) != nvml::kSuccess ||
          nvml_.compute_instance_id(mig, &compute_instance) != nvml::kSuccess) {
        continue;
      }
      look(mig, MigDeviceIds{static_cast<int>(gpu_instance), static_cast<int>(compute_instance)});
    }
    return absl::OkStatus();
  }

  const NvmlLibrary& library_;
  const NvmlFunctions& nvml_;
  const int index_;
  nvml::Device device_ = nullptr;
};

NvmlMig::NvmlMig(std::unique_ptr<NvmlLibrary> library) : library_(std::move(library)) {}

absl::StatusOr<std::unique_ptr<NvmlMig>> NvmlMig::Open(const std::string& library) {
  CAPSTAN_ASSIGN_OR_RETURN(auto opened, NvmlLibrary::Open(library));
  return std::unique_ptr<NvmlMig>(new NvmlMig(std::move(opened)));
}

absl::StatusOr<Gpu> NvmlMig::Look(int index) const {
  unsigned int count = 0;
  const nvml::Return got = library_->functions().count(&count);
  if (got != nvml::kSuccess) {
    return Later("NVML_FAILED", absl::StrCat("the driver does not say which GPUs there are: ",
                                             library_->Words(got)));
  }
  if (index < 0 || static_cast<unsigned int>(index) >= std::min(count, kMostDevices)) {
    return Refused("NO_SUCH_GPU",
                   absl::StrCat("the Node has no GPU ", index, "; the driver knows ", count));
  }
  Gpu gpu = ReadGpu(library_->functions(), index);
  const std::string who = absl::StrCat("GPU ", index, " (", gpu.product, ")");
  // A row that waits to be remapped is no reason to leave an instance where it is.
  if (gpu.fault == Fault::kUnreadable) {
    return Later("NVML_FAILED", absl::StrCat(who, " can't be used: ", FaultText(*gpu.fault)));
  }
  if (gpu.fault == Fault::kLost || gpu.fault == Fault::kNeedsReset) {
    return Refused("GPU_FAULT", absl::StrCat(who, " can't be used: ", FaultText(*gpu.fault)));
  }
  if (!gpu.mig.has_value() || !gpu.mig->now) {
    return Refused("MIG_OFF",
                   absl::StrCat(who, " is not in MIG mode",
                                gpu.mig.has_value() ? "; `nvidia-smi -mig 1` turns it on, which is "
                                                      "left to the machine's operator"
                                                    : ", which it does not have"));
  }
  if (!gpu.instances.has_value()) {
    return Refused("MIG_NOT_ALLOWED",
                   absl::StrCat(who, " does not tell its MIG instances; run this as root"));
  }
  return gpu;
}

absl::StatusOr<int> NvmlMig::Create(int index, int profile, Placement placement) const {
  Act act(*library_, index);
  CAPSTAN_RETURN_IF_ERROR(act.Begin());
  return act.Create(profile, placement);
}

absl::StatusOr<std::string> NvmlMig::Complete(int index, int instance) const {
  CAPSTAN_ASSIGN_OR_RETURN(const Gpu gpu, Look(index));
  const auto same = [instance](const GpuInstance& known) { return known.id == instance; };
  const auto stands = std::find_if(gpu.instances->begin(), gpu.instances->end(), same);
  const auto profile =
      std::find_if(gpu.profiles.begin(), gpu.profiles.end(), [&](const GpuProfile& known) {
        return stands != gpu.instances->end() && known.id == stands->profile;
      });
  Act act(*library_, index);
  CAPSTAN_RETURN_IF_ERROR(act.Begin());
  CAPSTAN_ASSIGN_OR_RETURN(const nvml::GpuInstance handle, act.Find(instance));
  if (handle == nullptr || profile == gpu.profiles.end()) {
    return Later("NVML_FAILED", absl::StrCat("GPU ", index, " has no GPU instance ", instance,
                                             " any more; someone else has removed it"));
  }
  return act.Complete(handle, static_cast<unsigned int>(profile->compute_slices));
}

absl::StatusOr<MigDeviceIds> NvmlMig::IdsOf(int index, const std::string& name) const {
  Act act(*library_, index);
  CAPSTAN_RETURN_IF_ERROR(act.Begin());
  return act.IdsOf(name);
}

absl::Status NvmlMig::Destroy(int index, int instance) const {
  Act act(*library_, index);
  CAPSTAN_RETURN_IF_ERROR(act.Begin());
  CAPSTAN_ASSIGN_OR_RETURN(const nvml::GpuInstance handle, act.Find(instance));
  return handle == nullptr ? absl::OkStatus() : act.Destroy(handle);
}

}  // namespace capstan::gpu
