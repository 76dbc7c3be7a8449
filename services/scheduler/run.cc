#include "services/scheduler/run.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "libs/process/check.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "libs/time/system_cpu_clock.h"
#include "services/scheduler/repartition_config.h"
#include "services/scheduler/server.h"

namespace capstan::scheduler {
namespace {

// Three of the longest renewal intervals, so that one that is late does not make a Node silent.
constexpr absl::Duration kLeastSuspectAfter = absl::Seconds(10);
constexpr absl::Duration kLeastFenceAfter = absl::Seconds(1);
constexpr absl::Duration kMost = absl::Hours(24 * 30);
constexpr absl::Duration kLeastKept = absl::Seconds(1);
constexpr absl::Duration kMostKept = absl::Hours(24 * 3650);
constexpr absl::Duration kLeastLeadershipTtl = absl::Seconds(2);
constexpr absl::Duration kMostLeadershipTtl = absl::Seconds(60);
constexpr absl::Duration kMostHysteresis = absl::Hours(24);
constexpr int64_t kLeastWaitingEvents = 10;
constexpr int64_t kMostWaitingEvents = 10'000'000;
constexpr int64_t kLeastJobs = 1'000;
constexpr int64_t kMostJobs = 10'000'000;
constexpr int64_t kLeastRecordingBytes = int64_t{4} << 20;
constexpr int64_t kMostRecordingBytes = int64_t{1} << 40;
constexpr int64_t kLeastCorePercent = 1;
constexpr int64_t kMostCorePercent = 100;

const process::Kind& ThisKind() {
  static const auto* const kKind = new process::Kind{.name = "scheduler"};
  return *kKind;
}

}  // namespace

absl::Status CheckConfig(const config::v1::SchedulerConfig& config) {
  status::FieldErrors errors;
  process::CheckProcess(config.process(), ThisKind(), /*listens=*/true, &errors);
  process::CheckPeer("data_loader", config.data_loader(), &errors);
  if (config.has_telemetry()) process::CheckPeer("telemetry", config.telemetry(), &errors);
  const config::v1::Fencing& fencing = config.fencing();
  process::CheckDuration("fencing.suspect_after", fencing.has_suspect_after(),
                         fencing.suspect_after(), kLeastSuspectAfter, kMost, &errors);
  process::CheckDuration("fencing.min_fence_after", fencing.has_min_fence_after(),
                         fencing.min_fence_after(), kLeastFenceAfter, kMost, &errors);
  process::CheckDuration("fencing.replace_margin", fencing.has_replace_margin(),
                         fencing.replace_margin(), kLeastFenceAfter, kMost, &errors);
  process::CheckDuration("leadership.ttl", config.leadership().has_ttl(), config.leadership().ttl(),
                         kLeastLeadershipTtl, kMostLeadershipTtl, &errors);
  const config::v1::JobRetention& ended_jobs = config.ended_jobs();
  process::CheckDuration("ended_jobs.keep_for", ended_jobs.has_keep_for(), ended_jobs.keep_for(),
                         kLeastKept, kMostKept, &errors);
  if (ended_jobs.max_jobs() < 0) {
    errors.Add("ended_jobs.max_jobs",
               absl::StrCat("is ", ended_jobs.max_jobs(), "; expected 1 or more"));
  }
  const config::v1::Demand& demand = config.demand();
  process::CheckDuration("demand.hold_for", demand.has_hold_for(), demand.hold_for(),
                         absl::ZeroDuration(), kMostHysteresis, &errors);
  process::CheckDuration("demand.release_after", demand.has_release_after(), demand.release_after(),
                         absl::ZeroDuration(), kMostHysteresis, &errors);
  process::CheckDuration("demand.starts_within", demand.has_starts_within(), demand.starts_within(),
                         absl::ZeroDuration(), kMostHysteresis, &errors);
  CheckMigRepartition("mig_repartition", config.mig_repartition(), &errors);
  process::CheckNumber("max_waiting_events", config.has_max_waiting_events(),
                       config.max_waiting_events(), kLeastWaitingEvents, kMostWaitingEvents, "",
                       &errors);
  process::CheckNumber("max_jobs", config.has_max_jobs(), config.max_jobs(), kLeastJobs, kMostJobs,
                       "", &errors);
  const config::v1::FlightRecorder& recorder = config.flight_recorder();
  process::CheckNumber("flight_recorder.max_bytes", recorder.has_max_bytes(), recorder.max_bytes(),
                       kLeastRecordingBytes, kMostRecordingBytes, "", &errors);
  process::CheckNumber("batch_simulations.max_core_percent",
                       config.batch_simulations().has_max_core_percent(),
                       config.batch_simulations().max_core_percent(), kLeastCorePercent,
                       kMostCorePercent, "", &errors);
  return errors.ToStatus();
}

absl::Status Run(const config::v1::SchedulerConfig& config, const process::StartOptions& options,
                 const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto process,
                           process::Process::Open(config.process(), ThisKind(), options, clock));
  ServerConfig settings;
  settings.address = config.process().listen();
  settings.advertised = process->advertised();
  settings.sole_owner = process->owns_store();
  settings.max_connection_age = process->max_connection_age();
  if (config.leadership().has_ttl()) {
    settings.leadership_ttl = ToDuration(config.leadership().ttl());
  }
  const config::v1::Fencing& fencing = config.fencing();
  CoreConfig& core = settings.core;
  if (fencing.has_suspect_after()) core.suspect_after = ToDuration(fencing.suspect_after());
  if (fencing.has_min_fence_after()) core.min_fence_after = ToDuration(fencing.min_fence_after());
  if (fencing.has_replace_margin()) core.replace_margin = ToDuration(fencing.replace_margin());
  const config::v1::MigRepartition& repartition = config.mig_repartition();
  if (repartition.has_max_cost()) core.repartition_max_cost = ToDuration(repartition.max_cost());
  if (repartition.has_act_cost()) core.repartition_act_cost = ToDuration(repartition.act_cost());
  if (repartition.has_pause()) core.repartition_pause = ToDuration(repartition.pause());
  const config::v1::JobRetention& ended_jobs = config.ended_jobs();
  if (ended_jobs.has_keep_for()) core.keep_finished_for = ToDuration(ended_jobs.keep_for());
  if (ended_jobs.max_jobs() > 0) core.max_finished_jobs = ended_jobs.max_jobs();
  const config::v1::Demand& demand = config.demand();
  if (demand.has_hold_for()) settings.demand.hold_for = ToDuration(demand.hold_for());
  if (demand.has_release_after()) {
    settings.demand.release_after = ToDuration(demand.release_after());
  }
  if (demand.has_starts_within()) {
    settings.demand.starts_within = ToDuration(demand.starts_within());
  }
  if (config.has_max_jobs()) core.max_jobs = static_cast<size_t>(config.max_jobs());
  if (config.has_max_waiting_events()) settings.max_waiting_events = config.max_waiting_events();
  const config::v1::FlightRecorder& recorder = config.flight_recorder();
  if (!recorder.has_enabled() || recorder.enabled()) {
    settings.recorder.emplace();
    settings.recorder->folder = absl::StrCat(config.process().data_folder(), "/recordings");
    if (recorder.has_max_bytes()) settings.recorder->max_bytes = recorder.max_bytes();
  }
  if (config.batch_simulations().has_max_core_percent()) {
    settings.batch_max_core_percent = config.batch_simulations().max_core_percent();
  }
  CAPSTAN_ASSIGN_OR_RETURN(settings.page_token_key, process->SharedSecret("page_token"));

  const SystemCpuClock cpu;
  ServerDeps deps;
  deps.cpu = &cpu;
  deps.strand = process->strand();
  deps.store = process->store();
  deps.access = process->access();
  deps.audit = process->audit();
  deps.logger = process->logger();
  deps.metrics = process->registry();
  deps.spans = process->spans();
  deps.credentials = process->server_credentials();
  deps.identity = process->identity();
  deps.data_loader = process->ChannelToLeader(config.data_loader(), "/svc/data_loader");
  if (config.has_telemetry()) {
    deps.telemetry = process->ChannelTo(config.telemetry(), "/svc/telemetry");
  }
  deps.seed = process->NewSeed();
  CAPSTAN_ASSIGN_OR_RETURN(const auto server, Server::Create(settings, deps));
  CAPSTAN_RETURN_IF_ERROR(process->ServeMetrics([&server] { return server->Ready(); }));
  const absl::Status stopped = process->WaitForSignal().status();
  server->Drain(process::kDrain);
  return stopped;
}

process::Program ThisProgram() {
  return process::MakeProgram("scheduler", "Jobs, Queues and Nodes", CheckConfig, Run);
}

}  // namespace capstan::scheduler
