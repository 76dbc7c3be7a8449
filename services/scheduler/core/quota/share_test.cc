#include "services/scheduler/core/quota/share.h"

#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::scheduler {
namespace {

Wide RandomWide(Random& random) {
  const Wide value = static_cast<Wide>(random.Next()) << 64 | random.Next();
  return value >> random.Below(128);
}

// Compares by integer parts and inverted remainders: another method than the product's.
int CompareByEuclid(Wide a, Wide b, Wide c, Wide d) {
  int sign = 1;
  while (true) {
    const Wide left = a / b, right = c / d;
    if (left != right) return left < right ? -sign : sign;
    a %= b;
    c %= d;
    if (a == 0 || c == 0) return sign * ((a != 0) - (c != 0));
    std::swap(a, b);
    std::swap(c, d);
    sign = -sign;
  }
}

TEST(ShareTest, ComparesExactlyWhateverTheSize) {
  Random random(1);
  for (int i = 0; i < 200'000; ++i) {
    const Wide a = RandomWide(random), b = RandomWide(random) | 1;
    // Half of them nearly equal.
    const bool near = random.OneIn(2);
    const Wide c = near ? a + random.Below(2) : RandomWide(random);
    const Wide d = near ? b + random.Below(2) : RandomWide(random) | 1;
    if (d == 0 || (near && c < a)) continue;
    const auto order = Share::OfFraction(a, b) <=> Share::OfFraction(c, d);
    ASSERT_EQ(order < 0 ? -1 : order > 0, CompareByEuclid(a, b, c, d)) << "case " << i;
  }
}

TEST(ShareTest, NothingOfNothingIsNoShareAndSomethingOfNothingIsMoreThanAnything) {
  EXPECT_EQ(Share::Of(0, 0), Share::Of(0, 8));
  EXPECT_TRUE(Share::Of(1, 0).infinite());
  EXPECT_GT(Share::Of(1, 0), Share::Of(kMaxAmount, 1));
  EXPECT_EQ(Share::Of(1, 0), Share::Of(7, 0, 5));
  EXPECT_EQ(Share::Of(1, 2), Share::Of(4, 8));
  EXPECT_EQ(Share::Of(1, 2, 100), Share::Of(1, 200));
}

TEST(ShareTest, DominantShareIsTheGreatest) {
  Resources capacity, used;
  capacity[0] = 100, capacity[1] = 8, capacity[2] = kMaxAmount;
  used[0] = 50, used[1] = 5, used[2] = kMaxAmount / 2;
  EXPECT_EQ(DominantShare(used, capacity, 3), Share::Of(5, 8));
  EXPECT_EQ(DominantShare(used, capacity, 1), Share::Of(1, 2));
  EXPECT_EQ(DominantShare(used, capacity, 3, 10), Share::Of(1, 16));
  used[1] = -5;
  EXPECT_EQ(DominantShare(used, capacity, 3), Share::Of(1, 2));
  used[3] = 1;
  EXPECT_TRUE(DominantShare(used, capacity, 4).infinite()) << "of what the fleet does not have";
}

}  // namespace
}  // namespace capstan::scheduler
