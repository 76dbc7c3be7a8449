#include <string>

#include "absl/time/time.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/server.h"
#include "tools/capstan/dev/parts.h"
#include "tools/capstan/dev/process.h"
#include "tools/capstan/serve/part_context.h"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {
namespace {

// The longest grace that a Job may ask for, and the time to kill and clear away.
constexpr absl::Duration kStopTasksBound = absl::Minutes(61);

}  // namespace

absl::Status ServeNodeAgent(const ServeOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto context,
                           PartContext::Open(options, dev::kNodeAgent, clock, true));
  node_agent::ServerConfig config;
  config.cluster = "local";
  config.node = "node-0";
  config.data_folder = context->folder();
  CAPSTAN_ASSIGN_OR_RETURN(const std::string program, dev::OwnProgram());
  config.shim_command = {program, "shim"};
  config.cgroup_name = dev::CgroupName(options.data_dir);
  config.hidden_paths = {options.data_dir};
  const auto& settings = context->config().node_agent();
  if (settings.has_reserved()) {
    config.reserved_cpu_millis = settings.reserved().cpu_millis();
    config.reserved_memory_bytes = settings.reserved().memory_bytes();
  }
  config.accelerators.insert(settings.accelerators().begin(), settings.accelerators().end());
  config.shared_paths.assign(settings.shared_paths().begin(), settings.shared_paths().end());
  const auto& cache = settings.data_cache();
  config.data_cache.shared_site = !cache.has_shared_site() || cache.shared_site();
  config.data_cache.folder = cache.folder();
  config.data_cache.limit_bytes = cache.limit_bytes();

  node_agent::ServerDeps deps;
  deps.strand = context->strand();
  deps.store = context->store();
  deps.logger = context->logger();
  deps.registry = context->registry();
  deps.executor = context->ChannelTo("executor");
  deps.data_loader = context->ChannelTo("data_loader");
  deps.telemetry = context->ChannelTo("telemetry");
  deps.credentials = context->ChannelTo(dev::kCredentials);
  deps.seed = context->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, node_agent::Server::Create(config, deps));
  CAPSTAN_RETURN_IF_ERROR(context->ServeMetrics([&server] { return server->Ready(); }));
  const absl::StatusOr<int> signal = context->WaitForSignal();
  if (signal.ok() && *signal == dev::kStopTasksSignal) {
    return server->Drain(kStopTasksBound, node_agent::StopTasks::kYes);
  }
  const absl::Status drained = server->Drain(kDrain, node_agent::StopTasks::kNo);
  return signal.ok() ? drained : signal.status();
}

}  // namespace capstan::serve
