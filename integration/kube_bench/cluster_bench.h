// A client against a real control plane, beside client-go.
#ifndef CAPSTAN_INTEGRATION_KUBE_BENCH_CLUSTER_BENCH_H_
#define CAPSTAN_INTEGRATION_KUBE_BENCH_CLUSTER_BENCH_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "integration/kube_bench/figure.h"

namespace capstan::kube::bench {

struct ClusterLoad {
  int nodes = 7500;
  int pods = 100000;
  int binds = 5000;
  int events = 10000;
  int concurrency = 64;
  int runs = 3;
  // Of this program, which is run for each measurement of ours, and of client_go.
  std::string self;
  std::string client_go;
  std::string kubeconfig;
  std::string ns;
};

// Makes the objects, then follows them by turns.
absl::StatusOr<std::vector<Figure>> BenchInformer(const ClusterLoad& load);
// Creates Pods and binds them by turns.
absl::StatusOr<std::vector<Figure>> BenchBind(const ClusterLoad& load);

// Follows Pods that are changed, by turns.
absl::StatusOr<std::vector<Figure>> BenchEvents(const ClusterLoad& load);
// Follows Pods while `restart_server` kills the API server and returns once it answers again.
absl::StatusOr<std::vector<Figure>> BenchReconnect(
    const ClusterLoad& load, const std::function<absl::Status()>& restart_server);

}  // namespace capstan::kube::bench

#endif  // CAPSTAN_INTEGRATION_KUBE_BENCH_CLUSTER_BENCH_H_
