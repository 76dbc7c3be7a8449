#include "libs/resource/proto_time.h"

#include <algorithm>

namespace capstan::resource {
namespace {

// Bounds of google.protobuf.Duration and Timestamp.
constexpr absl::Duration kMaxDuration = absl::Seconds(int64_t{315'576'000'000});
constexpr int64_t kMinTimestampSeconds = -62'135'596'800;  // 0001-01-01T00:00:00Z
constexpr int64_t kMaxTimestampSeconds = 253'402'300'799;  // 9999-12-31T23:59:59Z

}  // namespace

google::protobuf::Duration ToProto(absl::Duration duration) {
  duration = std::clamp(duration, -kMaxDuration, kMaxDuration);
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(
      static_cast<int32_t>(absl::IDivDuration(duration, absl::Nanoseconds(1), &duration)));
  return proto;
}

google::protobuf::Timestamp ToProto(absl::Time time) {
  time = std::clamp(time, absl::FromUnixSeconds(kMinTimestampSeconds),
                    absl::FromUnixSeconds(kMaxTimestampSeconds));
  google::protobuf::Timestamp proto;
  // ToUnixSeconds rounds down, so that nanos are never negative.
  proto.set_seconds(absl::ToUnixSeconds(time));
  proto.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(proto.seconds()))));
  return proto;
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

absl::Time FromProto(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

}  // namespace capstan::resource
