#include "services/node_agent/core/upload_budget.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"

namespace capstan::node_agent {
namespace {

TEST(UploadBudgetTest, SoManyAtOnceAndNoMore) {
  UploadBudget budget(2, 0);
  EXPECT_TRUE(budget.Begin());
  EXPECT_TRUE(budget.Begin());
  EXPECT_FALSE(budget.Begin());
  EXPECT_EQ(budget.uploads(), 2);
  budget.End();
  EXPECT_TRUE(budget.Begin());
  EXPECT_EQ(budget.Take(int64_t{1} << 40, BootTime()), absl::ZeroDuration()) << "no bound";
}

TEST(UploadBudgetTest, WhoeverAsksInWhateverPiecesTheRateHolds) {
  Random random(7);
  UploadBudget budget(4, 1000);
  const BootTime start = BootTime() + absl::Hours(1);
  BootTime now = start;
  int64_t taken = 0;
  for (int i = 0; i < 1000; ++i) {
    const int64_t bytes = random.Between(int64_t{1}, int64_t{100});
    const absl::Duration wait = budget.Take(bytes, now);
    EXPECT_GE(wait, absl::ZeroDuration());
    // All that was taken before could be sent in the time until then.
    EXPECT_LE(static_cast<double>(taken), absl::ToDoubleSeconds(now + wait - start) * 1000 + 1);
    taken += bytes;
    // A while in which nobody asks is not saved up for later: that would be a burst.
    now = i == 500 ? now + wait : now + random.Between(absl::ZeroDuration(), wait);
  }
  EXPECT_EQ(budget.Take(1, now + absl::Hours(1)), absl::ZeroDuration());
}

}  // namespace
}  // namespace capstan::node_agent
