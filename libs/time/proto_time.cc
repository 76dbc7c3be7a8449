#include "libs/time/proto_time.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace capstan {
namespace {

// google/protobuf/timestamp.proto: 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z.
constexpr int64_t kMinSeconds = -62'135'596'800;
constexpr int64_t kMaxSeconds = 253'402'300'799;
// google/protobuf/duration.proto.
constexpr int64_t kMaxDurationSeconds = 315'576'000'000;
constexpr int64_t kMaxNanos = 999'999'999;

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

// A duration that protobuf calls malformed (parts of two signs, a second or more of nanoseconds,
// beyond the bounds) becomes an infinity of the seconds' sign, which no range of a request admits:
// stored, it could not be printed as JSON.
absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  const bool well_formed = std::abs(static_cast<int64_t>(nanos)) <= kMaxNanos &&
                           seconds >= -kMaxDurationSeconds && seconds <= kMaxDurationSeconds &&
                           !(seconds > 0 && nanos < 0) && !(seconds < 0 && nanos > 0);
  if (!well_formed) return seconds < 0 ? -absl::InfiniteDuration() : absl::InfiniteDuration();
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace capstan
