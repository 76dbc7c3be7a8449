#include "libs/metrics/registry.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan::metrics {
namespace {

using ::testing::HasSubstr;

TEST(RegistryTest, RendersCountersGaugesAndHistograms) {
  Registry registry("scheduler");
  Counter placed = registry.AddCounter("placements_total", "Placements stored.");
  placed.Increment();
  placed.Increment(2);
  registry.AddGauge("queued_jobs", "Jobs that wait.", {{"queue", "default"}}).Set(4);
  registry.AddHistogram("round_duration_seconds", "Time of a round.")
      .Observe(absl::Milliseconds(30));
  const std::string text = registry.RenderText();
  EXPECT_THAT(text, HasSubstr("# HELP capstan_scheduler_placements_total Placements stored."));
  EXPECT_THAT(text, HasSubstr("capstan_scheduler_placements_total 3"));
  EXPECT_THAT(text, HasSubstr("capstan_scheduler_queued_jobs{queue=\"default\"} 4"));
  EXPECT_THAT(text, HasSubstr("capstan_scheduler_round_duration_seconds_bucket{le=\"0.05\"} 1"));
  EXPECT_THAT(text, HasSubstr("capstan_scheduler_round_duration_seconds_bucket{le=\"0.02\"} 0"));
}

TEST(RegistryTest, SameNameAndLabelsIsTheSameSeries) {
  Registry registry("a");
  registry.AddCounter("x_total", "X.", {{"k", "1"}}).Increment();
  registry.AddCounter("x_total", "X.", {{"k", "1"}}).Increment();
  registry.AddCounter("x_total", "X.", {{"k", "2"}}).Increment();
  EXPECT_EQ(registry.AddCounter("x_total", "X.", {{"k", "1"}}).value(), 2);
}

TEST(RegistryDeathTest, BadNamesAbort) {
  Registry registry("a");
  EXPECT_DEATH(registry.AddCounter("x", "X."), "only they, end in _total");
  EXPECT_DEATH(registry.AddGauge("x_total", "X."), "only they, end in _total");
  EXPECT_DEATH(registry.AddGauge("X", "X."), "lower-case");
  EXPECT_DEATH(registry.AddGauge("x_ms", "X."), "base units");
}

}  // namespace
}  // namespace capstan::metrics
