#include "libs/process/own_metrics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/time/system_clock.h"

namespace capstan::process {
namespace {

using ::testing::HasSubstr;

TEST(OwnMetricsTest, LooksAtItsOwnProcess) {
  const SystemClock clock;
  metrics::Registry registry("process");
  OwnMetrics own(&clock, &registry);
  own.Update(absl::InfinitePast(), absl::InfinitePast());
  EXPECT_GT(registry.AddGauge("resident_memory_bytes", "").value(), 1e6);
  EXPECT_GE(registry.AddGauge("open_files", "").value(), 3);
  const double cpu = registry.AddCounter("cpu_seconds_total", "").value();
  EXPECT_GT(cpu, 0);
  EXPECT_EQ(registry.AddGauge("svid_expiry_timestamp_seconds", "").value(), 0);
  own.Update(absl::FromUnixSeconds(1'999'913'600), absl::FromUnixSeconds(2'000'000'000));
  EXPECT_EQ(registry.AddGauge("svid_lifetime_seconds", "").value(), 86400);
  EXPECT_EQ(registry.AddGauge("svid_expiry_timestamp_seconds", "").value(), 2e9);
  EXPECT_GE(registry.AddCounter("cpu_seconds_total", "").value(), cpu);
  EXPECT_NEAR(registry.AddGauge("start_timestamp_seconds", "").value(),
              absl::ToDoubleSeconds(clock.Read().wall - absl::UnixEpoch()), 60);
}

TEST(OwnMetricsTest, CountsRenewals) {
  const SystemClock clock;
  metrics::Registry registry("process");
  OwnMetrics own(&clock, &registry);
  own.CountRenewal(true);
  own.CountRenewal(false);
  own.CountRenewal(false);
  EXPECT_THAT(registry.RenderText(),
              HasSubstr("capstan_process_svid_renewals_total{outcome=\"failed\"} 2"));
  EXPECT_THAT(registry.RenderText(),
              HasSubstr("capstan_process_svid_renewals_total{outcome=\"renewed\"} 1"));
}

}  // namespace
}  // namespace capstan::process
