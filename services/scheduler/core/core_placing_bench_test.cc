// Of small size, so that it stays true that it runs; what it measures then means nothing.
#include "services/scheduler/core/core_placing_bench.h"

#include "gtest/gtest.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler {
namespace {

TEST(CorePlacingBenchTest, PrintsItsFigures) {
  const Stopwatch stopwatch = MakeStopwatch();
  for (const auto& figure :
       {BenchCorePlacements(stopwatch, 20, 3, 1, 2), BenchCorePlacements(stopwatch, 20, 3, 8, 2),
        BenchCoreGangs(stopwatch, 30, 2), BenchCoreReclaim(stopwatch, 20, 2)}) {
    ASSERT_TRUE(figure.ok()) << figure.status();
    EXPECT_GT(figure->value, 0) << figure->name;
    EXPECT_EQ(figure->runs, 2);
  }
}

}  // namespace
}  // namespace capstan::scheduler
