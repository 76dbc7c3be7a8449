// Between absl's time types and protobuf's well-known ones.
#ifndef CAPSTAN_LIBS_TIME_PROTO_TIME_H_
#define CAPSTAN_LIBS_TIME_PROTO_TIME_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace capstan {

// To protobuf: cut to nanoseconds. Infinities become the bounds that protobuf names: years 1 and
// 9999, and ±315,576,000,000 s.
google::protobuf::Timestamp ToProto(absl::Time time);
google::protobuf::Duration ToProto(absl::Duration duration);

// From protobuf. A Duration outside protobuf's bounds, or whose parts have different signs, becomes
// an infinity of its sign: no arithmetic on what others send overflows.
absl::Time ToTime(const google::protobuf::Timestamp& time);
absl::Duration ToDuration(const google::protobuf::Duration& duration);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_TIME_PROTO_TIME_H_
