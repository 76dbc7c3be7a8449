// Of small size, so that it stays true that it runs; what it measures then means nothing.
#include "services/scheduler/core/growth_bench.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler {
namespace {

TEST(GrowthBenchTest, PrintsEachPointOfTheCurvesOnce) {
  GrowthSizes sizes;
  sizes.base_nodes = 40;
  sizes.base_queued = 60;
  sizes.nodes = {20, 40};
  sizes.queued = {30, 60, 200};
  sizes.queues = {50, 300};
  sizes.placed_on = {20, 30};
  sizes.runs = 1;
  std::set<std::string> names;
  BenchGrowth(MakeStopwatch(), sizes, [&names](const absl::StatusOr<Figure>& figure) {
    ASSERT_TRUE(figure.ok()) << figure.status();
    EXPECT_GT(figure->value, 0) << figure->name;
    EXPECT_TRUE(names.insert(figure->name).second) << figure->name;
  });
  for (const char* const name :
       {"core_round_ms.nodes20.queued60.queues50.levels3",
        "core_round_ms.nodes40.queued60.queues50.levels3",
        "core_round_ms.nodes40.queued30.queues50.levels3",
        "core_round_ms.nodes40.queued200.queues50.levels3",
        "core_round_ms.nodes40.queued60.queues50.levels6",
        "core_round_ms.nodes40.queued60.queues300.levels6",
        "core_placements_per_s.nodes20.classes20", "core_placements_per_s.nodes30.classes20"}) {
    EXPECT_EQ(names.erase("scheduler." + std::string(name)), 1u) << name;
  }
  EXPECT_TRUE(names.empty()) << *names.begin();
}

}  // namespace
}  // namespace capstan::scheduler
