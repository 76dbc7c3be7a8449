#include "libs/time/proto_time.h"

#include <algorithm>

namespace capstan {
namespace {

// google/protobuf/timestamp.proto: 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z.
constexpr int64_t kMinSeconds = -62'135'596'800;
constexpr int64_t kMaxSeconds = 253'402'300'799;
// google/protobuf/duration.proto.
constexpr int64_t kMaxDurationSeconds = 315'576'000'000;

}  // namespace

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp result;
  const int64_t seconds = absl::ToUnixSeconds(time);
  result.set_seconds(std::clamp(seconds, kMinSeconds, kMaxSeconds));
  if (seconds == result.seconds()) {
    result.set_nanos(
        static_cast<int32_t>((time - absl::FromUnixSeconds(seconds)) / absl::Nanoseconds(1)));
  }
  return result;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration result;
  const absl::Duration bound = absl::Seconds(kMaxDurationSeconds);
  duration = std::clamp(duration, -bound, bound);
  absl::Duration rest;
  result.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  result.set_nanos(static_cast<int32_t>(rest / absl::Nanoseconds(1)));
  return result;
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace capstan
