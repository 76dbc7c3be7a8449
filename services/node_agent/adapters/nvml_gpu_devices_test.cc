// Over the stand-in for NVML: see libs/gpu/nvml_stand_in.cc.
#include "services/node_agent/adapters/nvml_gpu_devices.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/gpu/nvml_stand_in.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "services/node_agent/adapters/nvml_mig_devices.h"
#include "services/node_agent/ports/gpu_devices.h"
#include "services/node_agent/ports/mig_devices.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kStandIn[] = "libs/gpu/libnvml_stand_in.so";
constexpr char kH100[] = "nvidia.com/h100-80gb";

gpu::SceneDevice Device(const std::string& uuid, bool mig, unsigned int minor) {
  gpu::SceneDevice device = gpu::SceneH100(uuid, mig);
  device.minor = minor;
  return device;
}

class NvmlGpuDevicesTest : public testing::Test {
 protected:
  NvmlGpuDevicesTest()
      : library_(dlopen(kStandIn, RTLD_NOW | RTLD_LOCAL)),
        capabilities_(absl::StrCat(getenv("TEST_TMPDIR"), "/capabilities")),
        strand_(&clock_) {
    EXPECT_NE(library_, nullptr) << dlerror();
    scene_ = reinterpret_cast<gpu::SceneOf>(dlsym(library_, "CapstanNvmlScene"))();
    *scene_ = gpu::Scene();
    devices_ = MakeNvmlGpuDevices({kStandIn, capabilities_}, &strand_, &strand_);
  }
  ~NvmlGpuDevicesTest() override {
    devices_.reset();
    *scene_ = gpu::Scene();
    dlclose(library_);
    std::filesystem::remove_all(capabilities_);
  }
  NvmlGpuDevicesTest(const NvmlGpuDevicesTest&) = delete;
  NvmlGpuDevicesTest& operator=(const NvmlGpuDevicesTest&) = delete;

  absl::StatusOr<std::vector<WholeGpu>> List() {
    absl::StatusOr<std::vector<WholeGpu>> listed = absl::UnknownError("no answer");
    devices_->List([&listed](absl::StatusOr<std::vector<WholeGpu>> gpus) { listed = gpus; });
    strand_.RunReady();
    return listed;
  }
  absl::StatusOr<ShimSpec::Gpus> FindMigFiles(int gpu, const std::string& name) {
    absl::StatusOr<ShimSpec::Gpus> found = absl::UnknownError("no answer");
    devices_->FindMigFiles(gpu, name, [&found](absl::StatusOr<ShimSpec::Gpus> f) { found = f; });
    strand_.RunReady();
    return found;
  }
  // Makes an instance; returns its name.
  std::string MakeInstance(int gpu, int start) {
    const auto mig = MakeNvmlMigDevices(&strand_, &strand_, kStandIn);
    MakeMigInstance order;
    order.instance.set_gpu(gpu);
    order.instance.set_model("H100-80GB");
    order.instance.set_profile("1g.10gb");
    order.instance.set_start(start);
    absl::StatusOr<std::string> made = absl::UnknownError("no answer");
    mig->Make(order, [&made](absl::StatusOr<std::string> name) { made = name; });
    strand_.RunReady();
    EXPECT_TRUE(made.ok()) << made.status();
    return made.value_or("");
  }
  void WriteAccess(const std::string& folder, const std::string& text) {
    std::filesystem::create_directories(absl::StrCat(capabilities_, "/", folder));
    std::ofstream(absl::StrCat(capabilities_, "/", folder, "/access")) << text;
  }

  void* const library_;
  const std::string capabilities_;
  gpu::Scene* scene_;
  SimulatedClock clock_;
  SimulatedStrand strand_;
  std::unique_ptr<GpuDevices> devices_;
};

TEST_F(NvmlGpuDevicesTest, ListsWhatATaskMayHaveAsAWhole) {
  scene_->devices = {Device("GPU-a", false, 5), Device("GPU-b", true, 1), Device("GPU-c", false, 2),
                     Device("GPU-d", false, 3)};
  scene_->devices[2].rows_failed = true;
  EXPECT_THAT(List().value(),
              ElementsAre(WholeGpu{"GPU-a", kH100, 5}, WholeGpu{"GPU-d", kH100, 3}));
  scene_->devices[2].rows_failed = false;
  EXPECT_EQ(List().value().size(), 3u) << "each call looks anew";
}

TEST_F(NvmlGpuDevicesTest, AGpuMayNotSayItsMinor) {
  scene_->devices = {Device("GPU-a", false, 5)};
  scene_->failures["nvmlDeviceGetMinorNumber"] = 3;
  EXPECT_THAT(List().value(), ElementsAre(WholeGpu{"GPU-a", kH100, {}}));
  scene_->failures.clear();
  // Not a GPU's: that of the driver's control file.
  scene_->devices[0].minor = 255;
  EXPECT_THAT(List().value(), ElementsAre(WholeGpu{"GPU-a", kH100, {}}));
}

TEST_F(NvmlGpuDevicesTest, ADriverThatFailsMayDoLater) {
  scene_->failures["nvmlDeviceGetCount_v2"] = 999;
  EXPECT_TRUE(absl::IsUnavailable(List().status())) << List().status();
  scene_->failures.clear();
  EXPECT_TRUE(List().ok());
}

TEST_F(NvmlGpuDevicesTest, WithoutADriverThereIsNone) {
  scene_->no_driver = true;
  const absl::Status none = List().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_EQ(status::Reason(none), "NO_NVML");
}

TEST_F(NvmlGpuDevicesTest, AMigInstanceHasItsGpusFileAndThoseOfItsCapabilities) {
  scene_->devices = {Device("GPU-a", true, 4)};
  const std::string first = MakeInstance(0, 0);
  const std::string second = MakeInstance(0, 3);
  const auto& instances = scene_->devices[0].instances;
  ASSERT_EQ(instances.size(), 2u);
  const std::string folder = absl::StrCat("gpu4/mig/gi", instances.back().id);
  WriteAccess(folder, "DeviceFileMinor: 48\nDeviceFileMode: 292\n");
  WriteAccess(folder + "/ci0", "DeviceFileMinor: 49\nDeviceFileMode: 292\n");
  const ShimSpec::Gpus files = FindMigFiles(0, second).value();
  EXPECT_THAT(files.minors(), ElementsAre(4));
  EXPECT_THAT(files.capabilities(), ElementsAre(48, 49));
  // What is not there is named.
  const absl::Status missing = FindMigFiles(0, first).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << missing;
  EXPECT_THAT(missing.message(),
              HasSubstr(absl::StrCat(capabilities_, "/gpu4/mig/gi", instances.front().id,
                                     "/access can't be read")));
  WriteAccess(folder + "/ci0", "DeviceFileMode: 292\n");
  EXPECT_THAT(FindMigFiles(0, second).status().message(), HasSubstr("has no DeviceFileMinor"));
}

TEST_F(NvmlGpuDevicesTest, AnInstanceThatIsNotThereMayComeBack) {
  scene_->devices = {Device("GPU-a", true, 4)};
  EXPECT_TRUE(absl::IsUnavailable(FindMigFiles(0, "MIG-none").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(FindMigFiles(1, "MIG-none").status()));
}

}  // namespace
}  // namespace capstan::node_agent
