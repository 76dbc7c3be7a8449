#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/data_loader/server.h"
#include "tools/capstan/serve/part_context.h"
#include "tools/capstan/serve/serve_part.h"

namespace capstan::serve {
namespace {

// The data_loader reads with the platform's own rights, so a Dataset must not be able to name, say,
// the folder of credentials: only what was made to be read.
std::vector<std::string> DefaultSourceRoots(const std::string& data_dir) {
  std::vector<std::string> roots = {absl::StrCat(data_dir, "/buckets")};
  if (const passwd* owner = getpwuid(geteuid())) {
    roots.push_back(absl::StrCat(owner->pw_dir, "/bucket"));
  }
  return roots;
}

}  // namespace

absl::Status ServeDataLoader(const ServeOptions& options, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto context,
                           PartContext::Open(options, "data_loader", clock, true));
  data_loader::ServerConfig config;
  config.address = context->address();
  config.max_connection_age = context->max_connection_age();
  config.site_directory = absl::StrCat(context->folder(), "/site");
  if (mkdir(config.site_directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "making", config.site_directory);
  }
  config.clusters = {"local"};
  const auto& roots = context->config().data_loader().allowed_source_roots();
  config.allowed_source_roots.assign(roots.begin(), roots.end());
  if (config.allowed_source_roots.empty()) {
    config.allowed_source_roots = DefaultSourceRoots(options.data_dir);
  }
  const auto& http = context->config().data_loader().http();
  config.http.allowed_url_prefixes.assign(http.allowed_url_prefixes().begin(),
                                          http.allowed_url_prefixes().end());
  config.http.allowed_addresses.assign(http.allowed_addresses().begin(),
                                       http.allowed_addresses().end());
  config.http.ca_file = http.ca_file();
  if (http.has_connect_timeout()) config.http.connect_timeout = ToDuration(http.connect_timeout());
  if (http.has_idle_timeout()) config.http.idle_timeout = ToDuration(http.idle_timeout());
  config.site_limit_bytes = context->config().data_loader().site_limit_bytes();
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
  const absl::Status stopped = context->WaitForSignal().status();
  server->Drain(kDrain);
  return stopped;
}

}  // namespace capstan::serve
