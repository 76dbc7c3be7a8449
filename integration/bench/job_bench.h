#ifndef CAPSTAN_INTEGRATION_BENCH_JOB_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_JOB_BENCH_H_

#include "absl/status/status.h"
#include "integration/bench/bench.h"

namespace capstan::bench {

// Jobs made a second by 1 and by 64 clients, each acknowledged once it is durable, through the
// scheduler of a platform over SQLite and of one over etcd.
absl::Status BenchJobCreates(const Bench& bench);

// How long nobody takes a Job after the leading one of two schedulers over etcd was killed.
absl::Status BenchTakeOver(const Bench& bench);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_JOB_BENCH_H_
