#ifndef CAPSTAN_INTEGRATION_BENCH_BARE_STREAMS_H_
#define CAPSTAN_INTEGRATION_BENCH_BARE_STREAMS_H_

#include "absl/status/statusor.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"

namespace capstan::bench {

struct BareStreams {
  int streams = 0;
  int connections = 1;
  // On each stream.
  int messages = 0;
};

// Messages that so many streams of a bare gRPC server with mTLS carry to this process a second, in
// which the server runs too, if there is nothing to be found out about any of them.
absl::StatusOr<double> BareMessagesPerSecond(const Clock* clock, const BareStreams& shape,
                                             const scheduler::v1::WatchJobsResponse& message);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_BARE_STREAMS_H_
