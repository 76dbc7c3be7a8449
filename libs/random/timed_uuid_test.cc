#include "libs/random/timed_uuid.h"

#include <set>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan {
namespace {

TEST(TimedUuidTest, IsInTheOrderOfTime) {
  Random random(1);
  const absl::Time now = absl::FromUnixMillis(0x0123456789ab);
  const std::string uuid = TimedUuid4(&random, now);
  ASSERT_EQ(uuid.size(), 36u);
  EXPECT_EQ(uuid.substr(0, 15), "01234567-89ab-4");
  EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos);
  EXPECT_LT(uuid, TimedUuid4(&random, now + absl::Milliseconds(1)));
  std::set<std::string> all;
  for (int i = 0; i < 1000; ++i) all.insert(TimedUuid4(&random, now));
  EXPECT_EQ(all.size(), 1000u);
}

}  // namespace
}  // namespace capstan
