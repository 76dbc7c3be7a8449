#include "services/scheduler/core/quota/rate_gate.h"

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/scheduler/core/quota/queue_spec.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/rate.h"

namespace capstan::scheduler {
namespace {

BootTime At(absl::Duration since_boot) { return BootTime() + since_boot; }

TEST(TokenBucketTest, GivesABurstAndThenTheRate) {
  TokenBucket bucket({.count = 2, .period = absl::Seconds(1), .burst = 5}, At(absl::Seconds(10)));
  EXPECT_TRUE(bucket.Take(5, At(absl::Seconds(10))));
  EXPECT_FALSE(bucket.Take(1, At(absl::Seconds(10))));
  EXPECT_EQ(bucket.AvailableAt(1, At(absl::Seconds(10))), At(absl::Milliseconds(10'500)));
  EXPECT_FALSE(bucket.Take(1, At(absl::Milliseconds(10'500) - absl::Nanoseconds(1))));
  EXPECT_TRUE(bucket.Take(1, At(absl::Milliseconds(10'500))));
  EXPECT_TRUE(bucket.Take(5, At(absl::Hours(10)))) << "full again";
  EXPECT_FALSE(bucket.Take(1, At(absl::Hours(10)))) << "and no more than full";
}

TEST(TokenBucketTest, NeverHoldsMoreThanItsBurst) {
  const TokenBucket bucket({.count = 1, .period = absl::Hours(24), .burst = 3}, BootTime());
  EXPECT_EQ(bucket.AvailableAt(4, BootTime()), BootTime::InfiniteFuture());
  EXPECT_EQ(bucket.AvailableAt(3, BootTime()), BootTime());
}

TEST(TokenBucketTest, ClockGoingBackGivesNothing) {
  TokenBucket bucket({.count = 1, .period = absl::Seconds(1), .burst = 1}, At(absl::Seconds(9)));
  EXPECT_TRUE(bucket.Take(1, At(absl::Seconds(9))));
  EXPECT_FALSE(bucket.Take(1, At(absl::Seconds(1))));
  EXPECT_FALSE(bucket.Take(1, At(absl::Milliseconds(9'999))));
  EXPECT_TRUE(bucket.Take(1, At(absl::Seconds(10))));
}

// A rate that no number of nanoseconds divides loses nothing: rounding would show in the total.
TEST(TokenBucketTest, IsExactInTheLongRun) {
  Random random(3);
  const Rate rate = {.count = 7, .period = absl::Nanoseconds(1'000'000'007), .burst = 7};
  TokenBucket bucket(rate, BootTime());
  ASSERT_TRUE(bucket.Take(7, BootTime()));
  int64_t taken = 0;
  BootTime now;
  while (taken < 10'000) {
    const BootTime next = bucket.AvailableAt(1, now);
    ASSERT_FALSE(next > now && bucket.Take(1, next - absl::Nanoseconds(1)));
    now = next;
    ASSERT_TRUE(bucket.Take(1, now));
    ++taken;
  }
  EXPECT_EQ(now.ToNanoseconds(), (int64_t{10'000} * 1'000'000'007 + 6) / 7);
}

TEST(RateGateTest, TakesAtEveryLevelOrNowhere) {
  QueueSpec team;
  team.id = "team";
  team.submit_rate = Rate{.count = 1, .period = absl::Seconds(10), .burst = 3};
  QueueSpec a;
  a.id = "a", a.parent = "team";
  a.submit_rate = Rate{.count = 1, .period = absl::Seconds(1), .burst = 2};
  QueueSpec b;
  b.id = "b", b.parent = "team";
  const QueueTree tree({team, a, b}, {});
  RateGate gate(tree, RateGate::Kind::kSubmit, BootTime());
  const int in_a = *tree.Find("a"), in_b = *tree.Find("b"), in_team = *tree.Find("team");
  EXPECT_FALSE(gate.Take(in_a, 2, BootTime()).has_value());
  absl::optional<RateRefusal> refusal = gate.Take(in_a, 1, BootTime());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->node, in_a);
  EXPECT_EQ(refusal->available, At(absl::Seconds(1)));
  // The refused one took nothing from the team's last token.
  EXPECT_FALSE(gate.Take(in_b, 1, BootTime()).has_value());
  refusal = gate.Take(in_a, 1, BootTime());
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->node, in_team) << "the one that takes longest";
  EXPECT_EQ(refusal->available, At(absl::Seconds(10)));
  RateGate starts(tree, RateGate::Kind::kStart, BootTime());
  EXPECT_FALSE(starts.Take(in_a, kMaxRateCount, BootTime()).has_value()) << "no rate, no bound";
}

TEST(RateGateTest, AnotherTreeGoesOnWithTheBucketsOfTheSameRates) {
  const BootTime start = BootTime() + absl::Seconds(1);
  QueueSpec same, changed;
  same.id = "same";
  changed.id = "changed";
  same.start_rate = changed.start_rate = Rate{1, absl::Seconds(10), 1};
  const QueueTree tree({same, changed}, {});
  RateGate gate(tree, RateGate::Kind::kStart, start);
  ASSERT_FALSE(gate.Check(*tree.Find("same"), 1, start).has_value());
  for (const char* id : {"same", "changed"}) {
    ASSERT_FALSE(gate.Take(*tree.Find(id), 1, start).has_value()) << "what was checked is there";
  }
  ASSERT_TRUE(gate.Check(*tree.Find("same"), 1, start).has_value());
  QueueSpec before;
  before.id = "a";
  changed.start_rate->burst = 2;
  const QueueTree grown({before, same, changed}, {});
  RateGate next(grown, RateGate::Kind::kStart, start, gate.TakeBuckets());
  EXPECT_FALSE(next.Take(*grown.Find("a"), 1, start).has_value());
  EXPECT_FALSE(next.Take(*grown.Find("changed"), 1, start).has_value());
  const absl::optional<RateRefusal> refusal = next.Check(*grown.Find("same"), 1, start);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->available, start + absl::Seconds(10));
}

}  // namespace
}  // namespace capstan::scheduler
