#include "services/data_loader/core/part_plan.h"

#include <map>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::data_loader {
namespace {

TEST(PlanPartsTest, LargestFilesFirstAndEmptyOnesToo) {
  EXPECT_EQ(
      PlanParts({3, 0, 9}, 4),
      (std::vector<Part>{{2, 0, 0, 4}, {2, 1, 4, 4}, {2, 2, 8, 1}, {0, 0, 0, 3}, {1, 0, 0, 0}}));
}

// Every byte of every file lies in exactly one part.
TEST(PlanPartsTest, CoversEveryByteOnce) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    std::vector<int64_t> sizes(random.Below(20));
    for (int64_t& size : sizes) size = static_cast<int64_t>(random.Below(100));
    std::map<int32_t, int64_t> covered;
    for (const Part& part : PlanParts(sizes, 1 + static_cast<int64_t>(random.Below(30)))) {
      EXPECT_EQ(part.offset, covered[part.file]);
      covered[part.file] += part.size;
    }
    ASSERT_EQ(covered.size(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(covered[static_cast<int32_t>(i)], sizes[i]);
  }
}

TEST(RateEstimatorTest, FollowsTheWindow) {
  RateEstimator rate(absl::Seconds(5));
  EXPECT_EQ(rate.Eta(100), absl::nullopt);
  const BootTime start;
  for (int i = 0; i <= 20; ++i) rate.Add(start + absl::Seconds(i), i < 10 ? 0 : (i - 10) * 100);
  EXPECT_DOUBLE_EQ(rate.BytesPerSecond(), 100);
  EXPECT_EQ(rate.Eta(2000), absl::Seconds(10));
  EXPECT_EQ(rate.Eta(500), absl::ZeroDuration());
}

}  // namespace
}  // namespace capstan::data_loader
