// Whether a driver places MIG instances as the table of its GPU's model says. Pure.
#ifndef CAPSTAN_LIBS_GPU_MIG_TABLE_H_
#define CAPSTAN_LIBS_GPU_MIG_TABLE_H_

#include "absl/status/status.h"
#include "libs/gpu/device_inventory.h"
#include "libs/mig/profiles.h"

namespace capstan::gpu {

// The driver's profile that is `profile` of the table: the same compute slices, memory slices and
// kind. Null if it has none, or doesn't tell where its instances may stand. Names are not looked at,
// which not every driver gives. The pointer is into `gpu`.
const GpuProfile* FindProfile(const Gpu& gpu, const mig::Profile& profile);

// OK if the driver has every profile of the table, with the same starts and as many at most.
// FAILED_PRECONDITION, reason MIG_TABLE_DIFFERS, with the first difference. What the driver has
// beyond the table does not matter: nobody asks for it.
absl::Status CheckPlacements(const mig::DeviceModel& model, const Gpu& gpu);

// As CheckPlacements, and the driver's names, where it gives them, are the table's.
absl::Status CheckPlacementsAndNames(const mig::DeviceModel& model, const Gpu& gpu);

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_MIG_TABLE_H_
