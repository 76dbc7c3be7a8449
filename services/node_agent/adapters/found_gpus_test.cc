#include "services/node_agent/adapters/found_gpus.h"

#include <dlfcn.h>

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/nvml_inventory.h"
#include "libs/gpu/nvml_stand_in.h"

namespace capstan::node_agent {
namespace {

using Accelerators = std::map<std::string, int64_t>;

// Over NVML's stand-in, so that what a driver tells is what is named.
class FoundGpusTest : public testing::Test {
 protected:
  FoundGpusTest() : library_(dlopen(kStandIn, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
    scene_ = reinterpret_cast<gpu::SceneOf>(dlsym(library_, "CapstanNvmlScene"))();
    *scene_ = gpu::Scene();
  }
  ~FoundGpusTest() override {
    *scene_ = gpu::Scene();
    dlclose(library_);
  }
  FoundGpusTest(const FoundGpusTest&) = delete;
  FoundGpusTest& operator=(const FoundGpusTest&) = delete;

  static FoundGpus Find() {
    return OfferGpus(gpu::OpenNvmlInventory(kStandIn).value()->List().value());
  }

  static constexpr char kStandIn[] = "libs/gpu/libnvml_stand_in.so";
  void* const library_;
  gpu::Scene* scene_;
};

TEST_F(FoundGpusTest, WholeGpusCountByModelAndThoseInMigModeAreNamed) {
  scene_->devices = {gpu::SceneH100("GPU-a", false),
                     gpu::SceneH100("GPU-b", true),
                     gpu::SceneH100("GPU-c", false),
                     {.uuid = "GPU-d", .product = "NVIDIA L4", .memory_bytes = 24152899584}};
  const FoundGpus found = Find();
  EXPECT_EQ(found.accelerators,
            (Accelerators{{"nvidia.com/h100-80gb", 2}, {"nvidia.com/l4-23gb", 1}}));
  ASSERT_EQ(found.mig_gpus.size(), 1u);
  EXPECT_EQ(found.mig_gpus[0].index(), 1);
  EXPECT_EQ(found.mig_gpus[0].model(), "H100-80GB");
  EXPECT_TRUE(found.left_out.empty());
}

TEST_F(FoundGpusTest, AGpuWithAFaultIsNotOffered) {
  scene_->devices = {gpu::SceneH100("GPU-a", false), gpu::SceneH100("GPU-b", false),
                     gpu::SceneH100("GPU-c", true), gpu::SceneH100("GPU-d", false)};
  scene_->devices[0].lost = true;
  scene_->devices[1].rows_pending = true;
  scene_->devices[2].lost = true;
  const FoundGpus found = Find();
  EXPECT_EQ(found.accelerators, (Accelerators{{"nvidia.com/h100-80gb", 1}}));
  EXPECT_TRUE(found.mig_gpus.empty());
  EXPECT_THAT(found.left_out,
              testing::ElementsAre(testing::StartsWith("GPU 0 "), testing::HasSubstr("remapped"),
                                   testing::StartsWith("GPU 2 ")));
}

// Placed by a table that does not hold, instances could not be made.
TEST_F(FoundGpusTest, AGpuInMigModeThatIsNotAsItsTableIsLeftOut) {
  scene_->devices = {gpu::SceneH100("GPU-a", true), gpu::SceneH100("GPU-b", true),
                     gpu::SceneH100("GPU-c", true)};
  scene_->devices[0].profiles[2].starts = {0, 3};
  scene_->devices[1].product = "NVIDIA RTX PRO 6000 Blackwell Server Edition";
  const FoundGpus found = Find();
  ASSERT_EQ(found.mig_gpus.size(), 1u);
  EXPECT_EQ(found.mig_gpus[0].index(), 2);
  EXPECT_TRUE(found.accelerators.empty()) << "nor is it a whole one";
  EXPECT_THAT(found.left_out,
              testing::ElementsAre(testing::HasSubstr("3g.40gb"), testing::HasSubstr("no table")));
}

TEST_F(FoundGpusTest, WhatOnlyRootIsToldIsSaidToBeMissing) {
  scene_->devices = {gpu::SceneH100("GPU-a", true), gpu::SceneH100("GPU-b", false)};
  scene_->unprivileged = true;
  const FoundGpus found = Find();
  EXPECT_TRUE(found.mig_gpus.empty());
  EXPECT_EQ(found.accelerators, (Accelerators{{"nvidia.com/h100-80gb", 1}}));
  EXPECT_THAT(found.left_out, testing::ElementsAre(testing::HasSubstr("root")));
}

}  // namespace
}  // namespace capstan::node_agent
