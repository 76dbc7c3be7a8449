#include "libs/time/proto_time.h"

#include <limits>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace capstan {
namespace {

TEST(ProtoTimeTest, GoesThereAndBack) {
  for (const absl::Duration d : {absl::ZeroDuration(), absl::Nanoseconds(-1), absl::Seconds(-2.5),
                                 absl::Hours(24) + absl::Nanoseconds(7)}) {
    EXPECT_EQ(ToDuration(ToProto(d)), d);
    const absl::Time t = absl::UnixEpoch() + d;
    EXPECT_EQ(ToTime(ToProto(t)), t);
    EXPECT_GE(ToProto(t).nanos(), 0);
  }
}

TEST(ProtoTimeTest, ClampsInfinities) {
  EXPECT_EQ(ToProto(absl::InfiniteFuture()).seconds(), 253'402'300'799);
  EXPECT_EQ(ToProto(absl::InfinitePast()).seconds(), -62'135'596'800);
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), 315'576'000'000);
}

TEST(ProtoTimeTest, MalformedDurationsAreInNoRange) {
  const auto make = [](int64_t seconds, int32_t nanos) {
    google::protobuf::Duration duration;
    duration.set_seconds(seconds);
    duration.set_nanos(nanos);
    return ToDuration(duration);
  };
  EXPECT_EQ(make(60, -1), absl::InfiniteDuration());
  EXPECT_EQ(make(-60, 1), -absl::InfiniteDuration());
  EXPECT_EQ(make(0, 1'000'000'000), absl::InfiniteDuration());
  EXPECT_EQ(make(0, std::numeric_limits<int32_t>::min()), absl::InfiniteDuration());
  EXPECT_EQ(make(315'576'000'001, 0), absl::InfiniteDuration());
  EXPECT_EQ(make(std::numeric_limits<int64_t>::min(), 0), -absl::InfiniteDuration());
  EXPECT_EQ(make(0, -999'999'999), absl::Nanoseconds(-999'999'999));
}

}  // namespace
}  // namespace capstan
