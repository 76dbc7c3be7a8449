#ifndef CAPSTAN_LIBS_GPU_NVML_MIG_H_
#define CAPSTAN_LIBS_GPU_NVML_MIG_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/nvml_library.h"

namespace capstan::gpu {

// A MIG device's place, by the driver's numbers.
struct MigDeviceIds {
  int gpu_instance = 0;
  int compute_instance = 0;
};

// Makes and destroys MIG instances of this machine's GPUs through NVML: single acts; what is to stand
// where is the caller's to know. Never changes a GPU's MIG mode. What it makes is gone when the GPU
// is reset or the machine restarts. Blocks in the driver, on a broken device perhaps for ever. One
// thread at a time.
//
// Errors say what to do. FAILED_PRECONDITION: it will not do before someone changes something
// (reasons NO_SUCH_GPU, MIG_OFF, GPU_FAULT, MIG_NOT_ALLOWED, MIG_UNSUPPORTED). UNAVAILABLE: it may do
// later (MIG_IN_USE, MIG_NO_ROOM, NVML_FAILED).
class NvmlMig {
 public:
  // NOT_FOUND, reason NO_NVML, as NvmlLibrary::Open.
  static absl::StatusOr<std::unique_ptr<NvmlMig>> Open(const std::string& library = kNvmlLibrary);

  // GPU `index` as it is now. Its `instances` are there. FAILED_PRECONDITION unless it is in MIG
  // mode and its instances may be seen.
  absl::StatusOr<Gpu> Look(int index) const;
  // Makes a GPU instance of the profile (GpuProfile::id) at exactly this placement; returns its id.
  // MIG_NO_ROOM if something stands in its way.
  absl::StatusOr<int> Create(int index, int profile, Placement placement) const;
  // Sees to it that the GPU instance has one compute instance, which takes all of it, and returns
  // the name of that as CUDA knows it, `MIG-<uuid>`. Idempotent.
  absl::StatusOr<std::string> Complete(int index, int instance) const;
  // Which instances the MIG device of this name, `MIG-<uuid>`, is. NVML_FAILED if the GPU has none of
  // that name.
  absl::StatusOr<MigDeviceIds> IdsOf(int index, const std::string& name) const;
  // Destroys the GPU instance with its compute instances. OK if there is none. MIG_IN_USE while a
  // process is on it.
  absl::Status Destroy(int index, int instance) const;

 private:
  class Act;
  explicit NvmlMig(std::unique_ptr<NvmlLibrary> library);

  const std::unique_ptr<NvmlLibrary> library_;
};

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_NVML_MIG_H_
