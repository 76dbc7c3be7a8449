#ifndef CAPSTAN_INTEGRATION_KUBE_BENCH_MEASURED_CLIENT_H_
#define CAPSTAN_INTEGRATION_KUBE_BENCH_MEASURED_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace capstan::kube::bench {

// What a ClientProcess does: the same arguments and lines as tools/testenv/client_go.
//   informer KUBECONFIG                  follows Nodes and Pods until it has them all
//   bind KUBECONFIG NAMESPACE PREFIX COUNT CONCURRENCY NODE
//                                        creates COUNT Pods PREFIX-<i>, then binds each to NODE
//   events KUBECONFIG NAMESPACE ROUND COUNT
//                                        follows Pods; says {"synced":true}; ends when a handler
//                                        has seen COUNT of them with the annotation round=ROUND
//   await KUBECONFIG NAMESPACE NAME      follows Pods; says {"synced":true}; then when it saw NAME,
//                                        in seconds of the wall clock
absl::Status RunMeasuredClient(const std::vector<std::string>& arguments);

}  // namespace capstan::kube::bench

#endif  // CAPSTAN_INTEGRATION_KUBE_BENCH_MEASURED_CLIENT_H_
