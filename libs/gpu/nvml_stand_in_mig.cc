// The part of the stand-in for NVML that knows of GPU instances: see nvml_stand_in.cc.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "libs/gpu/nvml_stand_in.h"
#include "libs/gpu/nvml_stand_in_types.h"

namespace {

using capstan::gpu::Scene;
using capstan::gpu::SceneComputeInstance;
using capstan::gpu::SceneDevice;
using capstan::gpu::SceneGpuInstance;
using capstan::gpu::SceneProfile;

using nvmlGpuInstance_t = SceneGpuInstance*;
using nvmlComputeInstance_t = SceneComputeInstance*;

struct nvmlGpuInstancePlacement_t {
  unsigned int start;
  unsigned int size;
};

struct nvmlGpuInstanceProfileInfo_t {
  unsigned int id;
  unsigned int isP2pSupported;
  unsigned int sliceCount;
  unsigned int instanceCount;
  unsigned int multiprocessorCount;
  unsigned int copyEngineCount;
  unsigned int decoderCount;
  unsigned int encoderCount;
  unsigned int jpegCount;
  unsigned int ofaCount;
  unsigned long long memorySizeMB;  // NOLINT(google-runtime-int)
};

struct nvmlGpuInstanceProfileInfo_v2_t {
  unsigned int version;
  unsigned int id;
  unsigned int isP2pSupported;
  unsigned int sliceCount;
  unsigned int instanceCount;
  unsigned int multiprocessorCount;
  unsigned int copyEngineCount;
  unsigned int decoderCount;
  unsigned int encoderCount;
  unsigned int jpegCount;
  unsigned int ofaCount;
  unsigned long long memorySizeMB;  // NOLINT(google-runtime-int)
  char name[96];
};

struct nvmlGpuInstanceProfileInfo_v3_t {
  unsigned int version;
  unsigned int id;
  unsigned int sliceCount;
  unsigned int instanceCount;
  unsigned int multiprocessorCount;
  unsigned int copyEngineCount;
  unsigned int decoderCount;
  unsigned int encoderCount;
  unsigned int jpegCount;
  unsigned int ofaCount;
  unsigned long long memorySizeMB;  // NOLINT(google-runtime-int)
  char name[96];
  unsigned int capabilities;
};

struct nvmlGpuInstanceInfo_t {
  nvmlDevice_t device;
  unsigned int id;
  unsigned int profileId;
  nvmlGpuInstancePlacement_t placement;
};

struct nvmlComputeInstanceProfileInfo_t {
  unsigned int id;
  unsigned int sliceCount;
  unsigned int instanceCount;
  unsigned int multiprocessorCount;
  unsigned int sharedCopyEngineCount;
  unsigned int sharedDecoderCount;
  unsigned int sharedEncoderCount;
  unsigned int sharedJpegCount;
  unsigned int sharedOfaCount;
};

struct nvmlComputeInstanceInfo_t {
  nvmlDevice_t device;
  nvmlGpuInstance_t gpuInstance;
  unsigned int id;
  unsigned int profileId;
  nvmlGpuInstancePlacement_t placement;
};

// NVML_GPU_INSTANCE_PROFILE_COUNT of the release that this stands in for.
constexpr unsigned int kProfileCount = 0x12;
// NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE…7_SLICE have these slices and, here, ids 0…4.
constexpr unsigned int kComputeSlices[] = {1, 2, 3, 4, 7};

Scene& Shown() { return *CapstanNvmlScene(); }

const SceneProfile* ById(const SceneDevice& device, unsigned int id) {
  for (const SceneProfile& profile : device.profiles) {
    if (profile.id == id) return &profile;
  }
  return nullptr;
}

SceneDevice* ParentOf(const SceneGpuInstance* instance) {
  for (SceneDevice& device : Shown().devices) {
    for (const SceneGpuInstance& known : device.instances) {
      if (&known == instance) return &device;
    }
  }
  return nullptr;
}

unsigned int SlicesOf(const SceneGpuInstance& instance) {
  return ById(*ParentOf(&instance), instance.profile_id)->slices;
}

// What every call about instances of a GPU checks first.
nvmlReturn_t CheckMig(const char* function, const SceneDevice& device) {
  if (device.lost) return NVML_ERROR_GPU_IS_LOST;
  if (const nvmlReturn_t wanted = Wanted(function)) return wanted;
  if (!device.mig_now) return NVML_ERROR_NOT_SUPPORTED;
  return Shown().unprivileged ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS;
}

nvmlReturn_t FindByNumber(const SceneDevice& device, unsigned int number,
                          const SceneProfile** found) {
  if (number >= kProfileCount) return NVML_ERROR_INVALID_ARGUMENT;
  for (const SceneProfile& profile : device.profiles) {
    if (profile.number != number) continue;
    *found = &profile;
    return NVML_SUCCESS;
  }
  return Shown().absent_is_invalid ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
}

std::string PlaceOf(const SceneGpuInstance& instance) {
  return std::to_string(instance.profile_id) + "@" + std::to_string(instance.start);
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* corrRows,
                                       unsigned int* uncRows, unsigned int* isPending,
                                       unsigned int* failureOccurred) {
  if (device->lost) return NVML_ERROR_GPU_IS_LOST;
  if (device->mig_now) return NVML_ERROR_NOT_SUPPORTED;
  *corrRows = 0;
  *uncRows = 0;
  *isPending = device->rows_pending ? 1 : 0;
  *failureOccurred = device->rows_failed ? 1 : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* currentMode,
                                  unsigned int* pendingMode) {
  if (!device->mig_capable) return NVML_ERROR_NOT_SUPPORTED;
  *currentMode = device->mig_now ? 1 : 0;
  *pendingMode = device->mig_pending ? 1 : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int number,
                                                 nvmlGpuInstanceProfileInfo_t* info) {
  const SceneProfile* profile = nullptr;
  if (const nvmlReturn_t failed = FindByNumber(*device, number, &profile)) return failed;
  *info = {profile->id, 1, profile->slices, profile->most, 0, 0, 0, 0, 0, 0, profile->memory_mb};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int number,
                                                  nvmlGpuInstanceProfileInfo_v2_t* info) {
  const unsigned int version = info->version >> 24;
  if (version < 2 || version > Shown().newest_profile_version ||
      (info->version & 0xFFFFFF) != (version == 2 ? sizeof(nvmlGpuInstanceProfileInfo_v2_t)
                                                  : sizeof(nvmlGpuInstanceProfileInfo_v3_t))) {
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  }
  const SceneProfile* profile = nullptr;
  if (const nvmlReturn_t failed = FindByNumber(*device, number, &profile)) return failed;
  if (version == 2) {
    *info = {info->version,      profile->id, 1, profile->slices, profile->most, 0, 0, 0, 0, 0, 0,
             profile->memory_mb, {}};
    return Copy(profile->name, info->name, sizeof info->name);
  }
  auto* newest = reinterpret_cast<nvmlGpuInstanceProfileInfo_v3_t*>(info);
  *newest = {info->version,
             profile->id,
             profile->slices,
             profile->most,
             0,
             0,
             0,
             0,
             0,
             0,
             profile->memory_mb,
             {},
             0};
  return Copy(profile->name, newest->name, sizeof newest->name);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device,
                                                           unsigned int profileId,
                                                           nvmlGpuInstancePlacement_t* placements,
                                                           unsigned int* count) {
  if (Shown().unprivileged) return NVML_ERROR_NO_PERMISSION;
  const SceneProfile* profile = ById(*device, profileId);
  if (profile == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned int>(profile->starts.size());
  if (placements == nullptr) return NVML_SUCCESS;
  // The driver's order is its own.
  for (size_t i = 0; i < profile->starts.size(); ++i) {
    placements[i] = {profile->starts[profile->starts.size() - 1 - i], profile->size};
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profileId,
                                       nvmlGpuInstance_t* gpuInstances, unsigned int* count) {
  if (const nvmlReturn_t failed = CheckMig("nvmlDeviceGetGpuInstances", *device)) return failed;
  if (ById(*device, profileId) == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  for (SceneGpuInstance& instance : device->instances) {
    if (instance.profile_id == profileId) gpuInstances[(*count)++] = &instance;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t* info) {
  *info = {
      ParentOf(instance), instance->id, instance->profile_id, {instance->start, instance->size}};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id,
                                          nvmlGpuInstance_t* found) {
  if (const nvmlReturn_t failed = CheckMig("nvmlDeviceGetGpuInstanceById", *device)) return failed;
  for (SceneGpuInstance& instance : device->instances) {
    if (instance.id != id) continue;
    *found = &instance;
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profileId,
                                                      const nvmlGpuInstancePlacement_t* placement,
                                                      nvmlGpuInstance_t* made) {
  if (const nvmlReturn_t failed = CheckMig("nvmlDeviceCreateGpuInstanceWithPlacement", *device)) {
    return failed;
  }
  const SceneProfile* profile = ById(*device, profileId);
  if (profile == nullptr || placement->size != profile->size ||
      std::find(profile->starts.begin(), profile->starts.end(), placement->start) ==
          profile->starts.end()) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  unsigned int used = profile->slices;
  unsigned int of_kind = 1;
  for (const SceneGpuInstance& other : device->instances) {
    if (placement->start < other.start + other.size &&
        other.start < placement->start + placement->size) {
      return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    used += SlicesOf(other);
    of_kind += other.profile_id == profileId ? 1 : 0;
  }
  if (used > 7 || of_kind > profile->most) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  unsigned int id = 1;
  const auto taken = [device](unsigned int wanted) {
    return std::any_of(device->instances.begin(), device->instances.end(),
                       [wanted](const SceneGpuInstance& other) { return other.id == wanted; });
  };
  while (taken(id)) ++id;
  device->instances.push_back({id, profileId, placement->start, placement->size});
  *made = &device->instances.back();
  Shown().changes.push_back("+" + PlaceOf(**made));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
  SceneDevice* device = ParentOf(instance);
  if (device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (const nvmlReturn_t failed = CheckMig("nvmlGpuInstanceDestroy", *device)) return failed;
  if (!instance->computes.empty()) return NVML_ERROR_IN_USE;
  Shown().changes.push_back("-" + PlaceOf(*instance));
  device->instances.remove_if(
      [instance](const SceneGpuInstance& known) { return &known == instance; });
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance,
                                                          unsigned int profile,
                                                          unsigned int engProfile,
                                                          nvmlComputeInstanceProfileInfo_t* info) {
  if (profile > 8 || engProfile != 0) return NVML_ERROR_INVALID_ARGUMENT;
  if (profile >= std::size(kComputeSlices) || kComputeSlices[profile] > SlicesOf(*instance)) {
    return Shown().absent_is_invalid ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
  }
  const unsigned int slices = kComputeSlices[profile];
  *info = {profile, slices, SlicesOf(*instance) / slices, 0, 0, 0, 0, 0, 0};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int profileId,
                                                nvmlComputeInstance_t* computeInstances,
                                                unsigned int* count) {
  if (const nvmlReturn_t wanted = Wanted("nvmlGpuInstanceGetComputeInstances")) return wanted;
  if (profileId >= std::size(kComputeSlices)) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  for (SceneComputeInstance& compute : instance->computes) {
    if (compute.slices == kComputeSlices[profileId]) computeInstances[(*count)++] = &compute;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance,
                                                  unsigned int profileId,
                                                  nvmlComputeInstance_t* made) {
  if (const nvmlReturn_t wanted = Wanted("nvmlGpuInstanceCreateComputeInstance")) return wanted;
  if (profileId >= std::size(kComputeSlices)) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned int used = kComputeSlices[profileId];
  unsigned int id = 0;
  for (const SceneComputeInstance& other : instance->computes) {
    used += other.slices;
    id = std::max(id, other.id + 1);
  }
  if (used > SlicesOf(*instance)) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  SceneComputeInstance& compute = instance->computes.emplace_back();
  compute.id = id;
  compute.slices = kComputeSlices[profileId];
  compute.start = used - compute.slices;
  compute.device = std::make_shared<SceneDevice>();
  compute.device->uuid = "MIG-" + std::to_string(++Shown().named);
  compute.device->gpu_instance = instance->id;
  compute.device->compute_instance = id;
  *made = &compute;
  Shown().changes.push_back("+c" + std::to_string(compute.slices));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute,
                                           nvmlComputeInstanceInfo_t* info) {
  for (SceneDevice& device : Shown().devices) {
    for (SceneGpuInstance& instance : device.instances) {
      for (const SceneComputeInstance& known : instance.computes) {
        if (&known != compute) continue;
        const auto* slices =
            std::find(std::begin(kComputeSlices), std::end(kComputeSlices), known.slices);
        *info = {&device,
                 &instance,
                 known.id,
                 static_cast<unsigned int>(slices - std::begin(kComputeSlices)),
                 {known.start, known.slices}};
        return NVML_SUCCESS;
      }
    }
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute) {
  if (const nvmlReturn_t wanted = Wanted("nvmlComputeInstanceDestroy")) return wanted;
  nvmlComputeInstanceInfo_t info = {};
  if (const nvmlReturn_t failed = nvmlComputeInstanceGetInfo_v2(compute, &info)) return failed;
  if (compute->in_use) return NVML_ERROR_IN_USE;
  Shown().changes.push_back("-c" + std::to_string(compute->slices));
  info.gpuInstance->computes.remove_if(
      [compute](const SceneComputeInstance& known) { return &known == compute; });
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  *count = device->mig_now ? 7 : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t* migDevice) {
  // MIG devices come and go; numbers without one are in between.
  for (const SceneGpuInstance& instance : device->instances) {
    for (const SceneComputeInstance& compute : instance.computes) {
      if (index-- != 0) continue;
      *migDevice = compute.device.get();
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* id) {
  *id = device->gpu_instance;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int* id) {
  *id = device->compute_instance;
  return NVML_SUCCESS;
}

}  // extern "C"
