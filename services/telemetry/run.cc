#include "services/telemetry/run.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/metrics/client_addresses.h"
#include "libs/process/check.h"
#include "libs/process/loopback_network.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/telemetry/server.h"

namespace capstan::telemetry {
namespace {

constexpr int64_t kLeastKeepBytes = int64_t{1} << 20;
constexpr absl::Duration kLeastKeepFor = absl::Minutes(1);
constexpr absl::Duration kLeastArchivedFor = absl::Seconds(1);
constexpr absl::Duration kMost = absl::Hours(24 * 3650);
// Four reports.
constexpr absl::Duration kLeastForgetAfter = absl::Minutes(2);

const process::Kind& ThisKind() {
  static const auto* const kKind = new process::Kind{.name = "telemetry", .has_store = false};
  return *kKind;
}

absl::StatusOr<metrics::ClientAddresses> TargetReaders(const config::v1::TelemetryConfig& config) {
  return metrics::ClientAddresses::Parse(
      std::vector<std::string>(config.target_readers().begin(), config.target_readers().end()));
}

}  // namespace

absl::Status CheckConfig(const config::v1::TelemetryConfig& config) {
  status::FieldErrors errors;
  process::CheckProcess(config.process(), ThisKind(), /*listens=*/true, &errors);
  if (config.keep_bytes() != 0 && config.keep_bytes() < kLeastKeepBytes) {
    errors.Add("keep_bytes",
               absl::StrCat("is ", config.keep_bytes(), "; expected at least 1Mi, or 0 for 1Gi"));
  }
  process::CheckDuration("keep_for", config.has_keep_for(), config.keep_for(), kLeastKeepFor, kMost,
                         &errors);
  const config::v1::JobArchive& archive = config.archive();
  process::CheckDuration("archive.keep_for", archive.has_keep_for(), archive.keep_for(),
                         kLeastArchivedFor, kMost, &errors);
  if (archive.max_jobs() < 0) {
    errors.Add("archive.max_jobs", absl::StrCat("is ", archive.max_jobs(), "; expected 1 or more"));
  }
  process::CheckDuration("forget_targets_after", config.has_forget_targets_after(),
                         config.forget_targets_after(), kLeastForgetAfter, kMost, &errors);
  const absl::Status readers = TargetReaders(config).status();
  if (!readers.ok()) errors.Add("target_readers", std::string(readers.message()));
  return errors.ToStatus();
}

absl::Status Run(const config::v1::TelemetryConfig& config, const process::StartOptions& options,
                 const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto process,
                           process::Process::Open(config.process(), ThisKind(), options, clock));
  ServerConfig settings;
  settings.address = config.process().listen();
  settings.max_connection_age = process->max_connection_age();
  settings.folder = absl::StrCat(config.process().data_folder(), "/streams");
  if (config.keep_bytes() != 0) settings.keep_bytes = config.keep_bytes();
  if (config.has_keep_for()) settings.keep_for = ToDuration(config.keep_for());
  settings.archive_file = absl::StrCat(config.process().data_folder(), "/archive.sqlite");
  settings.subscriptions_file =
      absl::StrCat(config.process().data_folder(), "/subscriptions.sqlite");
  const config::v1::JobArchive& archive = config.archive();
  if (archive.has_keep_for()) settings.archive_keep_for = ToDuration(archive.keep_for());
  if (archive.max_jobs() > 0) settings.archive_max_jobs = archive.max_jobs();
  settings.targets_file = absl::StrCat(config.process().data_folder(), "/scrape_targets");
  if (config.has_forget_targets_after()) {
    settings.forget_targets_after = ToDuration(config.forget_targets_after());
  }
  settings.loopback_network = process::LoopbackNetwork();
  CAPSTAN_ASSIGN_OR_RETURN(settings.target_readers, TargetReaders(config));

  ServerDeps deps;
  deps.strand = process->strand();
  deps.access = process->access();
  deps.logger = process->logger();
  deps.metrics = process->registry();
  deps.credentials = process->server_credentials();
  deps.audit = process->audit();
  deps.seed = process->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, Server::Create(settings, deps));
  CAPSTAN_RETURN_IF_ERROR(process->ServeMetrics([] { return absl::OkStatus(); },
                                                {{"/targets", server->TargetsPage()}}));
  const absl::Status stopped = process->WaitForSignal().status();
  server->Drain(process::kDrain);
  return stopped;
}

process::Program ThisProgram() {
  return process::MakeProgram("telemetry", "Logs and events", CheckConfig, Run);
}

}  // namespace capstan::telemetry
