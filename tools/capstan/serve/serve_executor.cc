#include <unistd.h>

#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/executor/server.h"
#include "tools/capstan/serve/part_context.h"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {
namespace {

// Above what Debian gives to people (1000–59999) and to systemd's dynamic users (61184–65519), and
// below the sub-uids of useradd (from 100000).
constexpr int64_t kFirstJobUid = 70'000;
constexpr int64_t kLastJobUid = 79'999;

}  // namespace

absl::Status ServeExecutor(const ServeOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto context, PartContext::Open(options, "executor", clock, true));
  executor::ServerConfig config;
  config.address = context->address();
  config.cluster = "local";
  if (context->config().fencing().has_suspect_after()) {
    config.suspect_after = ToDuration(context->config().fencing().suspect_after());
  }
  if (geteuid() == 0) {
    config.first_uid = kFirstJobUid;
    config.last_uid = kLastJobUid;
  }
  config.max_connection_age = context->max_connection_age();

  executor::ServerDeps deps;
  deps.strand = context->strand();
  deps.store = context->store();
  deps.access = context->access();
  deps.logger = context->logger();
  deps.registry = context->registry();
  deps.scheduler = context->ChannelTo("scheduler");
  deps.credentials = context->server_credentials();
  deps.seed = context->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, executor::Server::Create(config, deps));
  CAPSTAN_RETURN_IF_ERROR(context->ServeMetrics([&server] { return server->Ready(); }));
  const absl::Status stopped = context->WaitForSignal().status();
  server->Drain(kDrain);
  return stopped;
}

}  // namespace capstan::serve
