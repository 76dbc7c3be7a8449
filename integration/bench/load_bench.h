#ifndef CAPSTAN_INTEGRATION_BENCH_LOAD_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_LOAD_BENCH_H_

#include "absl/status/status.h"
#include "integration/bench/bench.h"

namespace capstan::bench {

// A folder brought to the Site by the data_loader, verified and durable, in turns with `cp` and
// fsync of the same files: a few large ones, and many small ones.
absl::Status BenchLoads(const Bench& bench);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_LOAD_BENCH_H_
