#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "services/telemetry/server.h"
#include "tools/capstan/serve/part_context.h"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {

absl::Status ServeTelemetry(const ServeOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto context,
                           PartContext::Open(options, "telemetry", clock, true));
  telemetry::ServerConfig config;
  config.address = context->address();
  config.max_connection_age = context->max_connection_age();
  config.folder = absl::StrCat(context->folder(), "/streams");

  telemetry::ServerDeps deps;
  deps.strand = context->strand();
  deps.access = context->access();
  deps.logger = context->logger();
  deps.metrics = context->registry();
  deps.credentials = context->server_credentials();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, telemetry::Server::Create(config, deps));
  CAPSTAN_RETURN_IF_ERROR(context->ServeMetrics([] { return absl::OkStatus(); }));
  const absl::Status stopped = context->WaitForSignal().status();
  server->Drain(kDrain);
  return stopped;
}

}  // namespace capstan::serve
