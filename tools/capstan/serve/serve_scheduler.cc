#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/server.h"
#include "tools/capstan/serve/part_context.h"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {

absl::Status ServeScheduler(const ServeOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto context,
                           PartContext::Open(options, "scheduler", clock, true));
  scheduler::ServerConfig config;
  config.address = context->address();
  config.sole_owner = true;
  config.max_connection_age = context->max_connection_age();
  const auto& fencing = context->config().fencing();
  if (fencing.has_suspect_after()) config.core.suspect_after = ToDuration(fencing.suspect_after());
  if (fencing.has_min_fence_after()) {
    config.core.min_fence_after = ToDuration(fencing.min_fence_after());
  }
  if (fencing.has_replace_margin()) {
    config.core.replace_margin = ToDuration(fencing.replace_margin());
  }
  CAPSTAN_ASSIGN_OR_RETURN(config.page_token_key, context->KeptSecret("page_token.key"));

  scheduler::ServerDeps deps;
  deps.strand = context->strand();
  deps.store = context->store();
  deps.access = context->access();
  deps.audit = context->audit();
  deps.logger = context->logger();
  deps.metrics = context->registry();
  deps.credentials = context->server_credentials();
  deps.data_loader = context->ChannelTo("data_loader");
  deps.telemetry = context->ChannelTo("telemetry");
  deps.seed = context->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, scheduler::Server::Create(config, deps));
  CAPSTAN_RETURN_IF_ERROR(context->ServeMetrics([] { return absl::OkStatus(); }));
  const absl::Status stopped = context->WaitForSignal().status();
  server->Drain(kDrain);
  return stopped;
}

}  // namespace capstan::serve
