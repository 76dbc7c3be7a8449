#include "tools/capstan/dev/platform_config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "libs/config/proto_reader.h"
#include "libs/gpu/discovery_check.h"
#include "libs/metrics/client_addresses.h"
#include "libs/mig/declared_gpus.h"
#include "libs/process/check.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/repartition_config.h"
#include "tools/capstan/cli/proto_text.h"
#include "tools/capstan/dev/parts.h"

namespace capstan::dev {
namespace {

// Three of the longest renewal intervals, so that one that is late does not make a Node silent.
constexpr absl::Duration kLeastSuspectAfter = absl::Seconds(10);
constexpr absl::Duration kLeastTtl = absl::Seconds(30);
constexpr absl::Duration kLeastFenceAfter = absl::Seconds(1);
constexpr absl::Duration kMost = absl::Hours(24 * 30);
// Ended Jobs; the least is for tests.
constexpr absl::Duration kLeastKept = absl::Seconds(1);
constexpr absl::Duration kMostKept = absl::Hours(24 * 3650);
constexpr absl::Duration kLeastPolicyValid = absl::Seconds(10);
constexpr absl::Duration kMostPolicyValid = absl::Hours(1);
constexpr int64_t kLeastLogLimit = int64_t{1} << 20;
constexpr int64_t kMostLogLimit = int64_t{1} << 40;
constexpr absl::Duration kMostHysteresis = absl::Hours(24);
constexpr int64_t kLeastWaitingEvents = 10;
constexpr int64_t kMostWaitingEvents = 10'000'000;
constexpr int64_t kLeastJobs = 1'000;
constexpr int64_t kMostJobs = 10'000'000;
constexpr int64_t kLeastCorePercent = 1;
constexpr int64_t kMostCorePercent = 100;

void CheckDuration(absl::string_view field, bool present, const google::protobuf::Duration& value,
                   absl::Duration least, absl::Duration most, status::FieldErrors* errors) {
  if (!present) return;
  const absl::Duration duration = ToDuration(value);
  if (duration >= least && duration <= most) return;
  errors->Add(field, absl::StrCat("is ", absl::FormatDuration(duration), "; expected ",
                                  absl::FormatDuration(least), " to ", absl::FormatDuration(most)));
}

void CheckCredentials(const cli::v1::PlatformConfig::Credentials& settings,
                      status::FieldErrors* errors) {
  CheckDuration("credentials.svid_ttl", settings.has_svid_ttl(), settings.svid_ttl(), kLeastTtl,
                kMost, errors);
  CheckDuration("credentials.task_svid_ttl", settings.has_task_svid_ttl(), settings.task_svid_ttl(),
                kLeastTtl, kMost, errors);
  CheckDuration("credentials.person_svid_ttl", settings.has_person_svid_ttl(),
                settings.person_svid_ttl(), kLeastTtl, kMost, errors);
  CheckDuration("credentials.policy_valid", settings.has_policy_valid(), settings.policy_valid(),
                kLeastPolicyValid, kMostPolicyValid, errors);
}

void CheckFencing(const config::v1::Fencing& settings, status::FieldErrors* errors) {
  CheckDuration("fencing.suspect_after", settings.has_suspect_after(), settings.suspect_after(),
                kLeastSuspectAfter, kMost, errors);
  CheckDuration("fencing.min_fence_after", settings.has_min_fence_after(),
                settings.min_fence_after(), kLeastFenceAfter, kMost, errors);
  CheckDuration("fencing.replace_margin", settings.has_replace_margin(), settings.replace_margin(),
                kLeastFenceAfter, kMost, errors);
}

void CheckEndedJobs(const cli::v1::PlatformConfig::EndedJobs& settings,
                    status::FieldErrors* errors) {
  const auto check = [errors](const std::string& field, const auto& kept) {
    CheckDuration(absl::StrCat(field, ".keep_for"), kept.has_keep_for(), kept.keep_for(),
                  kLeastKept, kMostKept, errors);
    if (kept.max_jobs() < 0) {
      errors->Add(absl::StrCat(field, ".max_jobs"),
                  absl::StrCat("is ", kept.max_jobs(), "; expected 1 or more"));
    }
  };
  check("ended_jobs.in_scheduler", settings.in_scheduler());
  check("ended_jobs.in_archive", settings.in_archive());
}

void CheckNodeAgent(const cli::v1::PlatformConfig::NodeAgent& settings,
                    status::FieldErrors* errors) {
  for (int i = 0; i < settings.shared_paths_size(); ++i) {
    const std::string& path = settings.shared_paths(i);
    struct stat info = {};
    if (path.empty() || path.front() != '/' || stat(path.c_str(), &info) != 0 ||
        !S_ISDIR(info.st_mode)) {
      errors->Add(absl::StrCat("node_agent.shared_paths[", i, "]"),
                  absl::StrCat("is `", path, "`; expected the absolute path of a folder"));
    }
  }
  mig::CheckDeclaredGpus("node_agent.mig_gpus", settings.mig_gpus(), errors);
  if (settings.discover_gpus()) {
    gpu::CheckBesideDiscovery("node_agent.", settings.accelerators(), settings.mig_gpus_size(),
                              errors);
  }
}

void CheckSpills(const cli::v1::PlatformConfig& config, status::FieldErrors* errors) {
  process::CheckNumber("node_agent.log_limit", config.node_agent().has_log_limit_bytes(),
                       config.node_agent().log_limit_bytes(), kLeastLogLimit, kMostLogLimit,
                       " bytes", errors);
  process::CheckNumber("scheduler.max_waiting_events", config.scheduler().has_max_waiting_events(),
                       config.scheduler().max_waiting_events(), kLeastWaitingEvents,
                       kMostWaitingEvents, "", errors);
  process::CheckNumber("scheduler.max_jobs", config.scheduler().has_max_jobs(),
                       config.scheduler().max_jobs(), kLeastJobs, kMostJobs, "", errors);
  const config::v1::BatchSimulations& batches = config.scheduler().batch_simulations();
  process::CheckNumber("scheduler.batch_simulations.max_core_percent",
                       batches.has_max_core_percent(), batches.max_core_percent(),
                       kLeastCorePercent, kMostCorePercent, "", errors);
}

void CheckDemand(const config::v1::Demand& settings, status::FieldErrors* errors) {
  CheckDuration("scheduler.demand.hold_for", settings.has_hold_for(), settings.hold_for(),
                absl::ZeroDuration(), kMostHysteresis, errors);
  CheckDuration("scheduler.demand.release_after", settings.has_release_after(),
                settings.release_after(), absl::ZeroDuration(), kMostHysteresis, errors);
  CheckDuration("scheduler.demand.starts_within", settings.has_starts_within(),
                settings.starts_within(), absl::ZeroDuration(), kMostHysteresis, errors);
}

void CheckCount(absl::string_view field, int count, const cli::v1::PlatformConfig& config,
                status::FieldErrors* errors) {
  if (count < 0 || count > kMaxReplicas) {
    errors->Add(field, absl::StrCat("is ", count, "; expected 1 to ", kMaxReplicas));
  } else if (count > 1 && !config.store().has_etcd()) {
    errors->Add(field, absl::StrCat("is ", count, "; several need `store.etcd`, which they share"));
  }
}

void CheckReplicas(const cli::v1::PlatformConfig& config, status::FieldErrors* errors) {
  CheckCount("credentials.replicas", config.credentials().replicas(), config, errors);
  CheckCount("data_loaders", config.data_loaders(), config, errors);
  CheckCount("schedulers", config.schedulers(), config, errors);
  CheckCount("cluster_managers", config.cluster_managers(), config, errors);
  in_addr parsed;
  if (!config.host().empty() && inet_pton(AF_INET, config.host().c_str(), &parsed) != 1) {
    errors->Add("host",
                absl::StrCat("is '", config.host(), "'; expected an IPv4 address of this machine"));
  }
}

void CheckMonitoring(const cli::v1::PlatformConfig::Monitoring& settings,
                     status::FieldErrors* errors) {
  const absl::Status readers =
      metrics::ClientAddresses::Parse(std::vector<std::string>(settings.target_readers().begin(),
                                                               settings.target_readers().end()))
          .status();
  if (!readers.ok()) errors->Add("monitoring.target_readers", std::string(readers.message()));
  process::CheckAccessLog("monitoring.access_log", settings.access_log(), errors);
  process::CheckTraces("monitoring.traces", settings.traces(), errors);
}

}  // namespace

absl::StatusOr<cli::v1::PlatformConfig> ReadPlatformConfig(const std::string& data_dir) {
  cli::v1::PlatformConfig config;
  const absl::Status read = config::ReadProtoFile(absl::StrCat(data_dir, "/config.yaml"), &config);
  if (!read.ok() && read.code() != absl::StatusCode::kNotFound) return read;
  return config;
}

absl::StatusOr<cli::v1::PlatformConfig> ReadNewPlatformConfig(const std::string& file) {
  cli::v1::PlatformConfig config;
  CAPSTAN_RETURN_IF_ERROR(config::ReadProtoFile(file, &config));
  status::FieldErrors errors;
  CheckCredentials(config.credentials(), &errors);
  CheckFencing(config.fencing(), &errors);
  CheckEndedJobs(config.ended_jobs(), &errors);
  CheckNodeAgent(config.node_agent(), &errors);
  CheckSpills(config, &errors);
  CheckDemand(config.scheduler().demand(), &errors);
  scheduler::CheckMigRepartition("scheduler.mig_repartition", config.scheduler().mig_repartition(),
                                 &errors);
  CheckReplicas(config, &errors);
  CheckMonitoring(config.monitoring(), &errors);
  CAPSTAN_RETURN_IF_ERROR(errors.ToStatus());
  return config;
}

absl::Status InstallPlatformConfig(const std::string& file, const std::string& data_dir) {
  CAPSTAN_ASSIGN_OR_RETURN(const cli::v1::PlatformConfig config, ReadNewPlatformConfig(file));
  return WriteFileAtomically(absl::StrCat(data_dir, "/config.yaml"), cli::ToYaml(config), 0600);
}

}  // namespace capstan::dev
