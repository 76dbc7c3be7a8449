#include "services/data_loader/run.h"

#include <sys/stat.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "libs/process/check.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/data_loader/server.h"

namespace capstan::data_loader {
namespace {

const process::Kind& ThisKind() {
  static const auto* const kKind = new process::Kind{.name = "data_loader"};
  return *kKind;
}

}  // namespace

absl::Status CheckConfig(const config::v1::DataLoaderConfig& config) {
  status::FieldErrors errors;
  process::CheckProcess(config.process(), ThisKind(), /*listens=*/true, &errors);
  if (!config.site_folder().empty()) {
    process::CheckAbsolutePath("site_folder", config.site_folder(), &errors);
  }
  for (int i = 0; i < config.allowed_source_roots_size(); ++i) {
    process::CheckAbsolutePath(absl::StrCat("allowed_source_roots[", i, "]"),
                               config.allowed_source_roots(i), &errors);
  }
  return errors.ToStatus();
}

absl::Status Run(const config::v1::DataLoaderConfig& config, const process::StartOptions& options,
                 const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto process,
                           process::Process::Open(config.process(), ThisKind(), options, clock));
  ServerConfig settings;
  settings.address = config.process().listen();
  settings.advertised = process->advertised();
  settings.replicated = !process->owns_store();
  settings.max_connection_age = process->max_connection_age();
  settings.site_directory = config.site_folder().empty()
                                ? absl::StrCat(config.process().data_folder(), "/site")
                                : config.site_folder();
  if (mkdir(settings.site_directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "making", settings.site_directory);
  }
  settings.clusters.assign(config.clusters().begin(), config.clusters().end());
  const auto& roots = config.allowed_source_roots();
  settings.allowed_source_roots.assign(roots.begin(), roots.end());
  const config::v1::HttpSources& http = config.http();
  settings.http.allowed_url_prefixes.assign(http.allowed_url_prefixes().begin(),
                                            http.allowed_url_prefixes().end());
  settings.http.allowed_addresses.assign(http.allowed_addresses().begin(),
                                         http.allowed_addresses().end());
  settings.http.ca_file = http.ca_file();
  if (http.has_connect_timeout()) {
    settings.http.connect_timeout = ToDuration(http.connect_timeout());
  }
  if (http.has_idle_timeout()) settings.http.idle_timeout = ToDuration(http.idle_timeout());
  settings.site_limit_bytes = config.site_limit_bytes();
  CAPSTAN_ASSIGN_OR_RETURN(settings.page_token_key, process->SharedSecret("page_token"));

  ServerDeps deps;
  deps.clock = clock;
  deps.strand = process->strand();
  deps.store = process->store();
  deps.access = process->access();
  deps.logger = process->logger();
  deps.metrics = process->registry();
  deps.credentials = process->server_credentials();
  deps.seed = process->NewSeed();
  deps.on_lost = [process = process.get()](const absl::Status& why) { process->End(why); };
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, Server::Create(settings, deps));
  CAPSTAN_RETURN_IF_ERROR(process->ServeMetrics([] { return absl::OkStatus(); }));
  const absl::Status stopped = process->WaitForSignal().status();
  server->Drain(process::kDrain);
  return stopped;
}

process::Program ThisProgram() {
  return process::MakeProgram("data_loader", "Datasets, Bundles and Outputs", CheckConfig, Run);
}

}  // namespace capstan::data_loader
