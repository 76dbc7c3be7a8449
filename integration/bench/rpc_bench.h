#ifndef CAPSTAN_INTEGRATION_BENCH_RPC_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_RPC_BENCH_H_

#include "absl/status/status.h"
#include "integration/bench/bench.h"

namespace capstan::bench {

// A unary call of a person through a server of libs/rpc, with mTLS, authorisation by role, metrics
// and access log as in every service, beside the same handler on a bare gRPC server with the same
// certificates. Both in this process, in turns.
absl::Status BenchRpc(const Bench& bench);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_RPC_BENCH_H_
