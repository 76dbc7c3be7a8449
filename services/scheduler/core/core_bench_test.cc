// Of small size, so that it stays true that it runs; what it measures then means nothing.
#include "services/scheduler/core/core_bench.h"

#include "gtest/gtest.h"
#include "services/scheduler/core/bench_figure.h"
#include "services/scheduler/core/bench_queues.h"

namespace capstan::scheduler {
namespace {

constexpr int kNodes = 50;
constexpr int kQueued = 300;

TEST(CoreBenchTest, PrintsWhatStepsTake) {
  const auto figures = BenchSteps(MakeStopwatch(), kNodes, kQueued);
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->size(), 2u);
  for (const Figure& figure : *figures) EXPECT_GT(figure.value, 0) << figure.name;
}

TEST(CoreBenchTest, PrintsWhatRoundsTake) {
  for (const bench_fleet::QueueShape& queues :
       {bench_fleet::QueueShape{}, bench_fleet::QueueShape{50, 1},
        bench_fleet::QueueShape{200, 6}}) {
    const auto figure = BenchRound(MakeStopwatch(), kNodes, kQueued, queues);
    ASSERT_TRUE(figure.ok()) << figure.status();
    EXPECT_GT(figure->value, 0) << figure->name;
  }
}

}  // namespace
}  // namespace capstan::scheduler
