// Against a stand-in with NVML's names and layouts: see nvml_stand_in.cc.
#include "libs/gpu/nvml_inventory.h"

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/gpu/nvml_stand_in.h"
#include "libs/status/error.h"

namespace capstan::gpu {
namespace {

constexpr char kStandIn[] = "libs/gpu/libnvml_stand_in.so";
constexpr char kOldStandIn[] = "libs/gpu/libnvml_stand_in_old.so";

// A stand-in and its scene.
class StandIn {
 public:
  explicit StandIn(const char* path) : path_(path), library_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
    scene_ = reinterpret_cast<SceneOf>(dlsym(library_, "CapstanNvmlScene"))();
    *scene_ = Scene();
  }
  ~StandIn() {
    *scene_ = Scene();
    dlclose(library_);
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  Scene* operator->() { return scene_; }

  absl::StatusOr<std::vector<Gpu>> List() {
    auto inventory = OpenNvmlInventory(path_);
    if (!inventory.ok()) return inventory.status();
    return (*inventory)->List();
  }

 private:
  const char* const path_;
  void* const library_;
  Scene* scene_;
};

const GpuProfile& ById(const Gpu& gpu, int id) {
  for (const GpuProfile& profile : gpu.profiles) {
    if (profile.id == id) return profile;
  }
  ADD_FAILURE() << "no profile " << id;
  return gpu.profiles.front();
}

TEST(NvmlInventoryTest, AGpuSaysWhatItIsAndHowItCouldBeCut) {
  StandIn nvml(kStandIn);
  nvml->devices = {SceneH100("GPU-a", false)};
  const auto gpus = nvml.List();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 1u);
  const Gpu& gpu = (*gpus)[0];
  EXPECT_EQ(gpu.index, 0);
  EXPECT_EQ(gpu.uuid, "GPU-a");
  EXPECT_EQ(gpu.product, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.memory_bytes, int64_t{81559} << 20);
  EXPECT_EQ(gpu.fault, absl::nullopt);
  EXPECT_EQ(gpu.mig, (MigMode{false, false}));
  EXPECT_EQ(gpu.instances, absl::nullopt) << "none can stand while the mode is off";
  ASSERT_EQ(gpu.profiles.size(), 7u);
  const GpuProfile& three = ById(gpu, 9);
  EXPECT_EQ(three.name, "3g.40gb");
  EXPECT_EQ(three.kind, ProfileKind::kPlain);
  EXPECT_EQ(three.compute_slices, 3);
  EXPECT_EQ(three.most, 2);
  EXPECT_EQ(three.memory_bytes, int64_t{40192} << 20);
  EXPECT_EQ(three.placements, (std::vector<Placement>{{0, 4}, {4, 4}}));
  EXPECT_EQ(ById(gpu, 20).kind, ProfileKind::kMedia);
  EXPECT_EQ(ById(gpu, 15).kind, ProfileKind::kPlain);
}

TEST(NvmlInventoryTest, AGpuInMigModeSaysWhichInstancesStand) {
  StandIn nvml(kStandIn);
  SceneDevice device = SceneH100("GPU-a", true);
  device.mig_pending = false;
  device.instances = {{4, 9, 4, 4}, {7, 19, 1, 1}};
  nvml->devices = {device};
  const auto gpus = nvml.List();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ((*gpus)[0].mig, (MigMode{true, false}));
  EXPECT_EQ((*gpus)[0].instances, (std::vector<GpuInstance>{{7, 19, {1, 1}}, {4, 9, {4, 4}}}));
}

TEST(NvmlInventoryTest, AGpuWithoutTheModeIsListedLikeAnyOther) {
  StandIn nvml(kStandIn);
  nvml->devices = {
      {.uuid = "GPU-l4", .product = "NVIDIA L4", .memory_bytes = uint64_t{23034} << 20}};
  const auto gpus = nvml.List();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ((*gpus)[0].product, "NVIDIA L4");
  EXPECT_EQ((*gpus)[0].mig, absl::nullopt);
  EXPECT_TRUE((*gpus)[0].profiles.empty());
  EXPECT_EQ((*gpus)[0].fault, absl::nullopt);
}

TEST(NvmlInventoryTest, ABrokenGpuKeepsItsNumberAndSaysWhy) {
  StandIn nvml(kStandIn);
  nvml->devices = {SceneH100("GPU-a", false), SceneH100("GPU-b", false), SceneH100("GPU-c", false),
                   SceneH100("GPU-d", false)};
  nvml->devices[0].lost = true;
  nvml->devices[1].rows_pending = true;
  nvml->devices[2].rows_pending = true;
  nvml->devices[2].rows_failed = true;
  const auto gpus = nvml.List();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 4u);
  EXPECT_EQ((*gpus)[0].index, 0);
  EXPECT_EQ((*gpus)[0].fault, Fault::kLost);
  EXPECT_EQ((*gpus)[1].fault, Fault::kRowsPending);
  EXPECT_EQ((*gpus)[2].fault, Fault::kRowsFailed);
  EXPECT_EQ((*gpus)[3].index, 3);
  EXPECT_EQ((*gpus)[3].fault, absl::nullopt);
}

