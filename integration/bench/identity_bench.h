#ifndef CAPSTAN_INTEGRATION_BENCH_IDENTITY_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_IDENTITY_BENCH_H_

#include "absl/status/status.h"
#include "integration/bench/bench.h"

namespace capstan::bench {

// SVIDs and tokens that credentials issues a second to a Node for its Tasks, each audited and
// durable before it is answered, beside what OpenSSL signs.
absl::Status BenchIdentities(const Bench& bench);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_IDENTITY_BENCH_H_
