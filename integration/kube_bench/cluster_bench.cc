#include "integration/kube_bench/cluster_bench.h"

#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "integration/kube_bench/own_use.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/pod_calls.h"
#include "libs/kube/client/typed_client.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/objects/resources.h"
#include "libs/status/status_macros.h"
#include "libs/time/system_clock.h"

namespace capstan::kube::bench {
namespace {

absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& kubeconfig,
                                                    const Clock* clock) {
  LoadOptions load;
  load.explicit_path = kubeconfig;
  return Connection::Open({}, load, {}, clock);
}

// Starts `count` calls, `concurrency` at a time, and waits for their ends. The first error.
absl::Status Each(
    Strand* strand, int count, int concurrency,
    std::function<std::unique_ptr<PendingCall>(int i, std::function<void(absl::Status)>)> start) {
  struct Calls {
    std::vector<std::unique_ptr<PendingCall>> calls;
    int next = 0;
    int left = 0;
    absl::Status failure;
    absl::Mutex mutex;
    bool done ABSL_GUARDED_BY(mutex) = false;
    std::function<void()> more;
  };
  Calls all;
  all.calls.resize(static_cast<size_t>(count));
  all.left = count;
  // On the strand, all but `done`.
  all.more = [&] {
    const int i = all.next++;
    if (i >= count) return;
    all.calls[static_cast<size_t>(i)] = start(i, [&, i](absl::Status status) {
      if (!status.ok() && all.failure.ok()) all.failure = std::move(status);
      all.calls[static_cast<size_t>(i)].reset();
      if (--all.left == 0) {
        absl::MutexLock lock(&all.mutex);
        all.done = true;
      } else {
        all.more();
      }
    });
  };
  strand->Post([&] {
    for (int i = 0; i < concurrency; ++i) all.more();
  });
  absl::MutexLock lock(&all.mutex);
  all.mutex.Await(absl::Condition(&all.done));
  return all.failure;
}

core_v1::Pod MakePod(const std::string& ns, const std::string& name) {
  core_v1::Pod pod;
  pod.mutable_metadata()->set_namespace_(ns);
  pod.mutable_metadata()->set_name(name);
  pod.mutable_spec()->set_scheduler_name("none");
  auto* const container = pod.mutable_spec()->add_containers();
  container->set_name("c");
  container->set_image("i");
  return pod;
}

// As a training job's are.
core_v1::Pod MakeLargePod(const std::string& ns, int i) {
  core_v1::Pod pod = MakePod(ns, absl::StrCat("followed-", i));
  auto& labels = *pod.mutable_metadata()->mutable_labels();
  labels["app"] = "train";
  labels["job"] = absl::StrCat("job-", i / 64);
  labels["rank"] = absl::StrCat(i % 64);
  (*pod.mutable_metadata()->mutable_annotations())["example.org/team"] = "research";
  auto* const container = pod.mutable_spec()->mutable_containers(0);
  container->set_image("registry.example.org/team/trainer:1.2.3");
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NCCL_DEBUG"}) {
    auto* const variable = container->add_env();
    variable->set_name(name);
    variable->set_value(absl::StrCat("value-", i));
  }
  auto& limits = *container->mutable_resources()->mutable_limits();
  limits["cpu"].set_string("8");
  limits["memory"].set_string("64Gi");
  return pod;
}

core_v1::Node MakeNode(int i) {
  core_v1::Node node;
  node.mutable_metadata()->set_name(absl::StrCat("followed-", i));
  auto& labels = *node.mutable_metadata()->mutable_labels();
  labels["kubernetes.io/hostname"] = node.metadata().name();
  labels["topology.kubernetes.io/zone"] = absl::StrCat("zone-", i % 3);
  labels["example.org/rack"] = absl::StrCat("rack-", i / 16);
  for (auto* const resources :
       {node.mutable_status()->mutable_capacity(), node.mutable_status()->mutable_allocatable()}) {
    (*resources)["cpu"].set_string("96");
    (*resources)["memory"].set_string("1024Gi");
    (*resources)["pods"].set_string("110");
    (*resources)["nvidia.com/gpu"].set_string("8");
  }
  return node;
}

template <typename T>
absl::Status CreateAll(Connection* connection, const TypedResource<T>& type, int count,
                       int concurrency, const std::function<T(int)>& make,
                       std::vector<std::string>* uids = nullptr) {
  const Resource<T> resource(connection->client(), type);
  return Each(connection->client()->strand(), count, concurrency,
              [&](int i, std::function<void(absl::Status)> done) {
                return resource.Create(
                    make(i), {}, [=, done = std::move(done)](absl::StatusOr<ObjectPtr<T>> made) {
                      if (made.ok() && uids != nullptr) {
                        (*uids)[static_cast<size_t>(i)] = (*made)->metadata().uid();
                      }
                      done(made.status());
                    });
              });
}

