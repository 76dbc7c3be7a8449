// Measures the Kubernetes client on this machine: ./dev bench kube. See README.md.
//
//   kube [--smoke] [--only webhook,informer,bind] [--nodes N] [--pods N] [--binds N]
//        [--kubeconfig FILE --namespace NAME --client-go PROGRAM]
//   kube client …    what it runs of itself
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "integration/kube_bench/cluster_bench.h"
#include "integration/kube_bench/figure.h"
#include "integration/kube_bench/webhook_bench.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace {

using capstan::kube::bench::ClusterLoad;
using capstan::kube::bench::Figure;
using capstan::kube::bench::WebhookLoad;

bool Report(const absl::StatusOr<std::vector<Figure>>& figures) {
  if (!figures.ok()) {
    std::fprintf(stderr, "kube: %s\n", figures.status().ToString().c_str());
    return false;
  }
  for (const Figure& figure : *figures) {
    std::fputs(capstan::kube::bench::ToLine(figure).c_str(), stdout);
  }
  std::fflush(stdout);
  return true;
}

int RunAsClient(const std::vector<std::string>& arguments) {
  const auto told = capstan::kube::bench::RunClient(arguments);
  if (!told.ok()) {
    std::fprintf(stderr, "kube: %s\n", told.status().ToString().c_str());
    return 1;
  }
  std::puts(told->dump().c_str());
  return 0;
}

std::string PathOfSelf() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return path;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "client") {
    return RunAsClient({arguments.begin() + 1, arguments.end()});
  }
  std::vector<std::string> only = {"webhook", "informer", "bind"};
  ClusterLoad cluster;
  WebhookLoad webhook;
  // What Bazel lays beside this program; it runs where it was started.
  cluster.client_go = absl::StrCat(argv[0], ".runfiles/capstan/tools/testenv/bin/client_go");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const std::string value = i + 1 < arguments.size() ? arguments[i + 1] : "";
    bool known = true;
    if (name == "--smoke") {
      webhook = {200, 4, absl::Seconds(1), 1};
      cluster.nodes = 20;
      cluster.pods = 50;
      cluster.binds = 50;
      cluster.runs = 1;
      continue;
    }
    if (name == "--only") {
      only = absl::StrSplit(value, ',');
    } else if (name == "--nodes") {
      known = absl::SimpleAtoi(value, &cluster.nodes);
    } else if (name == "--pods") {
      known = absl::SimpleAtoi(value, &cluster.pods);
    } else if (name == "--binds") {
      known = absl::SimpleAtoi(value, &cluster.binds);
    } else if (name == "--kubeconfig") {
      cluster.kubeconfig = value;
    } else if (name == "--namespace") {
      cluster.ns = value;
    } else if (name == "--client-go") {
      cluster.client_go = value;
    } else {
      known = false;
    }
    ++i;
    if (!known || value.empty()) {
      std::fprintf(stderr, "kube: %s %s: see the head of kube_main.cc\n", name.c_str(),
                   value.c_str());
      return 2;
    }
  }
  const auto wanted = [&](absl::string_view name) {
    return std::find(only.begin(), only.end(), name) != only.end();
  };
  bool good = true;
  // First: it forks.
  if (wanted("webhook")) good &= Report(capstan::kube::bench::BenchWebhook(webhook));
  if (!wanted("informer") && !wanted("bind")) return good ? 0 : 1;
  cluster.self = PathOfSelf() + " client";
  std::unique_ptr<capstan::testenv::KubernetesCluster> own;
  if (cluster.kubeconfig.empty()) {
    auto started = capstan::testenv::KubernetesCluster::Start({});
    if (!started.ok()) return Report(started.status()) ? 0 : 1;
    own = *std::move(started);
    const auto ns = own->CreateNamespace();
    if (!ns.ok()) return Report(ns.status()) ? 0 : 1;
    cluster.kubeconfig = own->kubeconfig();
    cluster.ns = *ns;
  }
  if (wanted("informer")) good &= Report(capstan::kube::bench::BenchInformer(cluster));
  if (wanted("bind")) good &= Report(capstan::kube::bench::BenchBind(cluster));
  return good ? 0 : 1;
}
