// Against a stand-in with NVML's names and layouts: see nvml_stand_in.cc.
#include "libs/gpu/nvml.h"

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/gpu/device_reader.h"
#include "libs/gpu/nvml_stand_in.h"
#include "libs/status/error.h"

namespace capstan::gpu {
namespace {

constexpr char kStandIn[] = "libs/gpu/libnvml_stand_in.so";

class NvmlTest : public testing::Test {
 protected:
  NvmlTest() : library_(dlopen(kStandIn, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
    scene_ = reinterpret_cast<SceneOf>(dlsym(library_, "CapstanNvmlScene"))();
    *scene_ = Scene();
  }
  ~NvmlTest() override { dlclose(library_); }
  NvmlTest(const NvmlTest&) = delete;
  NvmlTest& operator=(const NvmlTest&) = delete;

  void* const library_;
  Scene* scene_;
};

TEST_F(NvmlTest, DevicesTellTheirUseAndTheirProcesses) {
  scene_->devices = {{.uuid = "GPU-a", .busy_percent = 87, .processes = {{4711, 5'000'000'000}}},
                     {.uuid = "GPU-b", .busy_percent = 0}};
  const auto reader = OpenNvml(kStandIn);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::vector<DeviceUse> devices = (*reader)->Read();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0], (DeviceUse{"GPU-a", 87.0, {{4711, 5'000'000'000}}}));
  EXPECT_EQ(devices[1], (DeviceUse{"GPU-b", 0.0, {}}));
  // It is asked anew each time.
  scene_->devices[1].busy_percent = 12;
  EXPECT_EQ((*reader)->Read()[1].busy_percent, 12.0);
}

TEST_F(NvmlTest, WhatADriverDoesNotTellIsAbsent) {
  scene_->devices = {{.uuid = "GPU-cut",
                      .utilization_unsupported = true,
                      .processes = {{1, ~uint64_t{0}}, {2, 7}}},
                     {.uuid = "GPU-lost", .lost = true},
                     {.uuid = "GPU-c", .busy_percent = 5}};
  const auto reader = OpenNvml(kStandIn);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->Read(),
            (std::vector<DeviceUse>{{"GPU-cut", absl::nullopt, {{1, absl::nullopt}, {2, 7}}},
                                    {"GPU-c", 5.0, {}}}));
}

TEST_F(NvmlTest, AListThatGrowsIsReadAgainButNotForEver) {
  SceneDevice crowded{.uuid = "GPU-a"};
  for (unsigned int pid = 1; pid <= 100; ++pid) crowded.processes.push_back({pid, pid});
  scene_->devices = {crowded};
  const auto reader = OpenNvml(kStandIn);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->Read()[0].processes.size(), 100u);
  EXPECT_EQ(scene_->process_calls, 2);
  // Faster than one can ask.
  scene_->devices[0].growth = 1000;
  scene_->process_calls = 0;
  const std::vector<DeviceUse> devices = (*reader)->Read();
  EXPECT_LE(scene_->process_calls, 4);
  EXPECT_EQ(devices.size(), 1u);
}

TEST_F(NvmlTest, AMachineWithoutTheLibraryOrADriverHasNone) {
  EXPECT_EQ(status::Reason(OpenNvml("libs/gpu/no-such-library.so").status()), "NO_NVML");
  // A library, but of something else.
  EXPECT_EQ(status::Reason(OpenNvml("libc.so.6").status()), "NO_NVML");
  scene_->no_driver = true;
  const absl::Status refused = OpenNvml(kStandIn).status();
  EXPECT_TRUE(absl::IsNotFound(refused));
  EXPECT_EQ(scene_->open, 0);
}

TEST_F(NvmlTest, WhatIsOpenedIsShutDown) {
  {
    const auto reader = OpenNvml(kStandIn);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(scene_->open, 1);
  }
  EXPECT_EQ(scene_->open, 0);
}

}  // namespace
}  // namespace capstan::gpu
