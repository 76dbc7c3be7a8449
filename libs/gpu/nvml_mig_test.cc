// Against a stand-in with NVML's names and layouts: see nvml_stand_in.cc.
#include "libs/gpu/nvml_mig.h"

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "libs/gpu/nvml_stand_in.h"
#include "libs/status/error.h"

namespace capstan::gpu {
namespace {

constexpr char kStandIn[] = "libs/gpu/libnvml_stand_in.so";
// The driver's profiles of the H100 of the scene.
constexpr int k1g = 19;
constexpr int k3g = 9;
constexpr int k7g = 0;

class NvmlMigTest : public testing::Test {
 protected:
  NvmlMigTest() : library_(dlopen(kStandIn, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
    scene_ = reinterpret_cast<SceneOf>(dlsym(library_, "CapstanNvmlScene"))();
    *scene_ = Scene();
    scene_->devices = {SceneH100("GPU-off", false), SceneH100("GPU-on", true)};
    mig_ = NvmlMig::Open(kStandIn).value();
  }
  ~NvmlMigTest() override {
    mig_.reset();
    *scene_ = Scene();
    dlclose(library_);
  }
  NvmlMigTest(const NvmlMigTest&) = delete;
  NvmlMigTest& operator=(const NvmlMigTest&) = delete;

  std::vector<std::string> TakeChanges() { return std::exchange(scene_->changes, {}); }

  void* const library_;
  Scene* scene_;
  std::unique_ptr<NvmlMig> mig_;
};

using Changes = std::vector<std::string>;

TEST_F(NvmlMigTest, MakesAnInstanceWhereItIsAskedForAndNamesIt) {
  const auto id = mig_->Create(1, k3g, {4, 4});
  ASSERT_TRUE(id.ok()) << id.status();
  const auto name = mig_->Complete(1, *id);
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*name, "MIG-1");
  EXPECT_EQ(TakeChanges(), (Changes{"+9@4", "+c3"}));
  // Again is the same one.
  EXPECT_EQ(mig_->Complete(1, *id).value(), "MIG-1");
  EXPECT_EQ(TakeChanges(), Changes{});
  EXPECT_EQ(mig_->Look(1)->instances, (std::vector<GpuInstance>{{*id, k3g, {4, 4}}}));
  // Each has a name of its own, whatever order the driver lists them in.
  const int small = mig_->Create(1, k1g, {0, 1}).value();
  EXPECT_EQ(mig_->Complete(1, small).value(), "MIG-2");
  EXPECT_EQ(mig_->Complete(1, *id).value(), "MIG-1");
}

TEST_F(NvmlMigTest, RemovesAnInstanceWithAllThatIsOnIt) {
  const int id = mig_->Create(1, k7g, {0, 8}).value();
  ASSERT_TRUE(mig_->Complete(1, id).ok());
  TakeChanges();
  EXPECT_TRUE(mig_->Destroy(1, id).ok());
  EXPECT_EQ(TakeChanges(), (Changes{"-c7", "-0@0"}));
  scene_->absent_is_invalid = true;
  const int other = mig_->Create(1, k3g, {0, 4}).value();
  EXPECT_TRUE(mig_->Complete(1, other).ok());
  EXPECT_TRUE(mig_->Destroy(1, other).ok());
  EXPECT_EQ(TakeChanges(), (Changes{"+9@0", "+c3", "-c3", "-9@0"}));
  EXPECT_TRUE(mig_->Destroy(1, id).ok()) << "what is gone is gone";
}

TEST_F(NvmlMigTest, CompletesWhatWasCutOffOrCutUp) {
  const int id = mig_->Create(1, k3g, {0, 4}).value();
  // Two compute instances that someone has made.
  SceneGpuInstance& stands = scene_->devices[1].instances.front();
  for (unsigned int compute : {0u, 1u}) {
    stands.computes.push_back({compute, 1, compute, false, std::make_shared<SceneDevice>()});
  }
  TakeChanges();
  EXPECT_TRUE(mig_->Complete(1, id).ok());
  EXPECT_EQ(TakeChanges(), (Changes{"-c1", "-c1", "+c3"}));
}

TEST_F(NvmlMigTest, WhatIsInUseStays) {
  const int id = mig_->Create(1, k3g, {0, 4}).value();
  ASSERT_TRUE(mig_->Complete(1, id).ok());
  scene_->devices[1].instances.front().computes.front().in_use = true;
  const absl::Status refused = mig_->Destroy(1, id);
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(status::Reason(refused), "MIG_IN_USE");
  EXPECT_EQ(mig_->Look(1)->instances->size(), 1u);
}

TEST_F(NvmlMigTest, WhatStandsInTheWayIsTold) {
  ASSERT_TRUE(mig_->Create(1, k3g, {0, 4}).ok());
  const absl::Status refused = mig_->Create(1, k1g, {3, 1}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(status::Reason(refused), "MIG_NO_ROOM");
  EXPECT_EQ(status::Reason(mig_->Create(1, k3g, {2, 4}).status()), "MIG_UNSUPPORTED");
}

TEST_F(NvmlMigTest, AGpuThatCannotSaysWhyAndIsLeftAlone) {
  const auto reason = [this](int index) { return status::Reason(mig_->Look(index).status()); };
  EXPECT_EQ(reason(0), "MIG_OFF");
  EXPECT_EQ(reason(2), "NO_SUCH_GPU");
  EXPECT_EQ(reason(-1), "NO_SUCH_GPU");
  EXPECT_EQ(status::Reason(mig_->Create(0, k1g, {0, 1}).status()), "MIG_UNSUPPORTED");
  scene_->unprivileged = true;
  EXPECT_EQ(reason(1), "MIG_NOT_ALLOWED");
  EXPECT_EQ(status::Reason(mig_->Create(1, k1g, {0, 1}).status()), "MIG_NOT_ALLOWED");
  scene_->failures = {{"nvmlDeviceGetUUID", 999}};
  EXPECT_EQ(reason(1), "NVML_FAILED") << "which may pass";
  scene_->devices[1].lost = true;
  EXPECT_EQ(reason(1), "GPU_FAULT");
  EXPECT_EQ(TakeChanges(), Changes{});
}

TEST_F(NvmlMigTest, ADriverFromBeforeMigIsUnsupported) {
  constexpr char kOld[] = "libs/gpu/libnvml_stand_in_old.so";
  void* const library = dlopen(kOld, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  Scene* const scene = reinterpret_cast<SceneOf>(dlsym(library, "CapstanNvmlScene"))();
  scene->devices = {SceneH100("GPU-on", true)};
  const auto mig = NvmlMig::Open(kOld).value();
  EXPECT_EQ(status::Reason(mig->Look(0).status()), "MIG_OFF");
  EXPECT_EQ(status::Reason(mig->Create(0, k1g, {0, 1}).status()), "MIG_UNSUPPORTED");
  *scene = Scene();
  dlclose(library);
}

}  // namespace
}  // namespace capstan::gpu
