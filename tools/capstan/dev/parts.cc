#include "tools/capstan/dev/parts.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"

namespace capstan::dev {

std::vector<PartSpec> PartsOf(const cli::v1::PlatformConfig& config) {
  std::vector<PartSpec> parts;
  const auto add = [&parts](const std::string& service, int replicas) {
    parts.push_back({service, service, absl::StrCat("/svc/", service)});
    for (int i = 2; i <= replicas; ++i) {
      parts.push_back({absl::StrCat(service, "-", i), service, parts.back().identity_path});
    }
  };
  add(kCredentials, config.credentials().replicas());
  add("telemetry", 1);
  add("data_loader", config.data_loaders());
  add(kScheduler, config.schedulers());
  add("cluster_manager", config.cluster_managers());
  parts.push_back({"executor", "executor", "/executor/local"});
  if (!config.no_local_node()) {
    parts.push_back({kNodeAgent, kNodeAgent, "/node/local/node-0", /*has_server=*/false});
  }
  return parts;
}

const std::vector<PartSpec>& AllParts() {
  static const auto* const kParts =
      new std::vector<PartSpec>(PartsOf(cli::v1::PlatformConfig::default_instance()));
  return *kParts;
}

std::vector<PartSpec> PossibleParts() {
  cli::v1::PlatformConfig config;
  config.mutable_credentials()->set_replicas(kMaxReplicas);
  config.set_data_loaders(kMaxReplicas);
  config.set_schedulers(kMaxReplicas);
  config.set_cluster_managers(kMaxReplicas);
  return PartsOf(config);
}

std::string PartFolder(const std::string& data_dir, absl::string_view part) {
  return absl::StrCat(data_dir, "/", part);
}

std::string PartConfigFile(const std::string& data_dir, absl::string_view part) {
  return absl::StrCat(PartFolder(data_dir, part), "/config.yaml");
}

std::string IdentityFolder(const std::string& data_dir, absl::string_view part) {
  return absl::StrCat(data_dir, "/", part, "/identity");
}

std::string RunFolder(const std::string& data_dir) { return absl::StrCat(data_dir, "/run"); }

std::string LogFolder(const std::string& data_dir) { return absl::StrCat(data_dir, "/log"); }

std::string PidFile(const std::string& data_dir, absl::string_view part) {
  return absl::StrCat(RunFolder(data_dir), "/", part, ".pid");
}

std::string PersonSocket(const std::string& data_dir) {
  return absl::StrCat(RunFolder(data_dir), "/person.sock");
}

std::string CgroupName(const std::string& data_dir) {
  return absl::StrCat("capstan-", absl::BytesToHexString(Sha256::Of(data_dir)).substr(0, 8));
}

}  // namespace capstan::dev
