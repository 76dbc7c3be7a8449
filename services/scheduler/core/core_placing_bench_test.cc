// Of small size, so that it stays true that it runs; what it measures then means nothing.
#include "services/scheduler/core/core_placing_bench.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/bench_queues.h"

namespace capstan::scheduler {
namespace {

TEST(CorePlacingBenchTest, PrintsItsFigures) {
  const Stopwatch stopwatch = MakeStopwatch();
  for (const bench_fleet::QueueShape& queues :
       {bench_fleet::QueueShape{}, bench_fleet::QueueShape{50, 1},
        bench_fleet::QueueShape{50, 6}}) {
    for (const auto& figure :
         {BenchCorePlacements(stopwatch, 20, 3, 1, 2, queues),
          BenchCorePlacements(stopwatch, 20, 3, 8, 2, queues),
          BenchCoreGangs(stopwatch, 30, 2, queues), BenchCoreReclaim(stopwatch, 20, 2, queues)}) {
      ASSERT_TRUE(figure.ok()) << figure.status();
      EXPECT_GT(figure->value, 0) << figure->name;
      EXPECT_EQ(figure->runs, 2);
      EXPECT_EQ(absl::EndsWith(figure->name, ".flat"), queues.flat());
      EXPECT_TRUE(absl::StrContains(figure->conditions, InWords(queues))) << figure->conditions;
    }
  }
}

// As many Nodes as give some Queues a guarantee that keeps their Jobs from ending.
TEST(CorePlacingBenchTest, MakesRoomWithinGuarantees) {
  const auto figure = BenchCoreReclaim(MakeStopwatch(), 100, 2);
  ASSERT_TRUE(figure.ok()) << figure.status();
}

}  // namespace
}  // namespace capstan::scheduler
