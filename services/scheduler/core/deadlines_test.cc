#include "services/scheduler/core/deadlines.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace capstan::scheduler {
namespace {

BootTime At(int seconds) { return BootTime() + absl::Seconds(seconds); }

TEST(DeadlinesTest, TheNextIsTheFirstByTimeThenByName) {
  Deadlines deadlines;
  EXPECT_EQ(deadlines.next(), BootTime::InfiniteFuture());
  deadlines.Set("b", At(2));
  deadlines.Set("c", At(1));
  deadlines.Set("a", At(2));
  EXPECT_EQ(deadlines.next(), At(1));
  EXPECT_EQ(deadlines.next_name(), "c");
  deadlines.Erase("c");
  EXPECT_EQ(deadlines.next(), At(2));
  EXPECT_EQ(deadlines.next_name(), "a");
}

TEST(DeadlinesTest, EachHasOneTime) {
  Deadlines deadlines;
  deadlines.Set("a", At(1));
  deadlines.Set("a", At(3));
  EXPECT_EQ(deadlines.next(), At(3));
  deadlines.Erase("a");
  deadlines.Erase("a");
  EXPECT_FALSE(deadlines.Has("a"));
  EXPECT_EQ(deadlines.next(), BootTime::InfiniteFuture());
}

}  // namespace
}  // namespace capstan::scheduler
