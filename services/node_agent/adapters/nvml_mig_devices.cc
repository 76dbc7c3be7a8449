#include "services/node_agent/adapters/nvml_mig_devices.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/gpu_model.h"
#include "libs/gpu/mig_table.h"
#include "libs/gpu/nvml_mig.h"
#include "libs/mig/placed_instance.h"
#include "libs/mig/profiles.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::MigInstance;

// An instance as the driver knows it.
struct Place {
  int profile = 0;
  gpu::Placement placement;

  bool Has(const gpu::GpuInstance& instance) const {
    return instance.profile == profile && instance.placement == placement;
  }
  bool Overlaps(const gpu::GpuInstance& instance) const {
    const gpu::Placement& other = instance.placement;
    return placement.start < other.start + other.size &&
           other.start < placement.start + placement.size;
  }
};

// By the GPU's driver; the GPU's table and its driver agree.
absl::StatusOr<Place> PlaceOf(const gpu::Gpu& gpu, const MigInstance& instance) {
  CAPSTAN_ASSIGN_OR_RETURN(const mig::DeviceModel model, mig::FindDeviceModel(instance.model()));
  CAPSTAN_ASSIGN_OR_RETURN(const int index, mig::ParseProfile(model, instance.profile()));
  const mig::Profile& profile = model.profiles[static_cast<size_t>(index)];
  const gpu::GpuProfile* known = gpu::FindProfile(gpu, profile);
  if (known == nullptr) {
    return absl::NotFoundError(absl::StrCat("the driver has no profile ", profile.name));
  }
  return Place{known->id, {instance.start(), profile.memory_slices}};
}

// Of the driver's strand.
class Driver {
 public:
  explicit Driver(std::string library) : library_(std::move(library)) {}

  absl::StatusOr<std::string> Make(const MakeMigInstance& order) {
    const MigInstance& wanted = order.instance;
    CAPSTAN_RETURN_IF_ERROR(Open(wanted));
    CAPSTAN_ASSIGN_OR_RETURN(const gpu::Gpu gpu, mig_->Look(wanted.gpu()));
    CAPSTAN_RETURN_IF_ERROR(CheckModel(gpu, wanted));
    CAPSTAN_ASSIGN_OR_RETURN(const Place place, PlaceOf(gpu, wanted));
    for (const gpu::GpuInstance& instance : *gpu.instances) {
      if (place.Has(instance)) return mig_->Complete(wanted.gpu(), instance.id);
    }
    for (const gpu::GpuInstance& instance : *gpu.instances) {
      if (!place.Overlaps(instance)) continue;
      CAPSTAN_RETURN_IF_ERROR(mig_->Destroy(wanted.gpu(), instance.id));
    }
    absl::StatusOr<int> made = mig_->Create(wanted.gpu(), place.profile, place.placement);
    if (status::Reason(made.status()) == "MIG_NO_ROOM") {
      // Something beside its place has what it needs, such as the one set of media engines.
      CAPSTAN_RETURN_IF_ERROR(ClearAllBut(order.others, wanted.gpu()));
      made = mig_->Create(wanted.gpu(), place.profile, place.placement);
    }
    CAPSTAN_RETURN_IF_ERROR(made.status());
    absl::StatusOr<std::string> name = mig_->Complete(wanted.gpu(), *made);
    // What is half made would stand in nobody's name.
    if (!name.ok()) mig_->Destroy(wanted.gpu(), *made).IgnoreError();
    return name;
  }

