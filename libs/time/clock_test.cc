#include "libs/time/clock.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan {
namespace {

TEST(BootTimeTest, AddsAndSubtracts) {
  const BootTime t = BootTime::FromNanoseconds(5);
  EXPECT_EQ((t + absl::Nanoseconds(7)).ToNanoseconds(), 12);
  EXPECT_EQ((t - absl::Nanoseconds(7)).ToNanoseconds(), -2);
  EXPECT_EQ((t + absl::Seconds(1)) - t, absl::Seconds(1));
}

TEST(BootTimeTest, AWaitIsNeverShorterThanAsked) {
  const BootTime t = BootTime::FromNanoseconds(5);
  EXPECT_EQ((t + absl::Nanoseconds(0.25)).ToNanoseconds(), 6);
  EXPECT_EQ((t + absl::Nanoseconds(1.25)).ToNanoseconds(), 7);
  EXPECT_EQ((t - absl::Nanoseconds(0.25)).ToNanoseconds(), 5);
  EXPECT_EQ((t - absl::Nanoseconds(1.25)).ToNanoseconds(), 4);
}

TEST(BootTimeTest, SaturatesInsteadOfOverflowing) {
  const BootTime late = BootTime::FromNanoseconds(std::numeric_limits<int64_t>::max() - 1);
  EXPECT_EQ(late + absl::Hours(1), BootTime::InfiniteFuture());
  EXPECT_EQ(BootTime::InfiniteFuture() - absl::Hours(1), BootTime::InfiniteFuture());
  EXPECT_EQ(BootTime() + absl::InfiniteDuration(), BootTime::InfiniteFuture());
  EXPECT_EQ(BootTime() - absl::InfiniteDuration(), BootTime::InfinitePast());
  EXPECT_EQ(BootTime::InfiniteFuture() - BootTime(), absl::InfiniteDuration());
  EXPECT_EQ(BootTime() - BootTime::InfiniteFuture(), -absl::InfiniteDuration());
}

TEST(SimulatedClockTest, WallMayStepWithoutBoot) {
  SimulatedClock clock;
  const Now before = clock.Read();
  clock.StepWall(-absl::Hours(2));
  EXPECT_EQ(clock.Read().boot, before.boot);
  EXPECT_EQ(clock.Read().wall, before.wall - absl::Hours(2));
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Read().boot - before.boot, absl::Seconds(3));
}

TEST(SystemClockTest, BootTimeDoesNotGoBackwards) {
  SystemClock clock;
  const BootTime first = clock.Read().boot;
  EXPECT_GE(clock.Read().boot, first);
}

}  // namespace
}  // namespace capstan
