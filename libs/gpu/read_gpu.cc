#include "libs/gpu/read_gpu.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "libs/gpu/nvml_abi.h"

namespace capstan::gpu {
namespace {

// More than any library knows of; one that knows more is not asked for the rest.
constexpr unsigned int kMostProfiles = 64;
// Placements and instances of one profile: there are at most 8 memory slices.
constexpr unsigned int kMostPlacements = 64;
// Of a GPU's device file; those above are the driver's own.
constexpr unsigned int kMostMinor = 253;
constexpr int64_t kMegabyte = int64_t{1} << 20;

template <size_t kSize>
std::string Text(const char (&text)[kSize]) {
  return {text, strnlen(text, kSize)};
}

ProfileKind KindOf(unsigned int profile) {
  if (profile <= nvml::kProfile6Slice || profile == nvml::kProfile1SliceRev2) {
    return ProfileKind::kPlain;
  }
  if (profile == nvml::kProfile1SliceRev1 || profile == nvml::kProfile2SliceRev1) {
    return ProfileKind::kMedia;
  }
  return ProfileKind::kOther;
}

template <typename Info>
GpuProfile ProfileOf(unsigned int profile, const Info& info) {
  GpuProfile known;
  known.id = static_cast<int>(info.id);
  known.kind = KindOf(profile);
  known.compute_slices = static_cast<int>(info.slice_count);
  known.most = static_cast<int>(std::min(info.instance_count, kMostPlacements));
  known.memory_bytes = static_cast<int64_t>(info.memory_size_mb) * kMegabyte;
  return known;
}

// As written in Tasks: some drivers put `MIG ` before it.
std::string ProfileName(const std::string& text) {
  return std::string(absl::StripPrefix(text, "MIG "));
}

class Reading {
 public:
  Reading(const NvmlFunctions& nvml, int index) : nvml_(nvml) { gpu_.index = index; }

  Gpu Read() && {
    if (!Good(nvml_.handle(static_cast<unsigned int>(gpu_.index), &device_))) {
      return Unreadable();
    }
    char uuid[nvml::kUuidBytes] = {};
    if (!Good(nvml_.uuid(device_, uuid, sizeof uuid))) return Unreadable();
    gpu_.uuid = Text(uuid);
    char name[nvml::kNameBytes] = {};
    if (nvml_.name != nullptr && Good(nvml_.name(device_, name, sizeof name))) {
      gpu_.product = Text(name);
    }
    unsigned int minor = 0;
    if (nvml_.minor != nullptr && Good(nvml_.minor(device_, &minor)) && minor <= kMostMinor) {
      gpu_.minor = static_cast<int>(minor);
    }
    nvml::Memory memory = {};
    if (nvml_.memory != nullptr && Good(nvml_.memory(device_, &memory))) {
      gpu_.memory_bytes = static_cast<int64_t>(memory.total);
    }
    ReadRows();
    ReadMig();
    return std::move(gpu_);
  }

 private:
  // Notes what the answer says of the GPU beside its value.
  bool Good(nvml::Return code) {
    if (code == nvml::kGpuIsLost) gpu_.fault = Fault::kLost;
    if (code == nvml::kResetRequired && gpu_.fault != Fault::kLost) {
      gpu_.fault = Fault::kNeedsReset;
    }
    return code == nvml::kSuccess;
  }

  Gpu Unreadable() {
    if (!gpu_.fault.has_value()) gpu_.fault = Fault::kUnreadable;
    return std::move(gpu_);
  }

  void ReadRows() {
    if (nvml_.remapped_rows == nullptr) return;
    unsigned int correctable = 0;
    unsigned int uncorrectable = 0;
    unsigned int pending = 0;
    unsigned int failed = 0;
    // Not told of a GPU on which instances stand, nor of models without such rows.
    if (!Good(nvml_.remapped_rows(device_, &correctable, &uncorrectable, &pending, &failed))) {
      return;
    }
    if (gpu_.fault.has_value()) return;
    if (pending != 0) gpu_.fault = Fault::kRowsPending;
    if (failed != 0) gpu_.fault = Fault::kRowsFailed;
  }

