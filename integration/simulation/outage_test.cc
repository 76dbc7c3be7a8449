// Outages of the scheduler and of the network against running gangs; see outage.h for what is
// promised. Each test prints what it saw.
#include "integration/simulation/outage.h"

#include <algorithm>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/simulation/mutants.h"

namespace capstan::simulation {
namespace {

using Of = OutageConfig::Of;

std::string Text(absl::Duration d) {
  return absl::FormatDuration(absl::Trunc(d, absl::Milliseconds(1)));
}

std::string Describe(const OutageReport& report) {
  std::string text = absl::StrCat(report.how, ": ", report.tasks, " Tasks, ",
                                  report.finished_meanwhile, " finished meanwhile");
  if (report.gangs_again > 0) {
    absl::StrAppend(&text, "; lived ", Text(report.shortest_life), " to ",
                    Text(report.longest_life), " unconfirmed; ", report.gangs_again,
                    " gangs again, the first after ", Text(report.earliest_replacement), ", ",
                    Text(report.shortest_gap), " after an end");
  }
  return text;
}

// Runs seeds until one breaks a promise, and sums up.
OutageReport RunSeeds(OutageConfig config, uint64_t seeds, bool print = true) {
  OutageReport sum;
  for (uint64_t seed = 0; seed < seeds && sum.broken.empty(); ++seed) {
    config.seed = seed;
    const OutageReport report = RunOutage(config);
    if (print) std::cout << "seed " << seed << ": " << Describe(report) << "\n";
    for (const std::string& what : report.broken) {
      sum.broken.push_back(absl::StrCat("seed ", seed, ", ", report.how, ": ", what));
    }
    sum.tasks += report.tasks;
    sum.finished_meanwhile += report.finished_meanwhile;
    sum.gangs_again += report.gangs_again;
    sum.longest_life = std::max(sum.longest_life, report.longest_life);
    sum.shortest_life = std::min(sum.shortest_life, report.shortest_life);
    sum.earliest_replacement = std::min(sum.earliest_replacement, report.earliest_replacement);
    sum.shortest_gap = std::min(sum.shortest_gap, report.shortest_gap);
  }
  sum.how = absl::StrCat("in all ", seeds, " seeds");
  if (print) std::cout << Describe(sum) << std::endl;
  return sum;
}

std::string First(const OutageReport& report) {
  return report.broken.empty() ? "" : report.broken.front();
}

// With the default fence_after, which is 15 min.
TEST(OutageTest, NoTaskStopsWhileTheSchedulerIsDownFor10Minutes) {
  OutageConfig config;
  config.length = absl::Minutes(10);
  const OutageReport report = RunSeeds(config, 20);
  EXPECT_EQ(First(report), "");
  EXPECT_GE(report.tasks, 100);
  EXPECT_GT(report.finished_meanwhile, 0);
  EXPECT_LT(report.finished_meanwhile, report.tasks);
}

TEST(OutageTest, NoTaskStopsWhileANetworkIsCutForLessThanFenceAfter) {
  for (const Of of : {Of::kNode, Of::kExecutor}) {
    OutageConfig config;
    config.of = of;
    config.fence_after = absl::Minutes(1);
    config.length = absl::Seconds(35);
    const OutageReport report = RunSeeds(config, 6);
    EXPECT_EQ(First(report), "");
    EXPECT_GT(report.tasks, report.finished_meanwhile);
  }
}

TEST(OutageTest, TasksEndThemselvesWhileTheSchedulerIsDownForLonger) {
  OutageConfig config;
  config.fence_after = absl::Minutes(1);
  config.hurt_hosts = true;
  const OutageReport report = RunSeeds(config, 20);
  EXPECT_EQ(First(report), "");
  EXPECT_GE(report.tasks, 100);
  EXPECT_EQ(report.gangs_again, 60);
}

TEST(OutageTest, TasksEndThemselvesByTheDefaultToo) {
  OutageConfig config;
  config.hurt_hosts = true;
  EXPECT_EQ(First(RunSeeds(config, 2)), "");
}

TEST(OutageTest, TasksOfANodeCutOffEndBeforeTheyStartElsewhere) {
  OutageConfig config;
  config.of = Of::kNode;
  config.fence_after = absl::Minutes(1);
  config.hurt_hosts = true;
  const OutageReport report = RunSeeds(config, 21);
  EXPECT_EQ(First(report), "");
  EXPECT_GE(report.gangs_again, 21);
}

TEST(OutageTest, TasksOfAClusterCutOffEndBeforeTheyStartElsewhere) {
  OutageConfig config;
  config.of = Of::kExecutor;
  config.fence_after = absl::Minutes(1);
  config.hurt_hosts = true;
  const OutageReport report = RunSeeds(config, 21);
  EXPECT_EQ(First(report), "");
  EXPECT_GE(report.gangs_again, 21);
}

// ---- What is checked is seen when it breaks.

std::string FirstBroken(Of of, const Mutants& mutants) {
  OutageConfig config;
  config.of = of;
  config.fence_after = absl::Minutes(1);
  config.hurt_hosts = true;
  config.mutants = mutants;
  const std::string broken = First(RunSeeds(config, 20, /*print=*/false));
  std::cout << broken << std::endl;
  return broken;
}

TEST(OutageTest, SeesShimsThatIgnoreTheirDeadline) {
  Mutants mutants;
  mutants.shim_ignores_deadline = true;
  EXPECT_NE(FirstBroken(Of::kScheduler, mutants), "");
  EXPECT_NE(FirstBroken(Of::kNode, mutants), "");
}

TEST(OutageTest, SeesASchedulerThatReplacesEarly) {
  Mutants mutants;
  mutants.replaces_early = true;
  EXPECT_NE(FirstBroken(Of::kNode, mutants), "");
  EXPECT_NE(FirstBroken(Of::kExecutor, mutants), "");
}

}  // namespace
}  // namespace capstan::simulation
