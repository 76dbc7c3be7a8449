#include "tools/fleet_simulator/mig_study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/mig/packing.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "tools/fleet_simulator/mig_simulation.h"

namespace capstan::fleet_simulator {
namespace {

TEST(MigSimulationTest, WaitsAreFromComingToStarting) {
  const mig::StateTable table(mig::FindDeviceModel("H100-80GB").value());
  const int whole = mig::ParseProfile(table.model(), "7g.80gb").value();
  const int half = mig::ParseProfile(table.model(), "3g.40gb").value();
  MigWorkloadOptions options;
  options.gpus = 1;
  options.span = absl::Hours(10);
  const std::vector<MigTask> tasks = {{absl::Hours(0), absl::Hours(4), half},
                                      {absl::Hours(1), absl::Hours(2), whole},
                                      {absl::Hours(2), absl::Hours(1), half}};
  const MigOutcome outcome =
      RunMigTasks(table, tasks, options, [&table](absl::Span<const mig::State> gpus, int profile) {
        return mig::FirstFit(table, gpus, profile);
      });
  EXPECT_NEAR(outcome.at_once, 200.0 / 3, 1e-9);
  EXPECT_NEAR(outcome.wait, 1, 1e-9);
  EXPECT_NEAR(outcome.wait_large, 1, 1e-9);
  EXPECT_NEAR(outcome.wait_whole, 3, 1e-9);
  EXPECT_NEAR(outcome.used, 100.0 * (4 * 4 + 2 * 8 + 1 * 4) / 80, 1e-9);
}

TEST(MigStudyTest, TablesAreTheSameEachTime) {
  MigStudyOptions options;
  options.workload.gpus = 4;
  options.workload.span = absl::Hours(48);
  options.loads = {80};
  options.seeds = 3;
  const std::string tables = MigStudyTables(options);
  EXPECT_EQ(tables, MigStudyTables(options));
  for (const MigMix& mix : MigMixes()) {
    EXPECT_THAT(tables, ::testing::HasSubstr("mix " + mix.name + ", load 80 %"));
  }
}

}  // namespace
}  // namespace capstan::fleet_simulator
