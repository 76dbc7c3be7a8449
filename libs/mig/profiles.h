// The MIG profiles of each accelerator model: which instances a GPU can be split into, and where
// each may stand.
//
// Positions are counted in memory slices, 8 of them on most models, 4 on an A30. Sources: NVIDIA's
// Multi-Instance GPU User Guide, chapter "Supported MIG Profiles" (names, slices, counts, `+me`);
// published outputs of `nvidia-smi mig -lgipp` for A100-40, an 80 GB part, H100 NVL and A30, and
// the MIG tables in NVIDIA/k8s-test-infra (starts and sizes). A 3g instance takes 4 memory slices
// and a 7g instance all 8; tables that give them 3 and 7 (go-nvml's mocks) pack what no GPU takes.
#ifndef CAPSTAN_LIBS_MIG_PROFILES_H_
#define CAPSTAN_LIBS_MIG_PROFILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::mig {

// One kind of instance. Profile ids are the driver's own and differ between models: names are the
// key.
struct Profile {
  // As NVIDIA writes it: "3g.40gb", "1g.10gb+me".
  std::string name;
  int compute_slices = 0;
  int memory_slices = 0;
  // Bit i: an instance may begin at memory slice i.
  uint32_t starts = 0;
  // Of this profile on one GPU.
  int most = 0;
  // Has the GPU's media engines (JPEG, OFA), of which there is one set.
  bool media_extensions = false;

  friend bool operator==(const Profile&, const Profile&) = default;
};

// A kind of GPU. A value.
struct DeviceModel {
  // "A100-40GB".
  std::string name;
  int compute_slices = 0;
  int memory_slices = 0;
  // Smallest first.
  std::vector<Profile> profiles;

  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

// Every model there is a table for, by name.
const std::vector<DeviceModel>& DeviceModels();

// Index in DeviceModels(); -1 if there is none of the name.
int ModelIndex(absl::string_view name);

// `mig/h100-80gb`: the name under which memory slices of GPUs of the model in MIG mode count.
std::string SliceResource(const DeviceModel& model);
// Whether it is such a name, of any model or none.
bool IsSliceResource(absl::string_view name);

// NOT_FOUND (UNKNOWN_MIG_MODEL) with the names that there are.
absl::StatusOr<DeviceModel> FindDeviceModel(absl::string_view name);

// The model as a driver knows it that offers fewer profiles: some list neither 1g with twice the
// memory nor `+me`. INVALID_ARGUMENT for a name that the model has not.
absl::StatusOr<DeviceModel> WithoutProfiles(const DeviceModel& model,
                                            const std::vector<std::string>& names);

// What NVIDIA's Kubernetes device plugin calls it with the strategy "mixed":
// "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.me".
std::string ResourceName(const Profile& profile);

// Index in `model.profiles` of what `text` names: a profile's or a resource's name.
// INVALID_ARGUMENT (WRONG_MIG_PROFILE) says what was found and what was expected, and for a name of
// another model of which.
absl::StatusOr<int> ParseProfile(const DeviceModel& model, absl::string_view text);

}  // namespace capstan::mig

#endif  // CAPSTAN_LIBS_MIG_PROFILES_H_
