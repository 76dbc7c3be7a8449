#include "libs/resource/proto_time.h"

#include "gtest/gtest.h"

namespace capstan::resource {
namespace {

TEST(ProtoTimeTest, GoesRound) {
  for (const absl::Duration d : {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Hours(30),
                                 -absl::Milliseconds(1500), absl::Seconds(1) / 3}) {
    EXPECT_LT(absl::AbsDuration(FromProto(ToProto(d)) - d), absl::Nanoseconds(1));
  }
  const auto negative = ToProto(-absl::Milliseconds(1500));
  EXPECT_EQ(negative.seconds(), -1);
  EXPECT_EQ(negative.nanos(), -500'000'000);
  for (const absl::Time t : {absl::UnixEpoch(), absl::FromUnixMillis(1'700'000'000'123),
                             absl::FromUnixMillis(-1)}) {
    EXPECT_EQ(FromProto(ToProto(t)), t);
    EXPECT_GE(ToProto(t).nanos(), 0);
  }
}

TEST(ProtoTimeTest, ClampsInfinities) {
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), 315'576'000'000);
  EXPECT_EQ(ToProto(absl::InfiniteFuture()).seconds(), 253'402'300'799);
  EXPECT_EQ(ToProto(absl::InfinitePast()).seconds(), -62'135'596'800);
}

}  // namespace
}  // namespace capstan::resource
