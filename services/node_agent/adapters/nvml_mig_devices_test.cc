// Over the stand-in for NVML: see libs/gpu/nvml_stand_in.cc.
#include "services/node_agent/adapters/nvml_mig_devices.h"

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "libs/gpu/nvml_stand_in.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/ports/mig_devices_bench.h"
#include "services/node_agent/ports/mig_devices_conformance.h"

namespace capstan::node_agent {
namespace {

constexpr char kStandIn[] = "libs/gpu/libnvml_stand_in.so";

class NvmlBench final : public MigDevicesBench {
 public:
  NvmlBench()
      : library_(dlopen(kStandIn, RTLD_NOW | RTLD_LOCAL)), strand_(&clock_), driver_(&clock_) {
    EXPECT_NE(library_, nullptr) << dlerror();
    scene_ = reinterpret_cast<gpu::SceneOf>(dlsym(library_, "CapstanNvmlScene"))();
    *scene_ = gpu::Scene();
    scene_->devices = {gpu::SceneH100("GPU-a", true), gpu::SceneH100("GPU-b", true),
                       gpu::SceneH100("GPU-c", false)};
    RestartAgent();
  }
  ~NvmlBench() override {
    devices_.reset();
    *scene_ = gpu::Scene();
    dlclose(library_);
  }
  NvmlBench(const NvmlBench&) = delete;
  NvmlBench& operator=(const NvmlBench&) = delete;

  MigDevices& devices() override { return *devices_; }
  void Run() override {
    driver_.RunReady();
    strand_.RunReady();
  }
  void RestartAgent() override { devices_ = MakeNvmlMigDevices(&strand_, &driver_, kStandIn); }

  gpu::Scene& scene() { return *scene_; }
  SimulatedStrand& strand() { return strand_; }
  std::vector<std::string> TakeChanges() { return std::exchange(scene_->changes, {}); }

 private:
  void* const library_;
  gpu::Scene* scene_;
  SimulatedClock clock_;
  SimulatedStrand strand_;
  SimulatedStrand driver_;
  std::unique_ptr<MigDevices> devices_;
};

std::unique_ptr<MigDevicesBench> MakeBench() { return std::make_unique<NvmlBench>(); }

INSTANTIATE_TEST_SUITE_P(Nvml, MigDevicesConformanceTest, ::testing::Values(&MakeBench));

using capstan::type::v1::MigInstance;
using Changes = std::vector<std::string>;

class NvmlMigDevicesTest : public testing::Test {
 protected:
  static MigInstance Instance(int gpu, const std::string& profile, int start) {
    MigInstance instance;
    instance.set_gpu(gpu);
    instance.set_model("H100-80GB");
    instance.set_profile(profile);
    instance.set_start(start);
    return instance;
  }
  absl::StatusOr<std::string> Make(const MigInstance& instance,
                                   std::vector<MigInstance> others = {}) {
    absl::StatusOr<std::string> made = absl::UnknownError("no answer");
    MakeMigInstance order;
    order.instance = instance;
    order.others = std::move(others);
    bench_.devices().Make(order, [&made](absl::StatusOr<std::string> name) { made = name; });
    bench_.Run();
    return made;
  }
  absl::Status Remove(const MigInstance& instance) {
    absl::Status removed = absl::UnknownError("no answer");
    bench_.devices().Remove(instance, [&removed](absl::Status done) { removed = done; });
    bench_.Run();
    return removed;
  }
  std::string MakeReason(const MigInstance& instance) {
    const absl::Status status = Make(instance).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return status::Reason(status);
  }

