#ifndef CAPSTAN_INTEGRATION_KUBE_BENCH_BENCH_OPTIONS_H_
#define CAPSTAN_INTEGRATION_KUBE_BENCH_BENCH_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "integration/kube_bench/cluster_bench.h"
#include "integration/kube_bench/webhook_bench.h"

namespace capstan::kube::bench {

// What the command line of `kube` says.
struct BenchOptions {
  // webhook, informer, bind, events, reconnect.
  std::vector<std::string> only;
  ClusterLoad cluster;
  WebhookLoad webhook;

  bool Wants(absl::string_view part) const;
};

inline constexpr char kBenchUsage[] =
    "usage: kube [--smoke] [--only webhook,informer,bind,events,reconnect]\n"
    "            [--nodes N] [--pods N] [--binds N] [--events N] [--runs N]\n"
    "            [--kubeconfig FILE --namespace NAME] [--client-go PROGRAM]\n"
    "Without --kubeconfig it starts a control plane of its own; reconnect needs that.\n";

// INVALID_ARGUMENT names the argument. Arguments without the program's name.
absl::StatusOr<BenchOptions> ParseBenchOptions(const std::vector<std::string>& arguments);

// Where Bazel has laid client_go for the program that was started as `program`: beside it, or in the
// folder of the test that starts it.
std::string ClientGoOf(const std::string& program);

}  // namespace capstan::kube::bench

#endif  // CAPSTAN_INTEGRATION_KUBE_BENCH_BENCH_OPTIONS_H_
