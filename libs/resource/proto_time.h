// Times and durations between abseil and protobuf.
#ifndef CAPSTAN_LIBS_RESOURCE_PROTO_TIME_H_
#define CAPSTAN_LIBS_RESOURCE_PROTO_TIME_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace capstan::resource {

// Values out of protobuf's range are clamped to it; both ways truncate below a nanosecond.
google::protobuf::Duration ToProto(absl::Duration duration);
google::protobuf::Timestamp ToProto(absl::Time time);
// Fields out of range (nanos of a billion, mixed signs) are taken by their sum.
absl::Duration FromProto(const google::protobuf::Duration& duration);
absl::Time FromProto(const google::protobuf::Timestamp& timestamp);

}  // namespace capstan::resource

#endif  // CAPSTAN_LIBS_RESOURCE_PROTO_TIME_H_
