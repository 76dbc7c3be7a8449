#include "integration/kube_bench/cluster_bench.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "integration/kube_bench/bulk_calls.h"
#include "integration/kube_bench/client_process.h"
#include "libs/kube/client/request.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/objects/resources.h"
#include "libs/status/status_macros.h"
#include "libs/time/system_clock.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::bench {
namespace {

std::vector<double> Scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}
std::vector<double> Rates(std::vector<double> seconds, int count) {
  for (double& value : seconds) value = count / value;
  return seconds;
}

}  // namespace

absl::StatusOr<std::vector<Figure>> BenchInformer(const ClusterLoad& load) {
  const SystemClock clock;
  {
    CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(load.kubeconfig, &clock));
    CAPSTAN_RETURN_IF_ERROR(
        CreateAll<core_v1::Node>(connection.get(), kNodes, load.nodes, load.concurrency, MakeNode));
    CAPSTAN_RETURN_IF_ERROR(
        CreateAll<core_v1::Pod>(connection.get(), kPods, load.pods, load.concurrency,
                                [&](int i) { return MakeLargePod(load.ns, "followed", i); }));
  }
  Runs runs;
  for (int run = 0; run < load.runs; ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(nlohmann::json ours,
                             Measure(load.self, {"informer", load.kubeconfig}));
    CAPSTAN_ASSIGN_OR_RETURN(nlohmann::json theirs,
                             Measure(load.client_go, {"informer", load.kubeconfig}));
    if (ours["objects"].get<int>() != theirs["objects"].get<int>() ||
        ours["objects"].get<int>() < load.nodes + load.pods) {
      return absl::InternalError("the informers do not have the same objects");
    }
    runs.emplace_back(std::move(ours), std::move(theirs));
  }
  const std::string conditions =
      absl::StrCat(load.nodes, " Nodes and ", load.pods,
                   " Pods of a real API server, protobuf, both clients on "
                   "one core by turns, the server on the same machine");
  const Compared rss = Compare(runs, "rss_bytes");
  const Compared peak = Compare(runs, "peak_rss_bytes");
  const Compared cpu = Compare(runs, "sync_cpu_s");
  const Compared wall = Compare(runs, "sync_wall_s");
  return std::vector<Figure>{
      {"kube.informer_rss_ratio_to_client_go", rss.ratios, "ratio", true, 0.5, conditions},
      {"kube.informer_peak_rss_ratio_to_client_go", peak.ratios, "ratio", true, 0, conditions},
      {"kube.informer_cpu_ratio_to_client_go", cpu.ratios, "ratio", true, 0.5, conditions},
      {"kube.informer_wall_ratio_to_client_go", wall.ratios, "ratio", true, 0, conditions},
      {"kube.informer_rss_mb", Scaled(rss.ours, 1e-6), "MB", true, 0, conditions},
      {"kube.informer_rss_mb.client_go", Scaled(rss.theirs, 1e-6), "MB", true, 0, conditions},
      {"kube.informer_cpu_s", cpu.ours, "s", true, 0, conditions},
      {"kube.informer_cpu_s.client_go", cpu.theirs, "s", true, 0, conditions},
      {"kube.informer_sync_s", wall.ours, "s", true, 0, conditions},
      {"kube.informer_sync_s.client_go", wall.theirs, "s", true, 0, conditions}};
}

absl::StatusOr<std::vector<Figure>> BenchBind(const ClusterLoad& load) {
  const SystemClock clock;
  {
    CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(load.kubeconfig, &clock));
    CAPSTAN_RETURN_IF_ERROR(CreateAll<core_v1::Node>(connection.get(), kNodes, 1, 1, [](int) {
      core_v1::Node node;
      node.mutable_metadata()->set_name("bound");
      return node;
    }));
  }
  Runs runs;
  for (int run = 0; run < load.runs; ++run) {
    const auto arguments = [&](const std::string& who) {
      return std::vector<std::string>{"bind",
                                      load.kubeconfig,
                                      load.ns,
                                      absl::StrCat(who, "-", run),
                                      absl::StrCat(load.binds),
                                      absl::StrCat(load.concurrency),
                                      "bound"};
    };
    CAPSTAN_ASSIGN_OR_RETURN(nlohmann::json ours, Measure(load.self, arguments("ours")));
    CAPSTAN_ASSIGN_OR_RETURN(nlohmann::json theirs, Measure(load.client_go, arguments("theirs")));
    runs.emplace_back(std::move(ours), std::move(theirs));
  }
  const std::string conditions =
      absl::StrCat(load.binds, " Pods, ", load.concurrency,
                   " calls at a time, protobuf, both clients on one core by turns, the real API "
                   "server on the same machine");
  const Compared bind = Compare(runs, "bind_cpu_s");
  const Compared create = Compare(runs, "create_cpu_s");
  const double micros = 1e6 / load.binds;
  const Compared bind_wall = Compare(runs, "bind_wall_s");
  const Compared create_wall = Compare(runs, "create_wall_s");
  return std::vector<Figure>{
      {"kube.bind_cpu_ratio_to_client_go", bind.ratios, "ratio", true, 0.6, conditions},
      {"kube.create_cpu_ratio_to_client_go", create.ratios, "ratio", true, 0, conditions},
      {"kube.bind_cpu_us", Scaled(bind.ours, micros), "us", true, 0, conditions},
      {"kube.bind_cpu_us.client_go", Scaled(bind.theirs, micros), "us", true, 0, conditions},
      {"kube.binds_per_s", Rates(bind_wall.ours, load.binds), "1/s", false, 0, conditions},
      {"kube.binds_per_s.client_go", Rates(bind_wall.theirs, load.binds), "1/s", false, 0,
       conditions},
      {"kube.creates_per_s", Rates(create_wall.ours, load.binds), "1/s", false, 0, conditions},
      {"kube.creates_per_s.client_go", Rates(create_wall.theirs, load.binds), "1/s", false, 0,
       conditions}};
}

