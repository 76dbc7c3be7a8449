// Between absl's time and protobuf's.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PROTO_TIME_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PROTO_TIME_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace capstan::scheduler {

inline absl::Duration FromProto(const google::protobuf::Duration& d) {
  return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
}

inline google::protobuf::Duration ToProto(absl::Duration d) {
  google::protobuf::Duration proto;
  const int64_t seconds = absl::IDivDuration(d, absl::Seconds(1), &d);
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(d)));
  return proto;
}

inline absl::Time FromProto(const google::protobuf::Timestamp& t) {
  return absl::FromUnixSeconds(t.seconds()) + absl::Nanoseconds(t.nanos());
}

inline google::protobuf::Timestamp ToProto(absl::Time t) {
  google::protobuf::Timestamp proto;
  const int64_t seconds = absl::ToUnixSeconds(t);
  proto.set_seconds(seconds);
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(t - absl::FromUnixSeconds(seconds))));
  return proto;
}

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PROTO_TIME_H_
