#include "libs/gpu/mig_table.h"

#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::gpu {
namespace {

// A GPU whose driver has the model's profiles, in an order and with numbers of its own.
Gpu GpuOf(const mig::DeviceModel& model) {
  Gpu gpu;
  int id = 100;
  for (const mig::Profile& profile : model.profiles) {
    GpuProfile known;
    known.id = --id;
    known.name = profile.name;
    known.kind = profile.media_extensions ? ProfileKind::kMedia : ProfileKind::kPlain;
    known.compute_slices = profile.compute_slices;
    known.most = profile.most;
    known.placements.emplace();
    for (int start = 0; start < 32; ++start) {
      if ((profile.starts >> start & 1) != 0) {
        known.placements->push_back({start, profile.memory_slices});
      }
    }
    gpu.profiles.insert(gpu.profiles.begin(), known);
  }
  return gpu;
}

TEST(MigTableTest, ADriverThatAgreesIsRecognisedByShapeAlone) {
  for (const mig::DeviceModel& model : mig::DeviceModels()) {
    Gpu gpu = GpuOf(model);
    EXPECT_TRUE(CheckPlacementsAndNames(model, gpu).ok());
    // What it has besides is not asked for.
    GpuProfile graphics = gpu.profiles[0];
    graphics.kind = ProfileKind::kOther;
    gpu.profiles.push_back(graphics);
    for (GpuProfile& profile : gpu.profiles) profile.name.clear();
    EXPECT_TRUE(CheckPlacementsAndNames(model, gpu).ok());
    for (size_t p = 0; p < model.profiles.size(); ++p) {
      const GpuProfile* found = FindProfile(gpu, model.profiles[p]);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->id, 99 - static_cast<int>(p)) << model.profiles[p].name;
    }
  }
}

TEST(MigTableTest, EachDifferenceIsTold) {
  const mig::DeviceModel model = mig::FindDeviceModel("H100-80GB").value();
  // The last of the driver's is the table's first, 1g.10gb.
  const auto told = [&model](Gpu gpu) {
    const absl::Status status = CheckPlacements(model, gpu);
    EXPECT_EQ(status::Reason(status), "MIG_TABLE_DIFFERS");
    return std::string(status.message());
  };
  Gpu gpu = GpuOf(model);
  gpu.profiles.back().placements->pop_back();
  EXPECT_EQ(told(gpu),
            "profile 1g.10gb of H100-80GB: the driver lets it stand at {0,1,2,3,4,5}; the table "
            "says {0,1,2,3,4,5,6}");
  gpu = GpuOf(model);
  gpu.profiles.back().most = 6;
  EXPECT_NE(told(gpu).find("at most 6"), std::string::npos);
  gpu = GpuOf(model);
  gpu.profiles.back().placements->back().size = 2;
  EXPECT_NE(told(gpu).find("at 6 with 2 memory slices"), std::string::npos);
  gpu = GpuOf(model);
  gpu.profiles.back().placements.reset();
  EXPECT_NE(told(gpu).find("takes root"), std::string::npos);
  gpu = GpuOf(model);
  gpu.profiles.pop_back();
  EXPECT_NE(told(gpu).find("the driver has none"), std::string::npos);
  // As go-nvml's mock has it.
  gpu = GpuOf(model);
  for (Placement& placement : *gpu.profiles[2].placements) placement.size = 3;
  EXPECT_NE(told(gpu).find("3g.40gb"), std::string::npos);
}

TEST(MigTableTest, OtherNamesDoNotChangeWhereInstancesStand) {
  const mig::DeviceModel model = mig::FindDeviceModel("H100-80GB").value();
  Gpu gpu = GpuOf(model);
  gpu.profiles.back().name = "1g.11gb";
  EXPECT_TRUE(CheckPlacements(model, gpu).ok());
  EXPECT_EQ(CheckPlacementsAndNames(model, gpu).message(),
            "profile 1g.10gb of H100-80GB: the driver calls it 1g.11gb");
}

}  // namespace
}  // namespace capstan::gpu