  NvmlBench bench_;
};

TEST_F(NvmlMigDevicesTest, RemovesNoMoreThanWhatIsInTheWay) {
  ASSERT_TRUE(Make(Instance(0, "1g.10gb", 0)).ok());
  ASSERT_TRUE(Make(Instance(0, "1g.10gb", 5)).ok());
  ASSERT_TRUE(Make(Instance(1, "7g.80gb", 0)).ok());
  bench_.TakeChanges();
  ASSERT_TRUE(Make(Instance(0, "3g.40gb", 4)).ok());
  EXPECT_EQ(bench_.TakeChanges(), (Changes{"-c1", "-19@5", "+9@4", "+c3"}));
  ASSERT_TRUE(Remove(Instance(0, "3g.40gb", 4)).ok());
  EXPECT_EQ(bench_.TakeChanges(), (Changes{"-c3", "-9@4"}));
}

TEST_F(NvmlMigDevicesTest, WhatOthersHaveStaysWhenRoomIsMade) {
  ASSERT_TRUE(Make(Instance(0, "1g.10gb+me", 0)).ok());
  ASSERT_TRUE(Make(Instance(0, "1g.10gb", 1)).ok());
  ASSERT_TRUE(Make(Instance(0, "1g.10gb", 2)).ok());
  bench_.TakeChanges();
  // The media engines are at 0, out of its place.
  ASSERT_TRUE(Make(Instance(0, "1g.10gb+me", 3), {Instance(0, "1g.10gb", 1)}).ok());
  EXPECT_EQ(bench_.TakeChanges(), (Changes{"-c1", "-20@0", "-c1", "-19@2", "+20@3", "+c1"}));
  // If they are another Task's they are waited for.
  const absl::Status refused =
      Make(Instance(0, "1g.10gb+me", 5), {Instance(0, "1g.10gb+me", 3), Instance(0, "1g.10gb", 1)})
          .status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(status::Reason(refused), "MIG_NO_ROOM");
  EXPECT_EQ(bench_.TakeChanges(), Changes{});
}

TEST_F(NvmlMigDevicesTest, WhatAProcessUsesIsTriedAgain) {
  const MigInstance one = Instance(0, "1g.10gb", 0);
  ASSERT_TRUE(Make(one).ok());
  bench_.scene().devices[0].instances.front().computes.front().in_use = true;
  bench_.TakeChanges();
  EXPECT_EQ(status::Reason(Remove(one)), "MIG_IN_USE");
  EXPECT_TRUE(absl::IsUnavailable(Remove(one)));
  EXPECT_TRUE(absl::IsUnavailable(Make(Instance(0, "7g.80gb", 0)).status()));
  EXPECT_EQ(bench_.TakeChanges(), Changes{});
  bench_.scene().devices[0].instances.front().computes.front().in_use = false;
  EXPECT_TRUE(Remove(one).ok());
}

TEST_F(NvmlMigDevicesTest, WhatIsHalfMadeIsMadeWholeOrTakenBack) {
  bench_.scene().failures["nvmlGpuInstanceCreateComputeInstance"] = 23;
  EXPECT_TRUE(absl::IsUnavailable(Make(Instance(0, "2g.20gb", 2)).status()));
  EXPECT_EQ(bench_.TakeChanges(), (Changes{"+14@2", "-14@2"}));
  bench_.scene().failures.clear();
  // As an agent leaves it that was killed in between.
  bench_.scene().devices[0].instances.push_back({3, 14, 2, 2});
  EXPECT_TRUE(Make(Instance(0, "2g.20gb", 2)).ok());
  EXPECT_EQ(bench_.TakeChanges(), Changes{"+c2"});
}

TEST_F(NvmlMigDevicesTest, ADriverThatPlacesOtherwiseIsGivenNothing) {
  bench_.scene().devices[0].profiles[2].starts = {0};
  EXPECT_EQ(MakeReason(Instance(0, "1g.10gb", 0)), "MIG_TABLE_DIFFERS");
  bench_.scene().devices[1].memory_bytes = uint64_t{95830} << 20;
  EXPECT_EQ(MakeReason(Instance(1, "1g.10gb", 0)), "WRONG_GPU_MODEL");
  EXPECT_EQ(bench_.TakeChanges(), Changes{});
}

TEST_F(NvmlMigDevicesTest, ErrorsSayWhatToDo) {
  EXPECT_EQ(MakeReason(Instance(2, "1g.10gb", 0)), "MIG_OFF");
  EXPECT_EQ(MakeReason(Instance(3, "1g.10gb", 0)), "NO_SUCH_GPU");
  bench_.scene().unprivileged = true;
  EXPECT_EQ(MakeReason(Instance(0, "1g.10gb", 0)), "MIG_NOT_ALLOWED");
  bench_.scene().unprivileged = false;
  bench_.scene().devices[0].lost = true;
  EXPECT_EQ(MakeReason(Instance(0, "1g.10gb", 0)), "GPU_FAULT");
  EXPECT_EQ(bench_.TakeChanges(), Changes{});
}

// Else a Task on a GPU that is gone would never end.
TEST_F(NvmlMigDevicesTest, NothingStandsOnAGpuThatIsGone) {
  const MigInstance one = Instance(0, "1g.10gb", 0);
  ASSERT_TRUE(Make(one).ok());
  bench_.scene().devices[0].lost = true;
  EXPECT_TRUE(Remove(one).ok());
  // But while nobody can tell, it is not said to be removed.
  bench_.scene().devices[0].lost = false;
  bench_.scene().failures["nvmlDeviceGetCount_v2"] = 999;
  EXPECT_TRUE(absl::IsUnavailable(Remove(one)));
}

TEST_F(NvmlMigDevicesTest, AMissingDriverIsLookedForAgain) {
  bench_.scene().no_driver = true;
  EXPECT_EQ(MakeReason(Instance(0, "1g.10gb", 0)), "NO_NVML");
  EXPECT_TRUE(absl::IsUnavailable(Remove(Instance(0, "1g.10gb", 0))));
  bench_.scene().no_driver = false;
  EXPECT_TRUE(Make(Instance(0, "1g.10gb", 0)).ok());
  EXPECT_EQ(bench_.scene().open, 1);
}

TEST_F(NvmlMigDevicesTest, ADriverThatHangsHoldsUpNothingElse) {
  MakeMigInstance order;
  order.instance = Instance(0, "1g.10gb", 0);
  bool answered = false;
  bench_.devices().Make(order,
                        [&answered](const absl::StatusOr<std::string>&) { answered = true; });
  // The strand does not run the driver's work.
  bench_.strand().RunReady();
  EXPECT_FALSE(answered);
  EXPECT_EQ(bench_.TakeChanges(), Changes{});
  bench_.Run();
  EXPECT_TRUE(answered);
}

}  // namespace
}  // namespace capstan::node_agent
