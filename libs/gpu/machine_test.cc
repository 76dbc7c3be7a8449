// What NVML tells of the GPUs of this very machine: run by hand, where there are some. Changes
// nothing, and skips where there is no NVML.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/device_reader.h"
#include "libs/gpu/gpu_json.h"
#include "libs/gpu/gpu_model.h"
#include "libs/gpu/mig_table.h"
#include "libs/gpu/nvml.h"
#include "libs/gpu/nvml_inventory.h"
#include "libs/mig/profiles.h"

namespace capstan::gpu {
namespace {

class MachineTest : public testing::Test {
 protected:
  void SetUp() override {
    auto inventory = OpenNvmlInventory();
    if (!inventory.ok()) GTEST_SKIP() << inventory.status();
    inventory_ = *std::move(inventory);
    auto gpus = inventory_->List();
    ASSERT_TRUE(gpus.ok()) << gpus.status();
    gpus_ = *std::move(gpus);
    ASSERT_FALSE(gpus_.empty()) << "NVML, but no GPU";
  }

  std::unique_ptr<DeviceInventory> inventory_;
  std::vector<Gpu> gpus_;
};

TEST_F(MachineTest, EveryGpuSaysWhatItIs) {
  std::set<std::string> uuids;
  int index = 0;
  for (const Gpu& gpu : gpus_) {
    SCOPED_TRACE(GpuJson(gpu));
    EXPECT_EQ(gpu.index, index++);
    EXPECT_EQ(gpu.fault, absl::nullopt);
    EXPECT_EQ(gpu.uuid.substr(0, 4), "GPU-");
    EXPECT_TRUE(uuids.insert(gpu.uuid).second);
    EXPECT_NE(gpu.product, "");
    EXPECT_GT(gpu.memory_bytes, int64_t{1} << 30);
    EXPECT_LT(gpu.memory_bytes, int64_t{1} << 40);
    EXPECT_NE(ModelName(gpu.product, gpu.memory_bytes), "");
  }
}

TEST_F(MachineTest, LookingAgainTellsTheSame) {
  const auto again = inventory_->List();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, gpus_);
}

TEST_F(MachineTest, GpusWithAMigModeTellTheirProfilesAsTheTableHasThem) {
  for (const Gpu& gpu : gpus_) {
    if (!gpu.mig.has_value()) continue;
    SCOPED_TRACE(GpuJson(gpu));
    EXPECT_FALSE(gpu.profiles.empty());
    EXPECT_EQ(gpu.mig->now, gpu.instances.has_value()) << "or this user is not root";
    int64_t largest = 0;
    for (const GpuProfile& profile : gpu.profiles) {
      EXPECT_GT(profile.compute_slices, 0);
      EXPECT_GT(profile.most, 0);
      EXPECT_TRUE(profile.placements.has_value()) << "or this user is not root";
      EXPECT_LE(profile.memory_bytes, gpu.memory_bytes);
      largest = std::max(largest, profile.memory_bytes);
    }
    EXPECT_GT(largest, gpu.memory_bytes / 2) << "one profile takes all";
    const auto table = mig::FindDeviceModel(ModelName(gpu.product, gpu.memory_bytes));
    if (!table.ok()) continue;
    EXPECT_TRUE(CheckPlacementsAndNames(*table, gpu).ok()) << CheckPlacementsAndNames(*table, gpu);
  }
}

TEST_F(MachineTest, TheReaderSeesTheSameDevices) {
  const auto reader = OpenNvml();
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::vector<DeviceUse> uses = (*reader)->Read();
  ASSERT_EQ(uses.size(), gpus_.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    EXPECT_EQ(uses[i].uuid, gpus_[i].uuid);
    for (const ProcessUse& process : uses[i].processes) EXPECT_GT(process.pid, 0);
  }
}

}  // namespace
}  // namespace capstan::gpu
