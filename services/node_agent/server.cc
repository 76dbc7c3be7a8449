#include "services/node_agent/server.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "libs/cgroup/cgroup.h"
#include "libs/cgroup/usage.h"
#include "libs/gpu/nvml.h"
#include "libs/gpu/nvml_inventory.h"
#include "libs/random/random.h"
#include "libs/session/rpc_channel.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/strand/thread_strand.h"
#include "proto/capstan/executor/v1/agent_session.grpc.pb.h"
#include "services/node_agent/adapters/beast_task_sockets.h"
#include "services/node_agent/adapters/bind_port_probe.h"
#include "services/node_agent/adapters/cached_data_access.h"
#include "services/node_agent/adapters/credentials_task_tokens.h"
#include "services/node_agent/adapters/declared_mig_devices.h"
#include "services/node_agent/adapters/gpu_watch.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/adapters/isolation_probe.h"
#include "services/node_agent/adapters/loader_data_access.h"
#include "services/node_agent/adapters/local_workspace.h"
#include "services/node_agent/adapters/machine_probe.h"
#include "services/node_agent/adapters/nvml_gpu_devices.h"
#include "services/node_agent/adapters/nvml_mig_devices.h"
#include "services/node_agent/adapters/process_task_runtime.h"
#include "services/node_agent/adapters/svid_task_identity.h"
#include "services/node_agent/adapters/telemetry_log_sink.h"
#include "services/node_agent/data_path.h"
#include "services/node_agent/engine.h"
#include "services/node_agent/task_device_look.h"
#include "services/node_agent/task_sessions.h"
#include "services/node_agent/workload_server.h"

namespace capstan::node_agent {
namespace {

cgroup::Usage ReadTaskUsage(const capstan::nodeagent::v1::ShimSpec::Cgroup& group) {
  return cgroup::ReadUsage({.v2 = group.v2(),
                            .v1_freezer = group.v1_freezer(),
                            .v1_cpu = group.v1_cpu(),
                            .v1_memory = group.v1_memory()});
}

}  // namespace

namespace {

// What reads of other Nodes get to be told to go elsewhere.
constexpr absl::Duration kPeerDrain = absl::Seconds(2);

}  // namespace

// In the order of making.
struct Server::Parts {
  Strand* strand = nullptr;
  const log::Logger* logger = nullptr;
  std::unique_ptr<ThreadStrand> files;
  // Where the devices' driver may hang.
  std::unique_ptr<ThreadStrand> driver;
  absl::optional<cgroup::Tree> groups;
  GrantBook grants;
  std::unique_ptr<session::UpDialer> dialer;
  std::unique_ptr<TaskRuntime> runtime;
  // Absent if the Node shares the Site's file system.
  std::unique_ptr<DataPath> data_path;
  std::unique_ptr<DataAccess> data;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<TaskIdentity> identity;
  std::unique_ptr<TaskTokens> tokens;
  std::unique_ptr<WorkloadServer> workloads;
  std::unique_ptr<MigDevices> mig;
  // Absent unless GPUs are looked for.
  std::unique_ptr<GpuDevices> gpu_devices;
  BindPortProbe ports;
  std::unique_ptr<TaskSockets> sockets;
  std::unique_ptr<LogSink> logs;
  // Absent unless GPUs are looked for.
  std::unique_ptr<GpuWatch> gpus;
  std::unique_ptr<NodeProbe> probe;
  std::unique_ptr<TaskSessions> sessions;
  std::unique_ptr<Engine> engine;

