#include "integration/kube_bench/webhook_bench.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/kube_bench/figure.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::bench {
namespace {

TEST(WebhookBenchTest, EveryReviewIsAnswered) {
  const auto figures = BenchWebhook({200, 4, absl::Seconds(1), 1});
  ASSERT_TRUE(figures.ok()) << figures.status();
  ASSERT_EQ(figures->size(), 3);
  for (const Figure& figure : *figures) {
    EXPECT_GT(figure.values[0], 0) << figure.name;
  }
}

TEST(FigureTest, TheLineHasMedianAndSpread) {
  const auto line = nlohmann::json::parse(ToLine({"kube.a", {3, 1, 2}, "ms", false, 5, "c"}));
  EXPECT_EQ(line["value"], 2);
  EXPECT_EQ(line["spread"], nlohmann::json({1, 3}));
  EXPECT_EQ(line["runs"], 3);
  EXPECT_EQ(line["better"], "higher");
  EXPECT_EQ(line["limit"], 5);
}

TEST(FigureTest, PercentilesAreValues) {
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(Percentile({4, 1, 3, 2}, 0.99), 4);
  EXPECT_EQ(Percentile({7}, 0), 7);
}

}  // namespace
}  // namespace capstan::kube::bench
