// The parts of a platform on one machine: names, folders, identities and the order of starting.
#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_PARTS_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_PARTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"

namespace capstan::dev {

inline constexpr char kCredentials[] = "credentials";
inline constexpr char kNodeAgent[] = "node_agent";
inline constexpr char kScheduler[] = "scheduler";
// Processes of one service.
inline constexpr int kMaxReplicas = 5;

struct PartSpec {
  // Its folder's name: that of the service, with a number from the second replica on.
  std::string name;
  // As `capstan serve` takes it.
  std::string service;
  // Path of its SPIFFE id, without trust domain.
  std::string identity_path;
  // Whether others dial it.
  bool has_server = true;
};

// The parts of a platform with this configuration, in the order of starting; stopping is in
// reverse, but see Supervisor.
std::vector<PartSpec> PartsOf(const cli::v1::PlatformConfig& config);

// Those of the default configuration.
const std::vector<PartSpec>& AllParts();

// All that any configuration has, for what looks after a platform that is gone.
std::vector<PartSpec> PossibleParts();

// Where things lie in a data folder.
std::string PartFolder(const std::string& data_dir, absl::string_view part);
std::string PartConfigFile(const std::string& data_dir, absl::string_view part);
std::string IdentityFolder(const std::string& data_dir, absl::string_view part);
std::string RunFolder(const std::string& data_dir);
std::string LogFolder(const std::string& data_dir);
std::string PidFile(const std::string& data_dir, absl::string_view part);
std::string PersonSocket(const std::string& data_dir);
// Name of the platform's tree of cgroups: two platforms of one machine must not meet in one.
std::string CgroupName(const std::string& data_dir);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_PARTS_H_
