#include "tools/fleet_simulator/comparison.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan::fleet_simulator {
namespace {

using ::testing::HasSubstr;

TEST(ComparisonTest, AMeanHasStudentsInterval) {
  // t(0.975, 4) = 2.776; deviation 1.5811.
  const Difference difference = MeanDifference({1, 2, 3, 4, 5});
  EXPECT_DOUBLE_EQ(difference.mean, 3);
  EXPECT_NEAR(difference.margin, 1.9632, 0.001);
  EXPECT_TRUE(difference.clear());
  EXPECT_FALSE(MeanDifference({-1, 1, -1, 1}).clear());
  EXPECT_FALSE(MeanDifference({7}).clear());
  EXPECT_DOUBLE_EQ(MeanDifference({}).mean, 0);
}

TEST(ComparisonTest, SaysWhichPolicyIsClearlyWorse) {
  PolicyOutcomes all{"all", {}};
  PolicyOutcomes off{"off", {}};
  for (int seed = 0; seed < 5; ++seed) {
    Outcome outcome;
    outcome.utilisation = 0.8 + 0.01 * seed;
    outcome.waits.mean = absl::Hours(2);
    all.outcomes.push_back(outcome);
    outcome.utilisation -= 0.1 + 0.001 * seed;
    outcome.waits.mean = absl::Hours(1) + absl::Minutes(seed);
    off.outcomes.push_back(outcome);
  }
  const std::string table = ComparisonTable({all, off});
  EXPECT_THAT(table, HasSubstr("(-10.20 ± 0.20 worse)"));
  EXPECT_THAT(table, HasSubstr("better)"));
  EXPECT_THAT(ComparisonJsonLines({all, off}, 7),
              HasSubstr("{\"policy\":\"off\",\"seed\":7,\"measure\":\"mean wait\",\"unit\":\"h\","
                        "\"value\":1}"));
}

TEST(ComparisonTest, JsonHasTheWaitsOfEachQueueAndSize) {
  Outcome outcome;
  Waits& waits = outcome.by_queue["a \"b\"\xff"];
  waits.jobs = 3;
  waits.p50 = absl::Minutes(30);
  waits.p99 = absl::Hours(2);
  outcome.by_size["64+"].jobs = 1;
  const std::string lines = ComparisonJsonLines({{"all", {outcome}}}, 1);
  EXPECT_THAT(lines,
              HasSubstr("{\"policy\":\"all\",\"seed\":1,\"queue\":\"a \\\"b\\\"\xEF\xBF\xBD\","
                        "\"jobs\":3,\"mean_wait_h\":0,\"p50_wait_h\":0.5,"
                        "\"p90_wait_h\":0,\"p99_wait_h\":2}\n"));
  EXPECT_THAT(lines, HasSubstr("\"gpus\":\"64+\",\"jobs\":1,"));
}

TEST(ComparisonTest, PercentilesAreNearestRanks) {
  std::vector<absl::Duration> waits;
  for (int i = 100; i >= 1; --i) waits.push_back(absl::Seconds(i));
  const Waits summary = Summarize(waits);
  EXPECT_EQ(summary.p50, absl::Seconds(50));
  EXPECT_EQ(summary.p90, absl::Seconds(90));
  EXPECT_EQ(summary.p99, absl::Seconds(99));
  EXPECT_EQ(summary.jobs, 100);
}

}  // namespace
}  // namespace capstan::fleet_simulator
