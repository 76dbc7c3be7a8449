#include "services/node_agent/run.h"

#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/gpu/discovery_check.h"
#include "libs/label/taints.h"
#include "libs/mig/declared_gpus.h"
#include "libs/mig/profiles.h"
#include "libs/process/check.h"
#include "libs/process/stop_signal.h"
#include "libs/resource/id.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/config/v1/process.pb.h"
#include "services/node_agent/server.h"

namespace capstan::node_agent {
namespace {

// The longest grace that a Job may ask for, and the time to kill and clear away.
constexpr absl::Duration kStopTasksBound = absl::Minutes(61);
constexpr int64_t kLeastLogLimit = int64_t{1} << 20;
constexpr int64_t kMostLogLimit = int64_t{1} << 40;

const process::Kind& ThisKind() {
  static const auto* const kKind = new process::Kind{.name = "node_agent", .watches_policy = false};
  return *kKind;
}

absl::StatusOr<std::string> OwnProgram() {
  char path[PATH_MAX];
  if (realpath("/proc/self/exe", path) == nullptr) {
    return status::Error(absl::StatusCode::kInternal, "NO_PROGRAM",
                         "the path of this program cannot be read; set shim_command");
  }
  return std::string(path);
}

void CheckId(absl::string_view field, const std::string& id, status::FieldErrors* errors) {
  if (resource::IsValidId(id)) return;
  errors->Add(field, absl::StrCat("'", id, "' is not an id: ", resource::kIdRule));
}

}  // namespace

absl::Status CheckConfig(const config::v1::NodeAgentConfig& config) {
  status::FieldErrors errors;
  process::CheckProcess(config.process(), ThisKind(), /*listens=*/false, &errors);
  if (config.process().store().has_etcd()) {
    errors.Add("process.store.etcd",
               "a node agent's truth is the Node's own: expected sqlite, or nothing");
  }
  CheckId("cluster", config.cluster(), &errors);
  CheckId("node", config.node(), &errors);
  process::CheckPeer("executor", config.executor(), &errors);
  process::CheckPeer("data_loader", config.data_loader(), &errors);
  process::CheckPeer("telemetry", config.telemetry(), &errors);
  for (int i = 0; i < config.shared_paths_size(); ++i) {
    process::CheckExistingFolder(absl::StrCat("shared_paths[", i, "]"), config.shared_paths(i),
                                 &errors);
  }
  for (const auto& [name, count] : config.accelerators()) {
    if (mig::IsSliceResource(name)) {
      errors.Add(absl::StrCat("accelerators[", name, "]"),
                 "memory slices come with GPUs in MIG mode; expected those in `mig_gpus`");
    }
  }
  mig::CheckDeclaredGpus("mig_gpus", config.mig_gpus(), &errors);
  if (config.discover_gpus()) {
    gpu::CheckBesideDiscovery("", config.accelerators(), config.mig_gpus_size(), &errors);
  }
  // The scheduler drops taints that are malformed, and the Node would be open to all.
  label::CheckTaints("taints", config.taints(), &errors);
  if (config.first_port() != 0 || config.last_port() != 0) {
    if (config.first_port() < 1024 || config.last_port() > 65535 ||
        config.first_port() > config.last_port()) {
      errors.Add("first_port",
                 absl::StrCat("to last_port is ", config.first_port(), " to ", config.last_port(),
                              "; expected a range within 1024 to 65535"));
    }
  }
  const config::v1::PeerSharing& peers = config.data_cache().peers();
  if (!peers.listen().empty()) {
    process::CheckAddress("data_cache.peers.listen", peers.listen(), /*may_choose=*/false, &errors);
    if (!config.data_cache().has_shared_site() || config.data_cache().shared_site()) {
      errors.Add("data_cache.peers.listen",
                 "there is no cache to share: expected shared_site: false beside it");
    }
  }
  if (peers.max_uploads() < 0 || peers.max_uploads() > 64) {
    errors.Add("data_cache.peers.max_uploads",
               absl::StrCat("is ", peers.max_uploads(), "; expected 1 to 64, or nothing for 4"));
  }
  if (peers.upload_rate_bytes() < 0) {
    errors.Add("data_cache.peers.upload_rate", "is negative; expected bytes a second");
  }
  process::CheckNumber("log_limit", config.has_log_limit_bytes(), config.log_limit_bytes(),
                       kLeastLogLimit, kMostLogLimit, " bytes", &errors);
  return errors.ToStatus();
}

absl::Status Run(const config::v1::NodeAgentConfig& config, const process::StartOptions& options,
                 const Clock* clock) {
  // Traversable, since every Task has to reach its own folder below.
  const std::string& folder = config.process().data_folder();
  if (mkdir(folder.c_str(), 0711) == 0 && chmod(folder.c_str(), 0711) != 0) {
    return ErrnoStatus(errno, "chmod", folder);
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto process,
                           process::Process::Open(config.process(), ThisKind(), options, clock));
  ServerConfig settings;
  settings.cluster = config.cluster();
  settings.node = config.node();
  if (!config.host().empty()) settings.host = config.host();
  settings.data_folder = folder;
  settings.shim_command.assign(config.shim_command().begin(), config.shim_command().end());
  if (settings.shim_command.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string program, OwnProgram());
    settings.shim_command = {program, "shim"};
  }
  if (!config.cgroup_name().empty()) settings.cgroup_name = config.cgroup_name();
  settings.hidden_paths.assign(config.hidden_paths().begin(), config.hidden_paths().end());
  settings.shared_paths.assign(config.shared_paths().begin(), config.shared_paths().end());
  if (config.has_reserved()) {
    settings.reserved_cpu_millis = config.reserved().cpu_millis();
    settings.reserved_memory_bytes = config.reserved().memory_bytes();
  }
  settings.accelerators.insert(config.accelerators().begin(), config.accelerators().end());
  settings.mig_gpus.assign(config.mig_gpus().begin(), config.mig_gpus().end());
  settings.discover_gpus = config.discover_gpus();
  settings.labels.insert(config.labels().begin(), config.labels().end());
  settings.taints.assign(config.taints().begin(), config.taints().end());
  const config::v1::DataCache& cache = config.data_cache();
  settings.data_cache.shared_site = !cache.has_shared_site() || cache.shared_site();
  settings.data_cache.folder = cache.folder();
  settings.data_cache.limit_bytes = cache.limit_bytes();
  settings.data_cache.peer_address = cache.peers().listen();
  if (cache.peers().max_uploads() != 0) {
    settings.data_cache.peer_uploads = cache.peers().max_uploads();
  }
  settings.data_cache.peer_bytes_per_second = cache.peers().upload_rate_bytes();
  if (config.has_log_limit_bytes()) settings.log_limit_bytes = config.log_limit_bytes();
  if (config.first_port() != 0) settings.first_port = config.first_port();
  if (config.last_port() != 0) settings.last_port = config.last_port();