  // Runs on the strand and waits.
  void Run(const std::function<void()>& work) const {
    absl::Notification done;
    strand->Post([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerConfig& config,
                                                       const ServerDeps& deps) {
  auto server = std::unique_ptr<Server>(new Server(std::make_unique<Parts>()));
  Parts& parts = *server->parts_;
  parts.strand = deps.strand;
  parts.logger = deps.logger;
  parts.files = std::make_unique<ThreadStrand>("agent-files", &deps.strand->clock());
  parts.driver = std::make_unique<ThreadStrand>("agent-driver", &deps.strand->clock());

  CAPSTAN_ASSIGN_OR_RETURN(cgroup::Tree groups, cgroup::Tree::Open(config.cgroup_name));
  parts.groups = groups;
  CAPSTAN_ASSIGN_OR_RETURN(
      ProbedIsolation probed,
      ProbeIsolation(config.shim_command, absl::StrCat(config.data_folder, "/probe"), groups));
  for (const auto limitation : probed.limitations) {
    deps.logger->Warning(
        "the Node is limited",
        {{"limitation", capstan::type::v1::NodeObservation::Limitation_Name(limitation)},
         {"cause", probed.reason}});
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string boot_id, ReadBootId());
  CAPSTAN_ASSIGN_OR_RETURN(parts.runtime,
                           ProcessTaskRuntime::Create({.data_folder = config.data_folder,
                                                       .shim_command = config.shim_command,
                                                       .groups = std::move(groups)},
                                                      deps.strand));
  parts.dialer = std::make_unique<session::RpcUpDialer<capstan::executor::v1::AgentSession>>(
      deps.executor, deps.strand);
  Random random(deps.seed);
  if (config.data_cache.shared_site) {
    parts.data = MakeLoaderDataAccess(deps.data_loader, deps.strand, &parts.grants);
  } else {
    DataPathConfig path;
    path.cluster = config.cluster;
    path.cache.folder = config.data_cache.folder.empty()
                            ? absl::StrCat(config.data_folder, "/cache")
                            : config.data_cache.folder;
    path.cache.limit_bytes = config.data_cache.limit_bytes;
    path.cache.threads = config.data_cache.threads;
    path.peer_address = config.data_cache.peer_address;
    path.serving.max_uploads = config.data_cache.peer_uploads;
    path.serving.bytes_per_second = config.data_cache.peer_bytes_per_second;
    CAPSTAN_ASSIGN_OR_RETURN(parts.data_path,
                             DataPath::Open(path, {.strand = deps.strand,
                                                   .logger = deps.logger,
                                                   .registry = deps.registry,
                                                   .data_loader = deps.data_loader,
                                                   .grants = &parts.grants,
                                                   .access = deps.access,
                                                   .peer_credentials = deps.peer_credentials,
                                                   .max_connection_age = deps.max_connection_age,
                                                   .dial_peer = deps.dial_peer,
                                                   .seed = random.Next()}));
    parts.data = MakeCachedDataAccess(deps.data_loader, deps.strand, parts.data_path->cache(),
                                      &parts.grants);
  }
  parts.workspace = MakeLocalWorkspace(deps.strand, parts.files.get());
  if (deps.credentials != nullptr) {
    parts.identity =
        MakeSvidTaskIdentity(deps.credentials, deps.strand, parts.files.get(), &parts.grants);
  }
  const std::string workload_folder = config.workload_folder.empty()
                                          ? absl::StrCat(config.data_folder, "/workload")
                                          : config.workload_folder;
  // Without cgroups no process can be said to be a Task's.
  if (parts.identity != nullptr && parts.groups->fences()) {
    parts.tokens = MakeCredentialsTaskTokens(deps.credentials, deps.strand);
    auto workloads = WorkloadServer::Start(workload_folder, {.strand = deps.strand,
                                                             .files = parts.files.get(),
                                                             .identity = parts.identity.get(),
                                                             .tokens = parts.tokens.get(),
                                                             .logger = deps.logger,
                                                             .registry = deps.registry,
                                                             .audit = deps.audit});
    if (workloads.ok()) {
      parts.workloads = *std::move(workloads);
    } else {
      deps.logger->Warning("no Workload API", {{"cause", workloads.status()}});
    }
  }
  parts.sockets = MakeBeastTaskSockets(deps.strand);
  if (config.discover_gpus) {
    parts.gpus = std::make_unique<GpuWatch>(
        GpuWatch::Options(), [] { return gpu::OpenNvmlInventory(); }, deps.strand,
        parts.driver.get(), deps.logger);
    parts.mig = MakeNvmlMigDevices(deps.strand, parts.driver.get());
    parts.gpu_devices = MakeNvmlGpuDevices({}, deps.strand, parts.driver.get());
  } else {
    parts.mig = MakeDeclaredMigDevices(config.mig_gpus, deps.strand);
  }
  parts.logs = MakeTelemetryLogSink(deps.telemetry, deps.strand, &parts.grants);
  parts.probe = MakeMachineProbe({.node = config.node,
                                  .host = config.host,
                                  .data_folder = config.data_folder,
                                  .labels = config.labels,
                                  .taints = config.taints,
                                  .accelerators = config.accelerators,
                                  .mig_gpus = config.mig_gpus,
                                  .limitations = probed.limitations,
                                  .reserved_cpu_millis = config.reserved_cpu_millis,
                                  .reserved_memory_bytes = config.reserved_memory_bytes},
                                 deps.strand, parts.files.get(), parts.gpus.get());

  Engine::Options options;
  options.core.cluster = config.cluster;
  options.core.node = config.node;
  options.core.host = config.host;
  options.core.boot_id = boot_id;
  options.core.first_port = config.first_port;
  options.core.last_port = config.last_port;
  std::tie(options.core.local_port_low, options.core.local_port_high) = LocalPortRange();
  options.core.chooses_gpus = config.discover_gpus;
  options.core.isolation = probed.isolation;
  options.core.isolation.hidden_paths = config.hidden_paths;
  options.core.isolation.hidden_paths.push_back(config.data_folder);
  options.core.isolation.shared_paths = config.shared_paths;
  if (parts.workloads != nullptr) options.core.isolation.workload_folder = workload_folder;
  options.core.log_limit_bytes = config.log_limit_bytes;
  absl::Notification ready;
  parts.Run([&] {
    parts.sessions = std::make_unique<TaskSessions>(
        TaskSessions::Options{.shim_command = config.shim_command}, deps.telemetry, deps.strand,
        parts.files.get(), deps.logger, Random(random.Next()));
    parts.engine = std::make_unique<Engine>(
        std::move(options),
        Engine::Deps{
            .strand = deps.strand,
            .files = parts.files.get(),
            .store = deps.store,
            .executor = parts.dialer.get(),
            .runtime = parts.runtime.get(),
            .data = parts.data.get(),
            .workspace = parts.workspace.get(),
            .identity = parts.identity.get(),
            .mig = parts.mig.get(),
            .gpus = parts.gpu_devices.get(),
            .ports = &parts.ports,
            .sockets = parts.sockets.get(),
            .workloads = parts.workloads.get(),
            .logs = parts.logs.get(),
            .grants = &parts.grants,
            .usage = ReadTaskUsage,
            .devices = MakeTaskDeviceLook([] { return gpu::OpenNvml(); }),
            .driver = parts.driver.get(),
            .task_runs = [&parts](const ShipLogs& task) { parts.sessions->TaskRuns(task); },
            .task_ends = [&parts](const session::TaskId& id) { parts.sessions->TaskEnds(id); },
            .probe = parts.probe.get(),
            .logger = deps.logger,
            .registry = deps.registry,
            .spans = deps.spans},
        Random(random.Next()));
    parts.engine->Start([&ready] { ready.Notify(); });
    if (parts.data_path != nullptr) parts.data_path->Start();
  });
  ready.WaitForNotification();
  parts.Run([&] { parts.sessions->Start(); });
  if (parts.workloads != nullptr) parts.workloads->Open();
  return server;
}

Server::~Server() {
  Drain(absl::ZeroDuration(), StopTasks::kNo).IgnoreError();
  if (parts_->workloads != nullptr) parts_->workloads->Stop();
  if (parts_->data_path != nullptr) parts_->data_path->StopServing(absl::ZeroDuration());
  // What it ends is ended on the files' strand.
  if (parts_->sessions != nullptr) parts_->Run([this] { parts_->sessions->Stop(); });
  if (parts_->files != nullptr) {
    absl::Notification ended;
    parts_->files->Post([&ended] { ended.Notify(); });
    ended.WaitForNotification();
  }
  // Threads that post to the strand go first, then what they would have called.
  if (parts_->files != nullptr) parts_->files->Stop();
  if (parts_->driver != nullptr) parts_->driver->Stop();
  parts_->Run([this] {
    parts_->engine.reset();
    parts_->probe.reset();
    parts_->gpus.reset();
    parts_->sessions.reset();
    parts_->workloads.reset();
    parts_->runtime.reset();
    parts_->sockets.reset();
    parts_->data.reset();
    parts_->data_path.reset();
    parts_->identity.reset();
    parts_->tokens.reset();
    parts_->logs.reset();
  });
}

absl::Status Server::Ready() const {
  absl::Status ready;
  parts_->Run([&] {
    const AgentCore* core = parts_->engine->core();
    if (core == nullptr || !core->up_connected()) {
      ready = absl::UnavailableError("no session with the executor");
    }
  });
  return ready;
}

absl::Status Server::Drain(absl::Duration within, StopTasks stop_tasks) {
  if (parts_->engine == nullptr) return absl::OkStatus();
  if (parts_->data_path != nullptr) {
    // Whoever reads goes on with another peer at once.
    parts_->data_path->StopServing(std::min(within, kPeerDrain));
  }
  absl::Status result;
  if (stop_tasks == StopTasks::kYes) {
    auto done = std::make_shared<absl::Notification>();
    parts_->Run([&] { parts_->engine->StopTasks([done] { done->Notify(); }); });
    if (!done->WaitForNotificationWithTimeout(within)) {
      size_t left = 0;
      parts_->Run([&] {
        if (parts_->engine->core() == nullptr) return;
        for (const auto& [id, entry] : parts_->engine->core()->tasks()) {
          left += entry.record.removed() ? 0 : 1;
        }
      });
      result = status::Error(absl::StatusCode::kDeadlineExceeded, "TASKS_LEFT",
                             absl::StrCat(left, " Tasks are not yet removed"),
                             {{"tasks", absl::StrCat(left)}});
    }
  }
  parts_->Run([this] { parts_->engine->Stop(); });
  if (stop_tasks == StopTasks::kYes && result.ok()) {
    // Nothing is left in it; the next agent makes it anew.
    const absl::Status removed = parts_->groups->RemoveTree();
    if (!removed.ok()) parts_->logger->Warning("cgroups left behind", {{"cause", removed}});
  }
  return result;
}

}  // namespace capstan::node_agent
