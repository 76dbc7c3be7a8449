#include "tools/fleet_simulator/generator.h"

#include <cstddef>
#include <map>

#include "gtest/gtest.h"

namespace capstan::fleet_simulator {
namespace {

GeneratorOptions Small(uint64_t seed) {
  GeneratorOptions options;
  options.seed = seed;
  options.fleet.nodes = 32;
  options.span = absl::Hours(48);
  return options;
}

TEST(GeneratorTest, TheSameSeedGivesTheSameWorkloadAndAnotherAnother) {
  const Workload a = Generate(Small(1));
  const Workload b = Generate(Small(1));
  const Workload c = Generate(Small(2));
  ASSERT_EQ(a.jobs.size(), b.jobs.size());
  for (size_t j = 0; j < a.jobs.size(); ++j) {
    EXPECT_EQ(a.jobs[j].submitted, b.jobs[j].submitted);
    EXPECT_EQ(a.jobs[j].runtime, b.jobs[j].runtime);
    EXPECT_EQ(a.jobs[j].gpus(), b.jobs[j].gpus());
  }
  EXPECT_TRUE(a.jobs.size() != c.jobs.size() || a.jobs[0].runtime != c.jobs[0].runtime);
}

TEST(GeneratorTest, CheckpointsThatVaryChangeNothingElse) {
  GeneratorOptions options = Small(1);
  const Workload alike = Generate(options);
  options.varied_checkpoints = true;
  const Workload varied = Generate(options);
  ASSERT_EQ(alike.jobs.size(), varied.jobs.size());
  std::map<absl::Duration, size_t> periods;
  for (size_t j = 0; j < alike.jobs.size(); ++j) {
    EXPECT_EQ(alike.jobs[j].submitted, varied.jobs[j].submitted);
    EXPECT_EQ(alike.jobs[j].runtime, varied.jobs[j].runtime);
    EXPECT_EQ(alike.jobs[j].declared, varied.jobs[j].declared);
    ++periods[varied.jobs[j].checkpoint_period];
  }
  EXPECT_EQ(periods.size(), 5u);
  for (const auto& [period, jobs] : periods) EXPECT_GT(jobs, varied.jobs.size() / 8) << period;
}

TEST(GeneratorTest, AsksForTheLoadInOrderOfTimeWithinBounds) {
  const GeneratorOptions options = Small(3);
  const Workload workload = Generate(options);
  double asked = 0;
  absl::Duration last;
  for (const WorkloadJob& job : workload.jobs) {
    EXPECT_GE(job.submitted, last);
    EXPECT_LT(job.submitted, options.span);
    EXPECT_LE(job.gpus(), options.fleet.gpus() / 4);
    EXPECT_GE(job.declared, job.runtime);
    last = job.submitted;
    asked += absl::ToDoubleHours(job.runtime) * static_cast<double>(job.gpus());
  }
  const double load = asked / (48.0 * static_cast<double>(options.fleet.gpus()));
  EXPECT_GE(load, 0.95);
  // The last Job drawn may go beyond it.
  EXPECT_LT(load, 0.95 + 96.0 / 4 / 48);
}

}  // namespace
}  // namespace capstan::fleet_simulator
