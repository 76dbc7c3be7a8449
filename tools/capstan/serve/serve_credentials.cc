#include <memory>

#include "libs/status/status_macros.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/proto_time.h"
#include "services/credentials/server.h"
#include "tools/capstan/serve/part_context.h"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {

absl::Status ServeCredentials(const ServeOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto context,
                           PartContext::Open(options, "credentials", clock, false));
  credentials::Config config;
  config.data_folder = context->folder();
  config.listen = context->address();
  config.join_listen = context->endpoints().join_address();
  config.person_socket = context->endpoints().person_socket();
  if (options.admin_uid >= 0) config.admin_uid = options.admin_uid;
  config.supervisor_fd = options.supervisor_fd;
  config.supervised_paths = options.supervised_paths;
  const auto& settings = context->config().credentials();
  if (settings.has_svid_ttl()) config.core.svid_ttl = ToDuration(settings.svid_ttl());
  if (settings.has_task_svid_ttl()) {
    config.core.task_svid_ttl = ToDuration(settings.task_svid_ttl());
  }
  if (settings.has_person_svid_ttl()) {
    config.core.person_svid_ttl = ToDuration(settings.person_svid_ttl());
  }
  config.issuer = settings.issuer();
  config.openid_listen = settings.openid_listen();

  ThreadStrand io_strand("cred.io", clock);
  credentials::Deps deps;
  deps.clock = clock;
  deps.strand = context->strand();
  deps.io_strand = &io_strand;
  deps.store = context->store();
  deps.log = context->logger();
  deps.metrics = context->registry();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, credentials::Server::Create(config, deps));
  CAPSTAN_RETURN_IF_ERROR(server->Start());
  CAPSTAN_RETURN_IF_ERROR(context->ServeMetrics([&server] { return server->Ready(); }));
  const absl::Status stopped = context->WaitForSignal().status();
  server->Drain(clock->Read().boot + kDrain);
  return stopped;
}

}  // namespace capstan::serve
