#include "tools/fleet_simulator/mig_workload.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "libs/mig/profiles.h"

namespace capstan::fleet_simulator {
namespace {

const mig::DeviceModel& Model() {
  static const auto& model = *new mig::DeviceModel(mig::FindDeviceModel("H100-80GB").value());
  return model;
}

TEST(MigWorkloadTest, MixesAreWhole) {
  for (const MigMix& mix : MigMixes()) {
    EXPECT_EQ(mix.percent.size(), Model().profiles.size()) << mix.name;
    int64_t sum = 0;
    for (const int64_t percent : mix.percent) sum += percent;
    EXPECT_EQ(sum, 100) << mix.name;
  }
}

TEST(MigWorkloadTest, SameSeedSameTasksAndTheLoadThatWasAskedFor) {
  MigWorkloadOptions options;
  options.gpus = 16;
  for (const MigMix& mix : MigMixes()) {
    const std::vector<MigTask> tasks = GenerateMigTasks(Model(), mix, options);
    const std::vector<MigTask> again = GenerateMigTasks(Model(), mix, options);
    ASSERT_EQ(tasks.size(), again.size());
    double seconds = 0;
    std::vector<double> share(Model().profiles.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      ASSERT_EQ(tasks[i].at, again[i].at);
      ASSERT_EQ(tasks[i].runtime, again[i].runtime);
      ASSERT_EQ(tasks[i].profile, again[i].profile);
      ASSERT_TRUE(i == 0 || tasks[i - 1].at <= tasks[i].at);
      ASSERT_LT(tasks[i].at, options.span);
      seconds += absl::ToDoubleSeconds(tasks[i].runtime) *
                 Model().profiles[tasks[i].profile].memory_slices;
      share[tasks[i].profile] += 100.0 / static_cast<double>(tasks.size());
    }
    EXPECT_NEAR(seconds / (absl::ToDoubleSeconds(options.span) * 16 * 8), 0.8, 0.01);
    for (size_t p = 0; p < share.size(); ++p) {
      EXPECT_NEAR(share[p], static_cast<double>(mix.percent[p]), 3) << mix.name;
    }
  }
}

}  // namespace
}  // namespace capstan::fleet_simulator