TEST(NvmlInventoryTest, AGpuThatIsLostLaterIsToldByWhateverCallFindsOut) {
  StandIn nvml(kStandIn);
  nvml->devices = {SceneH100("GPU-a", false)};
  nvml->failures = {{"nvmlDeviceGetMemoryInfo", 15}};
  EXPECT_EQ(nvml.List().value()[0].fault, Fault::kLost);
  nvml->failures = {{"nvmlDeviceGetMemoryInfo", 16}};
  EXPECT_EQ(nvml.List().value()[0].fault, Fault::kNeedsReset);
  nvml->failures = {{"nvmlDeviceGetUUID", 4}};
  EXPECT_EQ(nvml.List().value()[0].fault, Fault::kUnreadable);
}

TEST(NvmlInventoryTest, AnOlderLibraryTellsLessAndFailsNothing) {
  StandIn nvml(kStandIn);
  nvml->devices = {SceneH100("GPU-a", false)};
  // Version 2 of the struct has names too, version 1 has not.
  nvml->newest_profile_version = 2;
  EXPECT_EQ(ById(nvml.List().value()[0], 9).name, "3g.40gb");
  nvml->newest_profile_version = 1;
  const Gpu unnamed = nvml.List().value()[0];
  ASSERT_EQ(unnamed.profiles.size(), 7u);
  EXPECT_EQ(ById(unnamed, 9).name, "");
  EXPECT_EQ(ById(unnamed, 9).placements, (std::vector<Placement>{{0, 4}, {4, 4}}));
  // One from before MIG.
  StandIn old(kOldStandIn);
  old->devices = {SceneH100("GPU-a", true)};
  const auto gpus = old.List();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ((*gpus)[0].product, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ((*gpus)[0].mig, absl::nullopt);
  EXPECT_EQ((*gpus)[0].fault, absl::nullopt);
}

TEST(NvmlInventoryTest, AProfileThatTheGpuHasNotHidesNoneBehindIt) {
  StandIn nvml(kStandIn);
  nvml->devices = {SceneH100("GPU-a", false)};
  nvml->absent_is_invalid = true;
  EXPECT_EQ(nvml.List().value()[0].profiles.size(), 7u);
}

TEST(NvmlInventoryTest, WhatAUserMayNotSeeIsAbsent) {
  StandIn nvml(kStandIn);
  nvml->devices = {SceneH100("GPU-a", true)};
  nvml->unprivileged = true;
  const Gpu gpu = nvml.List().value()[0];
  EXPECT_EQ(gpu.mig, (MigMode{true, true}));
  EXPECT_EQ(gpu.instances, absl::nullopt);
  EXPECT_EQ(ById(gpu, 9).placements, absl::nullopt);
  EXPECT_EQ(gpu.fault, absl::nullopt);
}

TEST(NvmlInventoryTest, ADriverThatAnswersNothingIsAnError) {
  StandIn nvml(kStandIn);
  nvml->failures = {{"nvmlDeviceGetCount_v2", 999}};
  const absl::Status failed = nvml.List().status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_EQ(status::Reason(failed), "NVML_FAILED");
  nvml->no_driver = true;
  EXPECT_EQ(status::Reason(nvml.List().status()), "NO_NVML");
}

}  // namespace
}  // namespace capstan::gpu
