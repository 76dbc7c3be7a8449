#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "services/data_loader/server.h"
#include "tools/capstan/serve/part_context.h"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {

absl::Status ServeDataLoader(const ServeOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto context,
                           PartContext::Open(options, "data_loader", clock, true));
  data_loader::ServerConfig config;
  config.address = context->address();
  config.site_directory = absl::StrCat(context->folder(), "/site");
  if (mkdir(config.site_directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "making", config.site_directory);
  }
  config.clusters = {"local"};
  const auto& roots = context->config().data_loader().allowed_source_roots();
  config.allowed_source_roots.assign(roots.begin(), roots.end());
  if (config.allowed_source_roots.empty()) {
    // This process may read the whole machine; those who name a source may not. Further folders are
    // the operator's to allow, in platform.yaml.
    config.allowed_source_roots = {absl::StrCat(options.data_dir, "/buckets"),
                                   absl::StrCat(options.data_dir, "/demo")};
  }
  CAPSTAN_ASSIGN_OR_RETURN(config.page_token_key, context->KeptSecret("page_token.key"));

  data_loader::ServerDeps deps;
  deps.clock = clock;
  deps.strand = context->strand();
  deps.store = context->store();
  deps.access = context->access();
  deps.logger = context->logger();
  deps.credentials = context->server_credentials();
  deps.seed = context->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, data_loader::Server::Create(config, deps));
  CAPSTAN_RETURN_IF_ERROR(context->ServeMetrics([] { return absl::OkStatus(); }));
  context->WaitForSignal();
  server->Drain(kDrain);
  return absl::OkStatus();
}

}  // namespace capstan::serve