  ServerDeps deps;
  deps.strand = process->strand();
  deps.store = process->store();
  deps.logger = process->logger();
  deps.registry = process->registry();
  deps.spans = process->spans();
  deps.executor =
      process->ChannelTo(config.executor(), absl::StrCat("/executor/", config.cluster()));
  deps.data_loader = process->ChannelToLeader(config.data_loader(), "/svc/data_loader");
  deps.telemetry = process->ChannelTo(config.telemetry(), "/svc/telemetry");
  deps.credentials = process->ChannelToLeader(config.process().credentials(), "/svc/credentials");
  deps.audit = process->audit();
  deps.access = process->access();
  deps.peer_credentials = process->server_credentials();
  deps.max_connection_age = process->max_connection_age();
  deps.dial_peer = [&process](const std::string& address, const std::string& identity_path) {
    config::v1::Peer peer;
    peer.add_addresses(address);
    return process->ChannelTo(peer, identity_path);
  };
  deps.seed = process->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, Server::Create(settings, deps));
  CAPSTAN_RETURN_IF_ERROR(process->ServeMetrics([&server] { return server->Ready(); }));
  const absl::StatusOr<int> signal = process->WaitForSignal();
  if (signal.ok() && *signal == process::kStopTasksSignal) {
    return server->Drain(kStopTasksBound, StopTasks::kYes);
  }
  const absl::Status drained = server->Drain(process::kDrain, StopTasks::kNo);
  return signal.ok() ? drained : signal.status();
}

process::Program ThisProgram() {
  return process::MakeProgram("node_agent", "The Tasks of one Node", CheckConfig, Run);
}

}  // namespace capstan::node_agent
