#ifndef CAPSTAN_LIBS_GPU_DEVICE_INVENTORY_H_
#define CAPSTAN_LIBS_GPU_DEVICE_INVENTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::gpu {

// Where a GPU instance stands, in memory slices.
struct Placement {
  int start = 0;
  int size = 0;

  friend bool operator==(const Placement&, const Placement&) = default;
};

// Engines beside a profile's slices.
enum class ProfileKind {
  kPlain,
  // All media engines (JPEG, OFA): what NVIDIA writes as `+me`.
  kMedia,
  // Graphics, a share of the media engines, or none of them.
  kOther,
};

// One kind of GPU instance, as the driver knows it.
struct GpuProfile {
  // The driver's own number, by which instances are made; it differs between models.
  int id = 0;
  ProfileKind kind = ProfileKind::kPlain;
  // The driver's name, e.g. `1g.10gb+me`; empty if it gives none.
  std::string name = {};
  int compute_slices = 0;
  // Of this profile on one GPU.
  int most = 0;
  int64_t memory_bytes = 0;
  // Where one may stand, by their starts; absent if the driver doesn't tell (not to every user).
  absl::optional<std::vector<Placement>> placements = {};

  friend bool operator==(const GpuProfile&, const GpuProfile&) = default;
};

// A GPU instance that stands now.
struct GpuInstance {
  // The driver's own number, unique on its GPU while it stands.
  int id = 0;
  // GpuProfile::id.
  int profile = 0;
  Placement placement = {};

  friend bool operator==(const GpuInstance&, const GpuInstance&) = default;
};

struct MigMode {
  bool now = false;
  // What it will be once the GPU has been reset.
  bool pending = false;

  friend bool operator==(const MigMode&, const MigMode&) = default;
};

// Why a GPU should take no work.
enum class Fault {
  // Off the bus, or otherwise beyond reach.
  kLost,
  // The driver wants it reset first.
  kNeedsReset,
  // Rows of its memory wait to be replaced, which its next reset does.
  kRowsPending,
  // Rows of its memory could not be replaced.
  kRowsFailed,
  // It does not say who it is; its driver may keep it from this user.
  kUnreadable,
};

// A phrase for people that says what to do.
absl::string_view FaultText(Fault fault);

// One GPU. What the driver does not tell is absent, empty or 0, and no error for the rest.
struct Gpu {
  // As the driver counts, from 0.
  int index = 0;
  // Unique and the same over reboots, e.g. `GPU-8f2c…`.
  std::string uuid = {};
  // E.g. `NVIDIA H100 80GB HBM3`.
  std::string product = {};
  // N of its device file, `/dev/nvidiaN`: not its index, where devices were removed or moved.
  absl::optional<int> minor = {};
  // All it has, whoever holds it.
  int64_t memory_bytes = 0;
  absl::optional<Fault> fault = {};
  // Absent: it has no such mode.
  absl::optional<MigMode> mig = {};
  // Of a GPU that has the mode, whether it is on or not.
  std::vector<GpuProfile> profiles = {};
  // While the mode is on; absent if the driver doesn't tell (not to every user).
  absl::optional<std::vector<GpuInstance>> instances = {};

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// Looks at which GPUs this machine has.
class DeviceInventory {
 public:
  virtual ~DeviceInventory() = default;

  // All GPUs, in the driver's order, broken ones too. UNAVAILABLE, reason NVML_FAILED, if the driver
  // can't be asked now. Blocks in the driver, on a broken device perhaps for ever. One thread at a
  // time.
  virtual absl::StatusOr<std::vector<Gpu>> List() = 0;
};

}  // namespace capstan::gpu

#endif  // CAPSTAN_LIBS_GPU_DEVICE_INVENTORY_H_
