#include "libs/gpu/mig_table.h"

#include <cstdint>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"

namespace capstan::gpu {
namespace {

absl::Status Differs(const mig::DeviceModel& model, const mig::Profile& profile,
                     const std::string& what) {
  return status::Error(absl::StatusCode::kFailedPrecondition, "MIG_TABLE_DIFFERS",
                       absl::StrCat("profile ", profile.name, " of ", model.name, ": ", what),
                       {{"model", model.name}, {"profile", profile.name}});
}

std::string Starts(uint32_t starts) {
  std::string text;
  for (int start = 0; start < 32; ++start) {
    if ((starts >> start & 1) != 0) absl::StrAppend(&text, text.empty() ? "" : ",", start);
  }
  return text;
}

}  // namespace

const GpuProfile* FindProfile(const Gpu& gpu, const mig::Profile& profile) {
  const ProfileKind kind = profile.media_extensions ? ProfileKind::kMedia : ProfileKind::kPlain;
  const auto found = absl::c_find_if(gpu.profiles, [&](const GpuProfile& known) {
    return known.kind == kind && known.compute_slices == profile.compute_slices &&
           known.placements.has_value() && !known.placements->empty() &&
           known.placements->front().size == profile.memory_slices;
  });
  return found == gpu.profiles.end() ? nullptr : &*found;
}

absl::Status CheckPlacements(const mig::DeviceModel& model, const Gpu& gpu) {
  for (const mig::Profile& profile : model.profiles) {
    const GpuProfile* const known = FindProfile(gpu, profile);
    if (known == nullptr) {
      return Differs(model, profile,
                     absl::StrCat("the driver has none of ", profile.compute_slices,
                                  " compute and ", profile.memory_slices, " memory slices",
                                  profile.media_extensions ? " with media engines" : "",
                                  ", or does not say where it may stand, which takes root"));
    }
    uint32_t starts = 0;
    for (const Placement& placement : *known->placements) {
      if (placement.size != profile.memory_slices || placement.start < 0 || placement.start > 31) {
        return Differs(
            model, profile,
            absl::StrCat("the driver lets one stand at ", placement.start, " with ", placement.size,
                         " memory slices; the table says ", profile.memory_slices));
      }
      starts |= uint32_t{1} << placement.start;
    }
    if (starts != profile.starts) {
      return Differs(model, profile,
                     absl::StrCat("the driver lets it stand at {", Starts(starts),
                                  "}; the table says {", Starts(profile.starts), "}"));
    }
    if (known->most != profile.most) {
      return Differs(model, profile,
                     absl::StrCat("the driver makes at most ", known->most,
                                  " of it on a GPU; the table says ", profile.most));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlacementsAndNames(const mig::DeviceModel& model, const Gpu& gpu) {
  const absl::Status placements = CheckPlacements(model, gpu);
  if (!placements.ok()) return placements;
  for (const mig::Profile& profile : model.profiles) {
    const GpuProfile* const known = FindProfile(gpu, profile);
    if (known->name.empty() || known->name == profile.name) continue;
    return Differs(model, profile, absl::StrCat("the driver calls it ", known->name));
  }
  return absl::OkStatus();
}

}  // namespace capstan::gpu
