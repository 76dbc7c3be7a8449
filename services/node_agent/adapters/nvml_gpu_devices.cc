#include "services/node_agent/adapters/nvml_gpu_devices.h"

#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/driver_files.h"
#include "libs/gpu/nvml_inventory.h"
#include "libs/gpu/nvml_mig.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/adapters/found_gpus.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;

absl::Status NoNvml(const absl::Status& why) {
  return status::Error(
      absl::StatusCode::kFailedPrecondition, "NO_NVML",
      absl::StrCat("the Task's GPUs can't be reached, since NVML can't be used: ", why.message()));
}

// Of the driver's strand.
class Driver {
 public:
  explicit Driver(NvmlGpuDevicesOptions options) : options_(std::move(options)) {}

  absl::StatusOr<std::vector<WholeGpu>> List() {
    if (inventory_ == nullptr) {
      auto opened = gpu::OpenNvmlInventory(options_.library);
      if (!opened.ok()) return NoNvml(opened.status());
      inventory_ = *std::move(opened);
    }
    const absl::StatusOr<std::vector<gpu::Gpu>> gpus = inventory_->List();
    if (!gpus.ok()) {
      // The driver may have been replaced under it.
      inventory_.reset();
      return gpus.status();
    }
    return OfferGpus(*gpus).whole_gpus;
  }

  absl::StatusOr<ShimSpec::Gpus> FindMigFiles(int32_t index, const std::string& name) {
    if (mig_ == nullptr) {
      auto opened = gpu::NvmlMig::Open(options_.library);
      if (!opened.ok()) return NoNvml(opened.status());
      mig_ = *std::move(opened);
    }
    CAPSTAN_ASSIGN_OR_RETURN(const gpu::Gpu gpu, mig_->Look(index));
    if (!gpu.minor.has_value()) {
      return status::Error(
          absl::StatusCode::kFailedPrecondition, "NO_DEVICE_FILE",
          absl::StrCat("the driver does not say which device file GPU ", index, " has"));
    }
    CAPSTAN_ASSIGN_OR_RETURN(const gpu::MigDeviceIds ids, mig_->IdsOf(index, name));
    const std::string instance =
        absl::StrCat(options_.capabilities, "/gpu", *gpu.minor, "/mig/gi", ids.gpu_instance);
    ShimSpec::Gpus files;
    files.add_minors(*gpu.minor);
    for (const std::string& folder :
         {instance, absl::StrCat(instance, "/ci", ids.compute_instance)}) {
      CAPSTAN_ASSIGN_OR_RETURN(const int minor, Capability(folder + "/access"));
      files.add_capabilities(minor);
    }
    return files;
  }

 private:
  static absl::StatusOr<int> Capability(const std::string& path) {
    std::ifstream file(path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const absl::optional<int> minor = gpu::CapabilityMinor(text);
    if (minor.has_value()) return *minor;
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "NO_DEVICE_FILE",
        absl::StrCat(
            path, file.is_open() ? " has no DeviceFileMinor" : " can't be read",
            ", which says which device file the Task's MIG instance takes; use a driver of "
            "release 450 or newer, and run this as root"));
  }

  const NvmlGpuDevicesOptions options_;
  std::unique_ptr<gpu::DeviceInventory> inventory_;
  std::unique_ptr<gpu::NvmlMig> mig_;
};

class NvmlGpuDevices final : public GpuDevices {
 public:
  NvmlGpuDevices(NvmlGpuDevicesOptions options, Strand* strand, Strand* driver_strand)
      : strand_(strand),
        driver_strand_(driver_strand),
        driver_(std::make_shared<Driver>(std::move(options))) {}

  void List(Callback<std::vector<WholeGpu>> done) override {
    driver_strand_->Post([strand = strand_, driver = driver_, done = std::move(done)]() mutable {
      strand->Post([done = std::move(done), gpus = driver->List()]() mutable { done(gpus); });
    });
  }

  void FindMigFiles(int32_t gpu, const std::string& name, Callback<ShimSpec::Gpus> done) override {
    driver_strand_->Post(
        [strand = strand_, driver = driver_, gpu, name, done = std::move(done)]() mutable {
          strand->Post([done = std::move(done), files = driver->FindMigFiles(gpu, name)]() mutable {
            done(files);
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

std::unique_ptr<GpuDevices> MakeNvmlGpuDevices(NvmlGpuDevicesOptions options, Strand* strand,
                                               Strand* driver) {
  return std::make_unique<NvmlGpuDevices>(std::move(options), strand, driver);
}

}  // namespace capstan::node_agent