  absl::Status Remove(const MigInstance& unwanted) {
    const absl::Status opened = Open(unwanted);
    // It stands for all anyone knows: the driver may only be away, as while it is replaced.
    if (!opened.ok()) {
      return status::Error(absl::StatusCode::kUnavailable, "NO_NVML", opened.message());
    }
    const absl::StatusOr<gpu::Gpu> gpu = mig_->Look(unwanted.gpu());
    const std::string reason = status::Reason(gpu.status());
    // No instance stands on such a GPU, and none comes back with it.
    if (reason == "NO_SUCH_GPU" || reason == "MIG_OFF" || reason == "GPU_FAULT") {
      return absl::OkStatus();
    }
    CAPSTAN_RETURN_IF_ERROR(gpu.status());
    // Not of this GPU's, or of no GPU's: none stands.
    if (!CheckModel(*gpu, unwanted).ok()) return absl::OkStatus();
    const absl::StatusOr<Place> place = PlaceOf(*gpu, unwanted);
    if (!place.ok()) return absl::OkStatus();
    for (const gpu::GpuInstance& instance : *gpu->instances) {
      if (place->Has(instance)) return mig_->Destroy(unwanted.gpu(), instance.id);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Open(const MigInstance& instance) {
    if (mig_ != nullptr) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<gpu::NvmlMig>> opened = gpu::NvmlMig::Open(library_);
    if (!opened.ok()) {
      return status::Error(
          absl::StatusCode::kFailedPrecondition, "NO_NVML",
          absl::StrCat("GPU ", instance.gpu(),
                       " can't be reached, since NVML can't be used: ", opened.status().message()));
    }
    mig_ = *std::move(opened);
    return absl::OkStatus();
  }

  static absl::Status CheckModel(const gpu::Gpu& gpu, const MigInstance& instance) {
    const std::string model = gpu::ModelName(gpu.product, gpu.memory_bytes);
    if (model != instance.model()) {
      return status::Error(absl::StatusCode::kFailedPrecondition, "WRONG_GPU_MODEL",
                           absl::StrCat("GPU ", instance.gpu(), " is of model ", model, "; wanted ",
                                        instance.model()));
    }
    CAPSTAN_ASSIGN_OR_RETURN(const mig::DeviceModel table, mig::FindDeviceModel(model));
    return gpu::CheckPlacements(table, gpu);
  }

  absl::Status ClearAllBut(const std::vector<MigInstance>& others, int index) {
    CAPSTAN_ASSIGN_OR_RETURN(const gpu::Gpu gpu, mig_->Look(index));
    std::vector<Place> kept;
    for (const MigInstance& other : others) {
      if (other.gpu() != index) continue;
      const absl::StatusOr<Place> place = PlaceOf(gpu, other);
      if (place.ok()) kept.push_back(*place);
    }
    for (const gpu::GpuInstance& instance : *gpu.instances) {
      const bool stays = std::any_of(kept.begin(), kept.end(),
                                     [&](const Place& place) { return place.Has(instance); });
      if (!stays) CAPSTAN_RETURN_IF_ERROR(mig_->Destroy(index, instance.id));
    }
    return absl::OkStatus();
  }

  const std::string library_;
  std::unique_ptr<gpu::NvmlMig> mig_;
};

// What needs no GPU to be known.
absl::Status CheckOrder(const MakeMigInstance& order) {
  CAPSTAN_RETURN_IF_ERROR(mig::CheckPlacement(order.instance));
  for (const MigInstance& other : order.others) {
    if (!mig::Overlap(other, order.instance)) continue;
    return status::Error(
        absl::StatusCode::kUnavailable, "MIG_PLACE_TAKEN",
        absl::StrCat("another Task, with ", other.profile(), " at ", other.start(), " of GPU ",
                     other.gpu(), ", still has the instance's place; it is waited for"));
  }
  return absl::OkStatus();
}

class NvmlMigDevices final : public MigDevices {
 public:
  NvmlMigDevices(Strand* strand, Strand* driver_strand, std::string library)
      : strand_(strand),
        driver_strand_(driver_strand),
        driver_(std::make_shared<Driver>(std::move(library))) {}

  void Make(const MakeMigInstance& order, Callback<std::string> done) override {
    // Also what needs no driver goes that way, so that answers come in order.
    driver_strand_->Post(
        [strand = strand_, driver = driver_, order, done = std::move(done)]() mutable {
          const absl::Status checked = CheckOrder(order);
          absl::StatusOr<std::string> name =
              checked.ok() ? driver->Make(order) : absl::StatusOr<std::string>(checked);
          strand->Post([done = std::move(done), name = std::move(name)]() mutable { done(name); });
        });
  }

  void Remove(const MigInstance& instance, DoneCallback done) override {
    driver_strand_->Post(
        [strand = strand_, driver = driver_, instance, done = std::move(done)]() mutable {
          strand->Post([done = std::move(done), removed = driver->Remove(instance)]() mutable {
            done(removed);
          });
        });
  }

 private:
  Strand* const strand_;
  Strand* const driver_strand_;
  // Kept by what is under way on its strand.
  const std::shared_ptr<Driver> driver_;
};

}  // namespace

std::unique_ptr<MigDevices> MakeNvmlMigDevices(Strand* strand, Strand* driver,
                                               std::string library) {
  return std::make_unique<NvmlMigDevices>(strand, driver, std::move(library));
}

}  // namespace capstan::node_agent