absl::StatusOr<nlohmann::json> FollowAll(const std::string& kubeconfig) {
  const SystemClock clock;
  nlohmann::json told;
  const OwnUse start(&clock);
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(kubeconfig, &clock));
  CAPSTAN_ASSIGN_OR_RETURN(auto* const nodes, connection->Follow(kNodes));
  CAPSTAN_ASSIGN_OR_RETURN(auto* const pods, connection->Follow(kPods));
  connection->informers()->Start();
  CAPSTAN_RETURN_IF_ERROR(connection->informers()->AwaitSynced(absl::Minutes(5)));
  start.Since("sync", &told);
  told["objects"] = nodes->stats().objects + pods->stats().objects;
  told["rss_bytes"] = OwnMemory("VmRSS");
  told["peak_rss_bytes"] = OwnMemory("VmHWM");
  return told;
}

absl::StatusOr<nlohmann::json> BindAll(const std::vector<std::string>& arguments) {
  const std::string& ns = arguments[2];
  const std::string& prefix = arguments[3];
  const std::string& node = arguments[6];
  int count = 0;
  int concurrency = 0;
  if (!absl::SimpleAtoi(arguments[4], &count) || !absl::SimpleAtoi(arguments[5], &concurrency)) {
    return absl::InvalidArgumentError("COUNT and CONCURRENCY are numbers");
  }
  const SystemClock clock;
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(arguments[1], &clock));
  nlohmann::json told = {{"count", count}};
  std::vector<std::string> uids(static_cast<size_t>(count));
  const OwnUse creates(&clock);
  CAPSTAN_RETURN_IF_ERROR(CreateAll<core_v1::Pod>(
      connection.get(), kPods, count, concurrency,
      [&](int i) { return MakePod(ns, absl::StrCat(prefix, "-", i)); }, &uids));
  creates.Since("create", &told);
  const OwnUse binds(&clock);
  CAPSTAN_RETURN_IF_ERROR(
      Each(connection->client()->strand(), count, concurrency,
           [&](int i, std::function<void(absl::Status)> done) {
             return BindPod(connection->client(), ns, absl::StrCat(prefix, "-", i),
                            uids[static_cast<size_t>(i)], node,
                            [done = std::move(done)](absl::StatusOr<ApiResponse> response) {
                              done(response.status());
                            });
           }));
  binds.Since("bind", &told);
  return told;
}

// Runs a client on the machine's last core, so that neither has more of it than the other.
absl::StatusOr<nlohmann::json> Measure(const std::string& program,
                                       const std::vector<std::string>& arguments) {
  const std::string command = absl::StrCat("taskset -c $(($(nproc --all) - 1)) ", program, " ",
                                           absl::StrJoin(arguments, " "));
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return absl::ErrnoToStatus(errno, command);
  std::string said;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, output)) > 0;) said.append(buffer, n);
  const int status = pclose(output);
  nlohmann::json told = nlohmann::json::parse(said, nullptr, /*allow_exceptions=*/false);
  if (status != 0 || !told.is_object()) {
    return absl::InternalError(absl::StrCat(command, " ended with ", status, ": ", said));
  }
  fprintf(stderr, "%s %s", arguments[0] == "bind" ? "bind" : "informer",
          absl::StrCat(program.find("client_go") == std::string::npos ? "capstan   " : "client_go ",
                       told.dump(), "\n")
              .c_str());
  return told;
}

// Values of `field` of our runs and of client-go's, and their ratios.
struct Compared {
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> ratios;
};
Compared Compare(const std::vector<std::pair<nlohmann::json, nlohmann::json>>& runs,
                 const std::string& field) {
  Compared compared;
  for (const auto& [ours, theirs] : runs) {
    compared.ours.push_back(ours[field].get<double>());
    compared.theirs.push_back(theirs[field].get<double>());
    compared.ratios.push_back(compared.ours.back() / compared.theirs.back());
  }
  return compared;
}

std::vector<double> Scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}
std::vector<double> Rates(std::vector<double> seconds, int count) {
  for (double& value : seconds) value = count / value;
  return seconds;
}

}  // namespace

absl::StatusOr<nlohmann::json> RunClient(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "informer") return FollowAll(arguments[1]);
  if (arguments.size() == 7 && arguments[0] == "bind") return BindAll(arguments);
  return absl::InvalidArgumentError(
      "usage: informer KUBECONFIG | bind KUBECONFIG NAMESPACE PREFIX COUNT CONCURRENCY NODE");
}

absl::StatusOr<std::vector<Figure>> BenchInformer(const ClusterLoad& load) {
  const SystemClock clock;
  {
    CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(load.kubeconfig, &clock));
    CAPSTAN_RETURN_IF_ERROR(
        CreateAll<core_v1::Node>(connection.get(), kNodes, load.nodes, load.concurrency, MakeNode));
    CAPSTAN_RETURN_IF_ERROR(
        CreateAll<core_v1::Pod>(connection.get(), kPods, load.pods, load.concurrency,
                                [&](int i) { return MakeLargePod(load.ns, i); }));
  }
  std::vector<std::pair<nlohmann::json, nlohmann::json>> runs;
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
  std::vector<std::pair<nlohmann::json, nlohmann::json>> runs;
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

}  // namespace capstan::kube::bench
