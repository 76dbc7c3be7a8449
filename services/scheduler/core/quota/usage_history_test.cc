#include "services/scheduler/core/quota/usage_history.h"

#include <cmath>

#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::scheduler {
namespace {

constexpr absl::Duration kWeek = absl::Hours(24 * 7);
const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

Resources Gpus(int64_t amount) {
  Resources resources;
  resources[0] = amount;
  return resources;
}

TEST(DecayTest, IsTwoToTheMinusElapsedOverHalfLife) {
  EXPECT_EQ(Decay(kWeek, kWeek), uint64_t{1} << (kDecayBits - 1));
  EXPECT_EQ(Decay(10 * kWeek, kWeek), uint64_t{1} << (kDecayBits - 10));
  EXPECT_EQ(Decay(1000 * kWeek, kWeek), 0u);
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    const absl::Duration half_life = random.Between(absl::Seconds(1), 10 * kWeek);
    const absl::Duration elapsed = random.Between(absl::Nanoseconds(1), 5 * half_life);
    const double exact = std::exp2(-absl::FDivDuration(elapsed, half_life)) *
                         static_cast<double>(uint64_t{1} << kDecayBits);
    ASSERT_NEAR(static_cast<double>(Decay(elapsed, half_life)), exact, 80.0);
    ASSERT_GE(Decay(elapsed, half_life), Decay(elapsed + absl::Seconds(1), half_life));
  }
}

TEST(UsageHistoryTest, HalvesEachHalfLifeAndReachesSteadyUse) {
  UsageHistory history;
  Advance(history, Gpus(1000), kWeek, kStart);
  EXPECT_EQ(history.average[0], 0) << "nothing is known of the time before";
  Advance(history, Gpus(1000), kWeek, kStart + kWeek);
  EXPECT_EQ(history.average[0], 500);
  Advance(history, Gpus(1000), kWeek, kStart + 2 * kWeek);
  EXPECT_EQ(history.average[0], 750);
  Advance(history, Gpus(0), kWeek, kStart + 3 * kWeek);
  EXPECT_EQ(history.average[0], 375);
  EXPECT_EQ(history.fraction[0], 0u);
  Advance(history, Gpus(kMaxAmount), kWeek, kStart + 300 * kWeek);
  EXPECT_EQ(history.average[0], kMaxAmount);
}

TEST(UsageHistoryTest, DoesNotDependOnHowOftenItIsAdvanced) {
  Random random(2);
  UsageHistory once, often;
  Advance(once, Gpus(7), kWeek, kStart);
  Advance(often, Gpus(7), kWeek, kStart);
  absl::Time now = kStart;
  for (int i = 0; i < 10'000; ++i) {
    now += random.Between(absl::Milliseconds(1), absl::Seconds(100));
    Advance(often, Gpus(7'000'000), kWeek, now);
  }
  Advance(once, Gpus(7'000'000), kWeek, now);
  EXPECT_NEAR(static_cast<double>(once.average[0]), static_cast<double>(often.average[0]), 2.0);
}

TEST(UsageHistoryTest, NeverLeavesTheRangeOfWhatWasUsed) {
  Random random(3);
  UsageHistory history;
  absl::Time now = kStart;
  for (int i = 0; i < 20'000; ++i) {
    now += random.Between(absl::Nanoseconds(1), absl::Hours(random.Between(1, 1000)));
    Advance(history, Gpus(random.Between(10, 20)), absl::Hours(1), now);
    ASSERT_LE(history.average[0], 20);
    ASSERT_GE(history.average[0], 0);
  }
}

TEST(UsageHistoryTest, AClockThatStepsBackCountsNothingTwice) {
  UsageHistory history;
  Advance(history, Gpus(1000), kWeek, kStart);
  Advance(history, Gpus(1000), kWeek, kStart + kWeek);
  const UsageHistory before = history;
  Advance(history, Gpus(1000), kWeek, kStart);
  EXPECT_EQ(history, before);
}

TEST(UsageHistoryTest, NoHalfLifeNoHistory) {
  UsageHistory history;
  Advance(history, Gpus(1000), kWeek, kStart);
  Advance(history, Gpus(1000), kWeek, kStart + kWeek);
  Advance(history, Gpus(1000), absl::ZeroDuration(), kStart + kWeek);
  EXPECT_EQ(history, UsageHistory{.as_of = kStart + kWeek});
}

}  // namespace
}  // namespace capstan::scheduler
