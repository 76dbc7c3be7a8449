#ifndef CAPSTAN_INTEGRATION_KUBE_BENCH_WEBHOOK_BENCH_H_
#define CAPSTAN_INTEGRATION_KUBE_BENCH_WEBHOOK_BENCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "integration/kube_bench/figure.h"

namespace capstan::kube::bench {

struct WebhookLoad {
  int per_second = 5000;
  int connections = 32;
  absl::Duration time = absl::Seconds(10);
  int runs = 3;
};

// A WebhookServer in a process of its own, asked over TLS by connections that are kept, as API
// servers keep theirs. Reviews are due at even times whether or not those before are answered, and
// a time is from when a review was due to the last byte of its answer. Forks: before any thread.
absl::StatusOr<std::vector<Figure>> BenchWebhook(const WebhookLoad& load);

}  // namespace capstan::kube::bench

#endif  // CAPSTAN_INTEGRATION_KUBE_BENCH_WEBHOOK_BENCH_H_
