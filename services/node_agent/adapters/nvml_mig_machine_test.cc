// The adapter on the GPUs of this very machine: run by hand, where there are some. Changes nothing:
// it skips unless every GPU's MIG mode is off, and then nothing can be made.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "libs/gpu/device_inventory.h"
#include "libs/gpu/gpu_model.h"
#include "libs/gpu/nvml_inventory.h"
#include "libs/mig/profiles.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/adapters/nvml_mig_devices.h"

namespace capstan::node_agent {
namespace {

TEST(NvmlMigMachineTest, WithTheModeOffNothingIsMade) {
  const auto inventory = gpu::OpenNvmlInventory();
  if (!inventory.ok()) GTEST_SKIP() << inventory.status();
  const std::vector<gpu::Gpu> before = (*inventory)->List().value();
  for (const gpu::Gpu& gpu : before) {
    if (gpu.mig.has_value() && gpu.mig->now)
      GTEST_SKIP() << "GPU " << gpu.index << " is in MIG mode";
  }
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  const auto devices = MakeNvmlMigDevices(&strand, &strand);
  for (const gpu::Gpu& gpu : before) {
    const std::string model = gpu::ModelName(gpu.product, gpu.memory_bytes);
    const auto table = mig::FindDeviceModel(model);
    if (!table.ok()) continue;
    for (const mig::Profile& profile : table->profiles) {
      MakeMigInstance order;
      order.instance.set_gpu(gpu.index);
      order.instance.set_model(model);
      order.instance.set_profile(profile.name);
      absl::StatusOr<std::string> made = absl::UnknownError("no answer");
      devices->Make(order, [&made](absl::StatusOr<std::string> name) { made = name; });
      strand.RunReady();
      EXPECT_TRUE(absl::IsFailedPrecondition(made.status())) << made.status();
      EXPECT_EQ(status::Reason(made.status()), "MIG_OFF");
      printf("refused: %s\n", made.status().ToString().c_str());
      absl::Status removed = absl::UnknownError("no answer");
      devices->Remove(order.instance, [&removed](absl::Status done) { removed = done; });
      strand.RunReady();
      EXPECT_TRUE(removed.ok()) << removed;
    }
  }
  EXPECT_EQ((*inventory)->List().value(), before);
}

}  // namespace
}  // namespace capstan::node_agent
