#include "integration/bench/figure.h"

#include "gtest/gtest.h"

namespace capstan::bench {
namespace {

TEST(FigureTest, MedianAndPercentileAreOfTheValuesInOrder) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  EXPECT_EQ(Percentile(hundred, 0.99), 99);
  EXPECT_EQ(Percentile(hundred, 1), 100);
  EXPECT_EQ(Percentile({7}, 0.99), 7);
  EXPECT_EQ(InUnit({absl::Seconds(2), absl::Milliseconds(1)}, absl::Milliseconds(1)),
            (std::vector<double>{2000, 1}));
}

TEST(FigureTest, ALineHasTheFieldsThatEveryBenchPrints) {
  Figure figure;
  figure.name = "start_ms";
  figure.values = {900, 800, 1000};
  figure.unit = "ms";
  EXPECT_EQ(ToLine(figure),
            "{\"name\":\"platform.start_ms\",\"value\":900,\"unit\":\"ms\",\"better\":\"lower\","
            "\"spread\":[800,1000],\"runs\":3,\"conditions\":\"\"}\n");
  figure.better = Better::kHigher;
  figure.limit = 350.5;
  figure.limit_name = "a \"disk\"";
  figure.bar = 100;
  EXPECT_EQ(ToLine(figure),
            "{\"name\":\"platform.start_ms\",\"value\":900,\"unit\":\"ms\",\"better\":\"higher\","
            "\"spread\":[800,1000],\"runs\":3,\"limit\":350.5,\"limit_name\":\"a \\\"disk\\\"\","
            "\"bar\":100,\"conditions\":\"\"}\n");
}

}  // namespace
}  // namespace capstan::bench
