// Times and durations of peers, with any numbers: nothing overflows, what protobuf calls well
// formed comes back the same, and what is written is well formed.
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/time/proto_time.h"

namespace {

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using google::protobuf::Duration;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

constexpr int32_t kMostNanos = 999'999'999;

bool WellFormed(const Timestamp& time) {
  return time.seconds() >= TimeUtil::kTimestampMinSeconds &&
         time.seconds() <= TimeUtil::kTimestampMaxSeconds && time.nanos() >= 0 &&
         time.nanos() <= kMostNanos;
}

bool WellFormed(const Duration& duration) {
  return duration.seconds() >= TimeUtil::kDurationMinSeconds &&
         duration.seconds() <= TimeUtil::kDurationMaxSeconds && duration.nanos() >= -kMostNanos &&
         duration.nanos() <= kMostNanos && !(duration.seconds() < 0 && duration.nanos() > 0) &&
         !(duration.seconds() > 0 && duration.nanos() < 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Timestamp time;
  time.set_seconds(input.Number());
  time.set_nanos(static_cast<int32_t>(input.Number()));
  const absl::Time read = capstan::ToTime(time);
  const Timestamp written = capstan::ToProto(read);
  Require(WellFormed(written));
  if (WellFormed(time)) {
    Require(written.seconds() == time.seconds() && written.nanos() == time.nanos());
  }
  Duration duration;
  duration.set_seconds(input.Number());
  duration.set_nanos(static_cast<int32_t>(input.Number()));
  const absl::Duration length = capstan::ToDuration(duration);
  const Duration length_written = capstan::ToProto(length);
  Require(WellFormed(length_written));
  if (WellFormed(duration)) {
    const bool longest = duration.seconds() == TimeUtil::kDurationMaxSeconds ||
                         duration.seconds() == TimeUtil::kDurationMinSeconds;
    Require(length_written.seconds() == duration.seconds() &&
            (longest || length_written.nanos() == duration.nanos()));
  } else {
    Require(length == absl::InfiniteDuration() || length == -absl::InfiniteDuration());
  }
  // What the code does with both.
  Require(WellFormed(capstan::ToProto(read + length)));
  Require(WellFormed(capstan::ToProto(read - length)));
  Require(WellFormed(capstan::ToProto(absl::Nanoseconds(input.Number()))));
  Require(WellFormed(capstan::ToProto(absl::FromUnixNanos(input.Number()))));
  return 0;
}