  void ReadMig() {
    unsigned int now = 0;
    unsigned int pending = 0;
    if (nvml_.mig_mode == nullptr || !Good(nvml_.mig_mode(device_, &now, &pending))) return;
    gpu_.mig = MigMode{now == nvml::kMigEnabled, pending == nvml::kMigEnabled};
    for (unsigned int number = 0; number < kMostProfiles; ++number) {
      absl::optional<GpuProfile> profile;
      const nvml::Return got = ReadProfile(number, &profile);
      if (got == nvml::kInvalidArgument && number >= nvml::kProfileCount) break;
      if (!profile.has_value()) continue;
      profile->placements = ReadPlacements(*profile);
      gpu_.profiles.push_back(*std::move(profile));
    }
    if (gpu_.mig->now) ReadInstances();
  }

  // By the newest struct that the library takes: only those with a version have a name.
  nvml::Return ReadProfile(unsigned int number, absl::optional<GpuProfile>* profile) {
    if (nvml_.profile_v != nullptr) {
      nvml::ProfileInfoV3 newest = {};
      newest.version = nvml::VersionOf<nvml::ProfileInfoV3>(3);
      if (Good(nvml_.profile_v(device_, number, &newest))) {
        *profile = ProfileOf(number, newest);
        (*profile)->name = ProfileName(Text(newest.name));
        return nvml::kSuccess;
      }
      nvml::ProfileInfoV2 newer = {};
      newer.version = nvml::VersionOf<nvml::ProfileInfoV2>(2);
      if (Good(nvml_.profile_v(device_, number, &newer))) {
        *profile = ProfileOf(number, newer);
        (*profile)->name = ProfileName(Text(newer.name));
        return nvml::kSuccess;
      }
    }
    if (nvml_.profile == nullptr) return nvml::kNotSupported;
    nvml::ProfileInfo info = {};
    const nvml::Return got = nvml_.profile(device_, number, &info);
    if (Good(got)) *profile = ProfileOf(number, info);
    return got;
  }

  absl::optional<std::vector<Placement>> ReadPlacements(const GpuProfile& profile) {
    if (nvml_.placements == nullptr) return absl::nullopt;
    const auto id = static_cast<unsigned int>(profile.id);
    unsigned int count = 0;
    if (!Good(nvml_.placements(device_, id, nullptr, &count)) || count > kMostPlacements) {
      return absl::nullopt;
    }
    std::vector<nvml::Placement> found(kMostPlacements);
    if (count != 0 && !Good(nvml_.placements(device_, id, found.data(), &count))) {
      return absl::nullopt;
    }
    found.resize(std::min(count, kMostPlacements));
    std::vector<Placement> placements;
    for (const nvml::Placement& one : found) {
      placements.push_back({static_cast<int>(one.start), static_cast<int>(one.size)});
    }
    std::sort(placements.begin(), placements.end(),
              [](const Placement& a, const Placement& b) { return a.start < b.start; });
    return placements;
  }

  void ReadInstances() {
    if (nvml_.instances == nullptr || nvml_.instance == nullptr) return;
    std::vector<GpuInstance> instances;
    for (const GpuProfile& profile : gpu_.profiles) {
      std::vector<nvml::GpuInstance> handles(kMostPlacements);
      unsigned int count = kMostPlacements;
      const nvml::Return got =
          nvml_.instances(device_, static_cast<unsigned int>(profile.id), handles.data(), &count);
      // A list that may lack some is none.
      if (!Good(got)) return;
      handles.resize(std::min(count, kMostPlacements));
      for (const nvml::GpuInstance handle : handles) {
        nvml::GpuInstanceInfo info = {};
        if (!Good(nvml_.instance(handle, &info))) return;
        instances.push_back(
            {static_cast<int>(info.id),
             static_cast<int>(info.profile_id),
             {static_cast<int>(info.placement.start), static_cast<int>(info.placement.size)}});
      }
    }
    std::sort(instances.begin(), instances.end(), [](const GpuInstance& a, const GpuInstance& b) {
      return a.placement.start < b.placement.start;
    });
    gpu_.instances = std::move(instances);
  }

  const NvmlFunctions& nvml_;
  nvml::Device device_ = nullptr;
  Gpu gpu_;
};

}  // namespace

Gpu ReadGpu(const NvmlFunctions& nvml, int index) { return Reading(nvml, index).Read(); }

}  // namespace capstan::gpu