absl::StatusOr<std::vector<Figure>> BenchEvents(const ClusterLoad& load) {
  const SystemClock clock;
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(load.kubeconfig, &clock));
  CAPSTAN_RETURN_IF_ERROR(
      CreateAll<core_v1::Pod>(connection.get(), kPods, load.events, load.concurrency,
                              [&](int i) { return MakeLargePod(load.ns, "changed", i); }));
  const Resource<core_v1::Pod> pods(connection->client(), kPods);
  const auto measure = [&](const std::string& program,
                           const std::string& round) -> absl::StatusOr<nlohmann::json> {
    CAPSTAN_ASSIGN_OR_RETURN(
        const auto client, ClientProcess::Start(program, {"events", load.kubeconfig, load.ns, round,
                                                          absl::StrCat(load.events)}));
    CAPSTAN_RETURN_IF_ERROR(client->NextLine().status());
    const std::string patch =
        nlohmann::json({{"metadata", {{"annotations", {{"round", round}}}}}}).dump();
    CAPSTAN_RETURN_IF_ERROR(Each(
        connection->client()->strand(), load.events, load.concurrency,
        [&](int i, std::function<void(absl::Status)> done) {
          return pods.Patch(load.ns, absl::StrCat("changed-", i), PatchType::kMerge, patch, {},
                            [done = std::move(done)](absl::StatusOr<ObjectPtr<core_v1::Pod>> pod) {
                              done(pod.status());
                            });
        }));
    return client->NextLine();
  };
  Runs runs;
  for (int run = 0; run < load.runs; ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(nlohmann::json ours, measure(load.self, absl::StrCat("ours-", run)));
    CAPSTAN_ASSIGN_OR_RETURN(nlohmann::json theirs,
                             measure(load.client_go, absl::StrCat("theirs-", run)));
    runs.emplace_back(std::move(ours), std::move(theirs));
  }
  const std::string conditions =
      absl::StrCat(load.events,
                   " changes of Pods, each told to a handler that reads it; CPU time of the "
                   "client's process alone, both by turns on one core, the real API server on the "
                   "same machine");
  const Compared cpu = Compare(runs, "events_cpu_s");
  const Compared wall = Compare(runs, "events_wall_s");
  return std::vector<Figure>{
      {"kube.event_cpu_ratio_to_client_go", cpu.ratios, "ratio", true, 0, conditions},
      {"kube.events_per_cpu_s", Rates(cpu.ours, load.events), "1/s", false, 0, conditions},
      {"kube.events_per_cpu_s.client_go", Rates(cpu.theirs, load.events), "1/s", false, 0,
       conditions},
      {"kube.events_per_s", Rates(wall.ours, load.events), "1/s", false, 0,
       absl::StrCat(conditions, "; as fast as that server changes them")},
      {"kube.events_per_s.client_go", Rates(wall.theirs, load.events), "1/s", false, 0,
       absl::StrCat(conditions, "; as fast as that server changes them")}};
}

absl::StatusOr<std::vector<Figure>> BenchReconnect(
    const ClusterLoad& load, const std::function<absl::Status()>& restart_server) {
  const SystemClock clock;
  const auto seconds = [&] { return absl::ToDoubleSeconds(clock.Read().wall - absl::UnixEpoch()); };
  const auto measure = [&](const std::string& program,
                           const std::string& name) -> absl::StatusOr<double> {
    CAPSTAN_ASSIGN_OR_RETURN(
        const auto client,
        ClientProcess::Start(program, {"await", load.kubeconfig, load.ns, name}));
    CAPSTAN_RETURN_IF_ERROR(client->NextLine().status());
    CAPSTAN_RETURN_IF_ERROR(restart_server());
    CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(load.kubeconfig, &clock));
    CAPSTAN_RETURN_IF_ERROR(CreateAll<core_v1::Pod>(connection.get(), kPods, 1, 1,
                                                    [&](int) { return MakePod(load.ns, name); }));
    const double created = seconds();
    CAPSTAN_ASSIGN_OR_RETURN(const nlohmann::json told, client->NextLine());
    return std::max(0.0, told["seen_at_s"].get<double>() - created);
  };
  std::vector<double> ours, theirs;
  for (int run = 0; run < load.runs; ++run) {
    CAPSTAN_ASSIGN_OR_RETURN(double value, measure(load.self, absl::StrCat("back-ours-", run)));
    ours.push_back(value);
    CAPSTAN_ASSIGN_OR_RETURN(value, measure(load.client_go, absl::StrCat("back-theirs-", run)));
    theirs.push_back(value);
  }
  const std::string conditions =
      "the API server is killed and started again; from when it has answered the first creation to "
      "when a follower of Pods is told of that Pod";
  return std::vector<Figure>{{"kube.reconnect_s", ours, "s", true, 0, conditions},
                             {"kube.reconnect_s.client_go", theirs, "s", true, 0, conditions}};
}

}  // namespace capstan::kube::bench
