// The part of NVIDIA's management library (NVML) that Capstan calls, declared anew: its library
// comes with the driver, its header with the CUDA toolkit, which no machine of ours needs.
//
// Source: `nvml.h` of CUDA 12 and the NVML API Reference
// (https://docs.nvidia.com/deploy/nvml-api/): names with their version suffix, values of
// nvmlReturn_t and of the profiles' numbers, layouts of what is passed. nvmlProcessInfo_t is version
// 2, which nvmlDeviceGetComputeRunningProcesses_v2 and _v3 fill. NVIDIA keeps these symbols from
// release to release; what changes gets a new suffix, or a version in the struct.
#ifndef CAPSTAN_LIBS_GPU_NVML_ABI_H_
#define CAPSTAN_LIBS_GPU_NVML_ABI_H_

namespace capstan::gpu::nvml {

// nvmlReturn_t.
using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kFunctionNotFound = 13;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;
inline constexpr Return kInUse = 19;
inline constexpr Return kInsufficientResources = 23;

// The types of the header's own figures.
using Unsigned64 = unsigned long long;  // NOLINT(google-runtime-int)

// nvmlDevice_t, nvmlGpuInstance_t, nvmlComputeInstance_t: opaque.
using Device = struct DeviceHandle*;
using GpuInstance = struct GpuInstanceHandle*;
using ComputeInstance = struct ComputeInstanceHandle*;

// nvmlUtilization_t: per cent.
struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};

// nvmlProcessInfo_v2_t.
struct ProcessInfo {
  unsigned int pid;
  // kNotAvailable where it is not accounted.
  Unsigned64 used_gpu_memory;
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};
// NVML_VALUE_NOT_AVAILABLE as an unsigned long long.
inline constexpr auto kNotAvailable = ~0ULL;

// NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_NAME_V2_BUFFER_SIZE.
inline constexpr unsigned int kUuidBytes = 96;
inline constexpr unsigned int kNameBytes = 96;

// nvmlMemory_t, version 1: bytes.
struct Memory {
  Unsigned64 total;
  Unsigned64 free;
  Unsigned64 used;
};

// NVML_DEVICE_MIG_ENABLE.
inline constexpr unsigned int kMigEnabled = 1;

// NVML_GPU_INSTANCE_PROFILE_*: what a profile is asked by. They count from 0; what comes after the
// last that the library knows is answered kInvalidArgument, which some drivers answer for what
// their GPU has not, too.
inline constexpr unsigned int kProfile8Slice = 5;
inline constexpr unsigned int kProfile6Slice = 6;
inline constexpr unsigned int kProfile1SliceRev1 = 7;
inline constexpr unsigned int kProfile2SliceRev1 = 8;
inline constexpr unsigned int kProfile1SliceRev2 = 9;
// How many the header has.
inline constexpr unsigned int kProfileCount = 0x12;

// nvmlGpuInstancePlacement_t: memory slices.
struct Placement {
  unsigned int start;
  unsigned int size;
};

// nvmlGpuInstanceProfileInfo_t.
struct ProfileInfo {
  // The driver's own, by which all other calls know the profile.
  unsigned int id;
  unsigned int is_p2p_supported;
  unsigned int slice_count;
  unsigned int instance_count;
  unsigned int multiprocessor_count;
  unsigned int copy_engine_count;
  unsigned int decoder_count;
  unsigned int encoder_count;
  unsigned int jpeg_count;
  unsigned int ofa_count;
  Unsigned64 memory_size_mb;
};
// nvmlGpuInstanceProfileInfo_v2_t.
struct ProfileInfoV2 {
  unsigned int version;
  unsigned int id;
  unsigned int is_p2p_supported;
  unsigned int slice_count;
  unsigned int instance_count;
  unsigned int multiprocessor_count;
  unsigned int copy_engine_count;
  unsigned int decoder_count;
  unsigned int encoder_count;
  unsigned int jpeg_count;
  unsigned int ofa_count;
  Unsigned64 memory_size_mb;
  char name[kNameBytes];
};
// nvmlGpuInstanceProfileInfo_v3_t.
struct ProfileInfoV3 {
  unsigned int version;
  unsigned int id;
  unsigned int slice_count;
  unsigned int instance_count;
  unsigned int multiprocessor_count;
  unsigned int copy_engine_count;
  unsigned int decoder_count;
  unsigned int encoder_count;
  unsigned int jpeg_count;
  unsigned int ofa_count;
  Unsigned64 memory_size_mb;
  char name[kNameBytes];
  unsigned int capabilities;
};
// NVML_STRUCT_VERSION: what the `version` of a struct says.
template <typename Struct>
constexpr unsigned int VersionOf(unsigned int version) {
  return static_cast<unsigned int>(sizeof(Struct)) | (version << 24u);
}

