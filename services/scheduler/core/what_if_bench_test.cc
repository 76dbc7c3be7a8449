// Of small size, so that it stays true that it runs; what it measures then means nothing.
#include "services/scheduler/core/what_if_bench.h"

#include "gtest/gtest.h"
#include "services/scheduler/core/bench_figure.h"

namespace capstan::scheduler {
namespace {

TEST(WhatIfBenchTest, PrintsItsFigures) {
  for (const int queued : {0, 60}) {
    const auto figures = BenchSimulation(MakeStopwatch(), 20, queued);
    ASSERT_TRUE(figures.ok()) << figures.status();
    EXPECT_EQ(figures->size(), 5u);
    for (const Figure& figure : *figures) EXPECT_GT(figure.value, 0) << figure.name;
  }
}

}  // namespace
}  // namespace capstan::scheduler
