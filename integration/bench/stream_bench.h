#ifndef CAPSTAN_INTEGRATION_BENCH_STREAM_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_STREAM_BENCH_H_

#include "absl/status/status.h"
#include "integration/bench/bench.h"

namespace capstan::bench {

// Records of 1 KiB through telemetry: what Nodes publish, what a follower gets while it is
// published, and what readers get of what is there. And events of Jobs, as a scheduler ships them.
absl::Status BenchStreams(const Bench& bench);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_STREAM_BENCH_H_
