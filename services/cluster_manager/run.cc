#include "services/cluster_manager/run.h"

#include <memory>

#include "libs/process/check.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/cluster_manager/server.h"

namespace capstan::cluster_manager {
namespace {

constexpr absl::Duration kLeast = absl::Milliseconds(1);
constexpr absl::Duration kMost = absl::Hours(24 * 30);

const process::Kind& ThisKind() {
  static const auto* const kKind = new process::Kind{.name = "cluster_manager"};
  return *kKind;
}

}  // namespace

absl::Status CheckConfig(const config::v1::ClusterManagerConfig& config) {
  status::FieldErrors errors;
  process::CheckProcess(config.process(), ThisKind(), /*listens=*/true, &errors);
  process::CheckPeer("scheduler", config.scheduler(), &errors);
  process::CheckDuration("raise_after", config.has_raise_after(), config.raise_after(), kLeast,
                         kMost, &errors);
  process::CheckDuration("clear_after", config.has_clear_after(), config.clear_after(), kLeast,
                         kMost, &errors);
  return errors.ToStatus();
}

absl::Status Run(const config::v1::ClusterManagerConfig& config,
                 const process::StartOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto process,
                           process::Process::Open(config.process(), ThisKind(), options, clock));
  ServerConfig settings;
  settings.address = config.process().listen();
  settings.max_connection_age = process->max_connection_age();
  settings.owner = process->identity()->spiffe_id();
  settings.advertised = process->advertised();
  settings.sole_owner = process->owns_store();
  if (config.has_raise_after()) settings.raise_after = ToDuration(config.raise_after());
  if (config.has_clear_after()) settings.clear_after = ToDuration(config.clear_after());
  CAPSTAN_ASSIGN_OR_RETURN(settings.page_token_key, process->SharedSecret("page_token"));

  ServerDeps deps;
  deps.strand = process->strand();
  deps.store = process->store();
  deps.access = process->access();
  deps.logger = process->logger();
  deps.metrics = process->registry();
  deps.scheduler = process->ChannelToLeader(config.scheduler(), "/svc/scheduler");
  deps.credentials = process->server_credentials();
  deps.seed = process->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, Server::Create(settings, deps));
  CAPSTAN_RETURN_IF_ERROR(process->ServeMetrics([] { return absl::OkStatus(); }));
  const absl::Status stopped = process->WaitForSignal().status();
  server->Drain(process::kDrain);
  return stopped;
}

process::Program ThisProgram() {
  return process::MakeProgram("cluster_manager", "The health of Nodes", CheckConfig, Run);
}

}  // namespace capstan::cluster_manager
