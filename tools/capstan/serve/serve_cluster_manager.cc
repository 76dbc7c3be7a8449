#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/cluster_manager/server.h"
#include "tools/capstan/serve/part_context.h"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {

absl::Status ServeClusterManager(const ServeOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto context,
                           PartContext::Open(options, "cluster_manager", clock, true));
  cluster_manager::ServerConfig config;
  config.address = context->address();
  config.max_connection_age = context->max_connection_age();
  config.owner = context->identity()->spiffe_id();
  const auto& settings = context->config().cluster_manager();
  if (settings.has_raise_after()) config.raise_after = ToDuration(settings.raise_after());
  if (settings.has_clear_after()) config.clear_after = ToDuration(settings.clear_after());
  CAPSTAN_ASSIGN_OR_RETURN(config.page_token_key, context->KeptSecret("page_token.key"));

  cluster_manager::ServerDeps deps;
  deps.strand = context->strand();
  deps.store = context->store();
  deps.access = context->access();
  deps.logger = context->logger();
  deps.scheduler = context->ChannelTo("scheduler");
  deps.credentials = context->server_credentials();
  deps.seed = context->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, cluster_manager::Server::Create(config, deps));
  CAPSTAN_RETURN_IF_ERROR(context->ServeMetrics([] { return absl::OkStatus(); }));
  const absl::Status stopped = context->WaitForSignal().status();
  server->Drain(kDrain);
  return stopped;
}

}  // namespace capstan::serve
