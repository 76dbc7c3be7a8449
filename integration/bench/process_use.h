#ifndef CAPSTAN_INTEGRATION_BENCH_PROCESS_USE_H_
#define CAPSTAN_INTEGRATION_BENCH_PROCESS_USE_H_

#include <sys/types.h>

#include "absl/time/time.h"

namespace capstan::bench {

// Time that all threads of a process have run; those that have ended are missed.
absl::Duration RunTime(pid_t pid);
// Shared pages included; in millions of bytes.
double ResidentMegabytes(pid_t pid);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_PROCESS_USE_H_
