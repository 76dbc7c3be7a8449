#ifndef CAPSTAN_INTEGRATION_BENCH_WATCH_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_WATCH_BENCH_H_

#include "absl/status/status.h"
#include "integration/bench/bench.h"

namespace capstan::bench {

// A thousand people who watch the Jobs of one Project: what reaches them all a second while Jobs
// are made as fast as they are taken, and how long after its making a Job is seen when nothing else
// happens.
absl::Status BenchWatchers(const Bench& bench);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_WATCH_BENCH_H_
