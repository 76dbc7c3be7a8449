// Measures the Kubernetes client on this machine: ./dev bench kube. See README.md.
// `kube client …` is what it runs of itself.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "integration/kube_bench/bench_options.h"
#include "integration/kube_bench/cluster_bench.h"
#include "integration/kube_bench/figure.h"
#include "integration/kube_bench/measured_client.h"
#include "integration/kube_bench/webhook_bench.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::bench {
namespace {

using testenv::KubernetesCluster;

bool Report(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "kube: %s\n", status.ToString().c_str());
  return status.ok();
}
bool Report(const absl::StatusOr<std::vector<Figure>>& figures) {
  if (!figures.ok()) return Report(figures.status());
  for (const Figure& figure : *figures) std::fputs(ToLine(figure).c_str(), stdout);
  std::fflush(stdout);
  return true;
}

int Main(const std::string& program, const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "client") {
    return Report(RunMeasuredClient({arguments.begin() + 1, arguments.end()})) ? 0 : 1;
  }
  if (arguments == std::vector<std::string>{"--help"}) return std::fputs(kBenchUsage, stdout) < 0;
  auto options = ParseBenchOptions(arguments);
  if (!Report(options.status())) return std::fputs(kBenchUsage, stderr), 2;
  ClusterLoad& cluster = options->cluster;
  cluster.self = absl::StrCat(std::filesystem::read_symlink("/proc/self/exe").string(), " client");
  if (cluster.client_go.empty()) cluster.client_go = ClientGoOf(program);
  bool good = true;
  // First: it forks.
  if (options->Wants("webhook")) good &= Report(BenchWebhook(options->webhook));
  if (options->only == std::vector<std::string>{"webhook"}) return good ? 0 : 1;
  std::unique_ptr<KubernetesCluster> own;
  if (cluster.kubeconfig.empty()) {
    auto started = KubernetesCluster::Start({});
    if (!Report(started.status())) return 1;
    own = *std::move(started);
    const auto ns = own->CreateNamespace();
    if (!Report(ns.status())) return 1;
    cluster.kubeconfig = own->kubeconfig();
    cluster.ns = *ns;
  }
  if (options->Wants("informer")) good &= Report(BenchInformer(cluster));
  if (options->Wants("bind")) good &= Report(BenchBind(cluster));
  if (options->Wants("events")) good &= Report(BenchEvents(cluster));
  if (options->Wants("reconnect") && own != nullptr) {
    good &= Report(BenchReconnect(cluster, [&] {
      own->Kill(KubernetesCluster::Part::kApiServer);
      return own->Restart(KubernetesCluster::Part::kApiServer);
    }));
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace capstan::kube::bench

int main(int argc, char** argv) {
  return capstan::kube::bench::Main(argv[0], {argv + 1, argv + argc});
}
