#ifndef CAPSTAN_INTEGRATION_BENCH_PERSON_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_PERSON_BENCH_H_

#include "absl/status/status.h"
#include "integration/bench/bench.h"

namespace capstan::bench {

// What a person waits for at the command line: `capstan job list`, and the first line of a Job that
// has just been submitted.
absl::Status BenchCommands(const Bench& bench);

// From the start of `capstan dev up` to every part being ready, in a new folder and in one that has
// had a platform.
absl::Status BenchStart(const Bench& bench);

// What the processes of a platform take while nothing happens.
absl::Status BenchIdle(const Bench& bench);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_PERSON_BENCH_H_
