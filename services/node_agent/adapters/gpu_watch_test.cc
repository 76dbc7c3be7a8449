#include "services/node_agent/adapters/gpu_watch.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/fake_device_inventory.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/adapters/found_gpus.h"

namespace capstan::node_agent {
namespace {

class GpuWatchTest : public testing::Test {
 protected:
  GpuWatchTest()
      : strand_(&clock_),
        driver_(&clock_),
        logger_("test", &clock_, &sink_),
        watch_(
            {},
            [this]() -> absl::StatusOr<std::unique_ptr<gpu::DeviceInventory>> {
              ++opens_;
              if (!no_driver_.ok()) return no_driver_;
              return std::make_unique<gpu::FakeDeviceInventory>(&machine_);
            },
            &strand_, &driver_, &logger_) {
    AddGpu();
    AddGpu();
  }

  void AddGpu() {
    gpu::Gpu& gpu = machine_.gpus.emplace_back();
    gpu.index = static_cast<int>(machine_.gpus.size()) - 1;
    gpu.product = "NVIDIA H200";
    gpu.memory_bytes = int64_t{143771} << 20;
  }
  void Look() {
    watch_.Look([this](const FoundGpus& found) {
      ++answers_;
      const auto h200 = found.accelerators.find("nvidia.com/h200-141gb");
      count_ = h200 == found.accelerators.end() ? 0 : h200->second;
    });
  }
  // The driver answers.
  void LookAndRun() {
    Look();
    driver_.RunReady();
    strand_.RunReady();
  }
  size_t Logged(const std::string& message) const {
    size_t count = 0;
    for (const log::Record& record : sink_.records()) count += record.message == message ? 1 : 0;
    return count;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_;
  SimulatedStrand driver_;
  log::TestingSink sink_;
  const log::Logger logger_;
  gpu::FakeDeviceInventory::Machine machine_;
  absl::Status no_driver_;
  int opens_ = 0;
  GpuWatch watch_;
  int answers_ = 0;
  int64_t count_ = -1;
};

TEST_F(GpuWatchTest, EachLookTellsWhatIsThereNow) {
  LookAndRun();
  EXPECT_EQ(count_, 2);
  machine_.gpus[0].fault = gpu::Fault::kLost;
  LookAndRun();
  EXPECT_EQ(count_, 1);
  machine_.gpus[0].fault.reset();
  LookAndRun();
  EXPECT_EQ(count_, 2);
  EXPECT_EQ(answers_, 3);
  EXPECT_EQ(opens_, 1);
}

TEST_F(GpuWatchTest, WhatChangesIsLoggedOnce) {
  for (int i = 0; i < 3; ++i) LookAndRun();
  EXPECT_EQ(Logged("GPUs offered"), 1u);
  machine_.gpus[1].fault = gpu::Fault::kRowsFailed;
  for (int i = 0; i < 3; ++i) LookAndRun();
  EXPECT_EQ(Logged("GPUs offered"), 2u);
  EXPECT_EQ(Logged("a GPU is left out"), 1u);
}

TEST_F(GpuWatchTest, ADriverThatHangsKeepsNobodyWaitingLong) {
  LookAndRun();
  Look();
  strand_.Advance(absl::Seconds(4));
  EXPECT_EQ(answers_, 1);
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(answers_, 2);
  EXPECT_EQ(count_, 2) << "as it was known last";
  // It is not asked again meanwhile, and who comes later waits no more.
  Look();
  EXPECT_EQ(answers_, 2) << "never inline";
  strand_.RunReady();
  EXPECT_EQ(answers_, 3);
  EXPECT_EQ(machine_.lists, 1);
  // Silent for a minute: what it had does not count.
  strand_.Advance(absl::Minutes(1));
  Look();
  strand_.Advance(absl::Seconds(5));
  EXPECT_EQ(count_, 0);
  EXPECT_EQ(Logged("no GPUs are offered: their driver does not answer; see the kernel's log"), 1u);
  // It comes back, and with it what it has.
  driver_.RunReady();
  strand_.RunReady();
  EXPECT_EQ(machine_.lists, 2);
  LookAndRun();
  EXPECT_EQ(count_, 2);
}

TEST_F(GpuWatchTest, ADriverMayComeAndGo) {
  no_driver_ = status::Error(absl::StatusCode::kNotFound, "NO_NVML", "none is installed");
  LookAndRun();
  LookAndRun();
  EXPECT_EQ(count_, 0);
  EXPECT_EQ(Logged("no GPUs can be found"), 1u);
  no_driver_ = absl::OkStatus();
  LookAndRun();
  EXPECT_EQ(count_, 2);
  // Replaced: the library is opened anew.
  machine_.failure = absl::UnavailableError("the driver was unloaded");
  LookAndRun();
  EXPECT_EQ(count_, 0);
  machine_.failure = absl::OkStatus();
  const int opens = opens_;
  LookAndRun();
  EXPECT_EQ(count_, 2);
  EXPECT_EQ(opens_, opens + 1);
}

TEST_F(GpuWatchTest, ManyMayWaitForOneLook) {
  Look();
  Look();
  driver_.RunReady();
  strand_.RunReady();
  EXPECT_EQ(answers_, 2);
  EXPECT_EQ(machine_.lists, 1);
}

}  // namespace
}  // namespace capstan::node_agent
