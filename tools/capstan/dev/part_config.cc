#include "tools/capstan/dev/part_config.h"

#include <pwd.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/config/v1/cluster_manager.pb.h"
#include "proto/capstan/config/v1/credentials.pb.h"
#include "proto/capstan/config/v1/data_loader.pb.h"
#include "proto/capstan/config/v1/executor.pb.h"
#include "proto/capstan/config/v1/node_agent.pb.h"
#include "proto/capstan/config/v1/scheduler.pb.h"
#include "proto/capstan/config/v1/telemetry.pb.h"
#include "tools/capstan/cli/proto_text.h"

namespace capstan::dev {
namespace {

constexpr char kCluster[] = "local";

// Makes the parts' configurations out of the platform's.
class PartConfigs {
 public:
  PartConfigs(const std::string& data_dir, const cli::v1::PlatformConfig& config,
              const cli::v1::Endpoints& endpoints, int64_t admin_uid)
      : data_dir_(data_dir), config_(config), endpoints_(endpoints), admin_uid_(admin_uid) {}

  absl::Status WriteAll() {
    for (const PartSpec& part : PartsOf(config_)) {
      const config::v1::Process process = ProcessOf(part);
      if (part.service == kCredentials) {
        CAPSTAN_RETURN_IF_ERROR(Write(part, Credentials(part, process)));
      } else if (part.service == "telemetry") {
        config::v1::TelemetryConfig telemetry;
        *telemetry.mutable_process() = process;
        if (config_.ended_jobs().has_in_archive()) {
          *telemetry.mutable_archive() = config_.ended_jobs().in_archive();
        }
        *telemetry.mutable_target_readers() = config_.monitoring().target_readers();
        CAPSTAN_RETURN_IF_ERROR(Write(part, telemetry));
      } else if (part.service == "data_loader") {
        CAPSTAN_RETURN_IF_ERROR(Write(part, DataLoader(process)));
      } else if (part.service == kScheduler) {
        CAPSTAN_RETURN_IF_ERROR(Write(part, Scheduler(process)));
      } else if (part.service == "cluster_manager") {
        CAPSTAN_RETURN_IF_ERROR(Write(part, ClusterManager(process)));
      } else if (part.service == "executor") {
        CAPSTAN_RETURN_IF_ERROR(Write(part, Executor(process)));
      } else {
        CAPSTAN_RETURN_IF_ERROR(Write(part, NodeAgent(process)));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Write(const PartSpec& part, const google::protobuf::Message& config) const {
    return WriteFileAtomically(PartConfigFile(data_dir_, part.name), cli::ToYaml(config), 0600);
  }

  // All replicas of a service.
  config::v1::Peer PeerOf(absl::string_view service) const {
    config::v1::Peer peer;
    for (const PartSpec& part : PartsOf(config_)) {
      if (part.service == service) {
        peer.add_addresses(endpoints_.parts().at(part.name).address());
      }
    }
    return peer;
  }

  config::v1::Process ProcessOf(const PartSpec& part) const {
    config::v1::Process process;
    process.set_data_folder(PartFolder(data_dir_, part.name));
    const cli::v1::Endpoints::Part& entry = endpoints_.parts().at(part.name);
    process.set_listen(entry.address());
    process.set_metrics_listen(entry.metrics_address());
    if (part.service != kCredentials) {
      process.mutable_joining()->set_address(endpoints_.join_address());
      *process.mutable_credentials() = PeerOf(kCredentials);
    }
    *process.mutable_monitoring()->mutable_inventory() = PeerOf("telemetry");
    const cli::v1::PlatformConfig::Monitoring& monitoring = config_.monitoring();
    if (monitoring.has_access_log()) {
      *process.mutable_monitoring()->mutable_access_log() = monitoring.access_log();
    }
    if (monitoring.has_traces()) {
      *process.mutable_monitoring()->mutable_traces() = monitoring.traces();
    }
    process.mutable_log()->set_level(
        static_cast<config::v1::Log::Level>(static_cast<int>(config_.log_level())));
    process.mutable_log()->set_file(absl::StrCat(LogFolder(data_dir_), "/", part.name, ".log"));
    const bool local = part.service == "executor" || part.service == kNodeAgent;
    if (config_.has_store() && !local && part.service != "telemetry") {
      *process.mutable_store() = config_.store();
    }
    return process;
  }

  config::v1::CredentialsConfig Credentials(const PartSpec& part,
                                            const config::v1::Process& process) const {
    config::v1::CredentialsConfig credentials;
    *credentials.mutable_process() = process;
    const auto& settings = config_.credentials();
    // Who joins and who has no SVID yet knows one address.
    if (part.name == kCredentials) {
      credentials.set_join_listen(endpoints_.join_address());
      credentials.set_person_socket(endpoints_.person_socket());
      credentials.set_openid_listen(settings.openid_listen());
    } else {
      credentials.set_join_listen("127.0.0.1:0");
    }
    if (settings.replicas() > 1) {
      credentials.set_key_file(
          absl::StrCat(PartFolder(data_dir_, kCredentials), "/key_keeper.key"));
    }
    credentials.set_admin_uid(admin_uid_);
    if (settings.has_svid_ttl()) *credentials.mutable_svid_ttl() = settings.svid_ttl();
    if (settings.has_task_svid_ttl()) {
      *credentials.mutable_task_svid_ttl() = settings.task_svid_ttl();
    }
    if (settings.has_person_svid_ttl()) {
      *credentials.mutable_person_svid_ttl() = settings.person_svid_ttl();
    }
    if (settings.has_policy_valid()) *credentials.mutable_policy_valid() = settings.policy_valid();
    credentials.set_issuer(settings.issuer());
    return credentials;
  }

  config::v1::DataLoaderConfig DataLoader(const config::v1::Process& process) const {
    config::v1::DataLoaderConfig loader;
    *loader.mutable_process() = process;
    if (config_.data_loaders() > 1) {
      loader.set_site_folder(absl::StrCat(PartFolder(data_dir_, "data_loader"), "/site"));
    }
    // Nodes of other hosts, whatever their Cluster, have the content brought to them.
    if (!config_.no_local_node()) loader.add_clusters(kCluster);
    *loader.mutable_allowed_source_roots() = config_.data_loader().allowed_source_roots();
    if (loader.allowed_source_roots().empty()) {
      // The data_loader reads with the platform's own rights, so a Dataset must not be able to
      // name, say, the folder of credentials: only what was made to be read.
      loader.add_allowed_source_roots(absl::StrCat(data_dir_, "/buckets"));
      if (const passwd* owner = getpwuid(geteuid())) {
        loader.add_allowed_source_roots(absl::StrCat(owner->pw_dir, "/bucket"));
      }
    }
    if (config_.data_loader().has_http()) {
      *loader.mutable_http() = config_.data_loader().http();
    }
    loader.set_site_limit_bytes(config_.data_loader().site_limit_bytes());
    return loader;
  }

  config::v1::SchedulerConfig Scheduler(const config::v1::Process& process) const {
    config::v1::SchedulerConfig scheduler;
    *scheduler.mutable_process() = process;
    *scheduler.mutable_data_loader() = PeerOf("data_loader");
    *scheduler.mutable_telemetry() = PeerOf("telemetry");
    if (config_.has_fencing()) *scheduler.mutable_fencing() = config_.fencing();
    if (config_.ended_jobs().has_in_scheduler()) {
      *scheduler.mutable_ended_jobs() = config_.ended_jobs().in_scheduler();
    }
    if (config_.scheduler().has_max_waiting_events()) {
      scheduler.set_max_waiting_events(config_.scheduler().max_waiting_events());
    }
    if (config_.scheduler().has_max_jobs()) {
      scheduler.set_max_jobs(config_.scheduler().max_jobs());
    }
    if (config_.scheduler().has_demand()) {
      *scheduler.mutable_demand() = config_.scheduler().demand();
    }
    if (config_.scheduler().has_batch_simulations()) {
      *scheduler.mutable_batch_simulations() = config_.scheduler().batch_simulations();
    }
    if (config_.scheduler().has_mig_repartition()) {
      *scheduler.mutable_mig_repartition() = config_.scheduler().mig_repartition();
    }
    return scheduler;
  }

  config::v1::ClusterManagerConfig ClusterManager(const config::v1::Process& process) const {
    config::v1::ClusterManagerConfig manager;
    *manager.mutable_process() = process;
    *manager.mutable_scheduler() = PeerOf(kScheduler);
    const auto& settings = config_.cluster_manager();
    if (settings.has_raise_after()) *manager.mutable_raise_after() = settings.raise_after();
    if (settings.has_clear_after()) *manager.mutable_clear_after() = settings.clear_after();
    return manager;
  }

  config::v1::ExecutorConfig Executor(const config::v1::Process& process) const {
    config::v1::ExecutorConfig executor;
    *executor.mutable_process() = process;
    executor.set_cluster(kCluster);
    *executor.mutable_scheduler() = PeerOf(kScheduler);
    if (config_.fencing().has_suspect_after()) {
      *executor.mutable_suspect_after() = config_.fencing().suspect_after();
    }
    return executor;
  }

  config::v1::NodeAgentConfig NodeAgent(const config::v1::Process& process) const {
    config::v1::NodeAgentConfig agent;
    *agent.mutable_process() = process;
    agent.set_cluster(kCluster);
    agent.set_node("node-0");
    *agent.mutable_executor() = PeerOf("executor");
    *agent.mutable_data_loader() = PeerOf("data_loader");
    *agent.mutable_telemetry() = PeerOf("telemetry");
    agent.set_host(config_.host());
    agent.set_cgroup_name(CgroupName(data_dir_));
    agent.add_hidden_paths(data_dir_);
    const auto& settings = config_.node_agent();
    *agent.mutable_shared_paths() = settings.shared_paths();
    if (settings.has_reserved()) *agent.mutable_reserved() = settings.reserved();
    *agent.mutable_accelerators() = settings.accelerators();
    *agent.mutable_mig_gpus() = settings.mig_gpus();
    agent.set_discover_gpus(settings.discover_gpus());
    if (settings.has_data_cache()) *agent.mutable_data_cache() = settings.data_cache();
    if (settings.has_log_limit_bytes()) agent.set_log_limit_bytes(settings.log_limit_bytes());
    return agent;
  }

  const std::string& data_dir_;
  const cli::v1::PlatformConfig& config_;
  const cli::v1::Endpoints& endpoints_;
  const int64_t admin_uid_;
};

}  // namespace

absl::Status WritePartConfigs(const std::string& data_dir, const cli::v1::PlatformConfig& config,
                              const cli::v1::Endpoints& endpoints, int64_t admin_uid) {
  return PartConfigs(data_dir, config, endpoints, admin_uid).WriteAll();
}

}  // namespace capstan::dev