// nvmlGpuInstanceInfo_t.
struct GpuInstanceInfo {
  Device device;
  unsigned int id;
  unsigned int profile_id;
  Placement placement;
};

// NVML_COMPUTE_INSTANCE_PROFILE_* count from 0 likewise; how many the header has.
inline constexpr unsigned int kComputeProfileCount = 9;
// NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED.
inline constexpr unsigned int kEnginesShared = 0;

// nvmlComputeInstanceProfileInfo_t.
struct ComputeProfileInfo {
  unsigned int id;
  unsigned int slice_count;
  unsigned int instance_count;
  unsigned int multiprocessor_count;
  unsigned int shared_copy_engine_count;
  unsigned int shared_decoder_count;
  unsigned int shared_encoder_count;
  unsigned int shared_jpeg_count;
  unsigned int shared_ofa_count;
};

// nvmlComputeInstanceInfo_t, version 2; the placement is in compute slices of the GPU instance.
struct ComputeInstanceInfo {
  Device device;
  GpuInstance gpu_instance;
  unsigned int id;
  unsigned int profile_id;
  Placement placement;
};

using Init = Return (*)();
using Shutdown = Return (*)();
using DeviceGetCount = Return (*)(unsigned int* count);
using DeviceGetHandleByIndex = Return (*)(unsigned int index, Device* device);
using DeviceGetUuid = Return (*)(Device device, char* uuid, unsigned int bytes);
using DeviceGetMinorNumber = Return (*)(Device device, unsigned int* minor);
using DeviceGetUtilizationRates = Return (*)(Device device, Utilization* utilization);
// `count` says how many fit, and is told how many there are.
using DeviceGetComputeRunningProcesses = Return (*)(Device device, unsigned int* count,
                                                    ProcessInfo* infos);
using ErrorString = const char* (*)(Return code);
using DeviceGetName = Return (*)(Device device, char* name, unsigned int bytes);
using DeviceGetMemoryInfo = Return (*)(Device device, Memory* memory);
using DeviceGetRemappedRows = Return (*)(Device device, unsigned int* correctable,
                                         unsigned int* uncorrectable, unsigned int* pending,
                                         unsigned int* failed);
using DeviceGetMigMode = Return (*)(Device device, unsigned int* current, unsigned int* pending);
using DeviceGetGpuInstanceProfileInfo = Return (*)(Device device, unsigned int profile,
                                                   ProfileInfo* info);
// `info` is a struct of version 2 or later, which says so itself.
using DeviceGetGpuInstanceProfileInfoV = Return (*)(Device device, unsigned int profile,
                                                    void* info);
// `count` is told how many there are; they are listed if `placements` is not null, for which there
// must be room.
using DeviceGetGpuInstancePossiblePlacements = Return (*)(Device device, unsigned int profile_id,
                                                          Placement* placements,
                                                          unsigned int* count);
// There must be room for as many as the profile's instance_count.
using DeviceGetGpuInstances = Return (*)(Device device, unsigned int profile_id,
                                         GpuInstance* instances, unsigned int* count);
using GpuInstanceGetInfo = Return (*)(GpuInstance instance, GpuInstanceInfo* info);
using DeviceGetGpuInstanceById = Return (*)(Device device, unsigned int id, GpuInstance* instance);
using DeviceCreateGpuInstanceWithPlacement = Return (*)(Device device, unsigned int profile_id,
                                                        const Placement* placement,
                                                        GpuInstance* instance);
using GpuInstanceDestroy = Return (*)(GpuInstance instance);
using GpuInstanceGetComputeInstanceProfileInfo = Return (*)(GpuInstance instance,
                                                            unsigned int profile,
                                                            unsigned int engines,
                                                            ComputeProfileInfo* info);
using GpuInstanceGetComputeInstances = Return (*)(GpuInstance instance, unsigned int profile_id,
                                                  ComputeInstance* instances, unsigned int* count);
using GpuInstanceCreateComputeInstance = Return (*)(GpuInstance instance, unsigned int profile_id,
                                                    ComputeInstance* made);
using ComputeInstanceGetInfo = Return (*)(ComputeInstance instance, ComputeInstanceInfo* info);
using ComputeInstanceDestroy = Return (*)(ComputeInstance instance);
using DeviceGetMaxMigDeviceCount = Return (*)(Device device, unsigned int* count);
using DeviceGetMigDeviceHandleByIndex = Return (*)(Device device, unsigned int index,
                                                   Device* mig_device);
// Of a MIG device.
using DeviceGetInstanceId = Return (*)(Device mig_device, unsigned int* id);

}  // namespace capstan::gpu::nvml

#endif  // CAPSTAN_LIBS_GPU_NVML_ABI_H_
