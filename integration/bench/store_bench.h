#ifndef CAPSTAN_INTEGRATION_BENCH_STORE_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_STORE_BENCH_H_

#include "absl/status/status.h"
#include "integration/bench/bench.h"

namespace capstan::bench {

// Transactions of one 1 KiB record a second, on SQLite and on etcd, in turns with the disk's syncs.
absl::Status BenchStores(const Bench& bench);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_STORE_BENCH_H_
