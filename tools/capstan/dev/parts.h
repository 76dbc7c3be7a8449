// The parts of a platform on one machine: names, folders, identities and the order of starting.
#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_PARTS_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_PARTS_H_

#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan::dev {

inline constexpr char kCredentials[] = "credentials";
inline constexpr char kNodeAgent[] = "node_agent";

// Tells the node agent to end its Tasks, with their grace, before it ends itself. SIGTERM, as for
// every part, leaves them running for the next agent.
inline constexpr int kStopTasksSignal = SIGUSR1;

struct PartSpec {
  // As `capstan serve` takes it; also its folder's name.
  const char* name;
  // Path of its SPIFFE id, without trust domain.
  const char* identity_path;
  // Whether others dial it.
  bool has_server;
};

// In the order of starting; stopping is in reverse, but see Supervisor.
const std::vector<PartSpec>& AllParts();

// Null if there is no such part.
const PartSpec* FindPart(absl::string_view name);

// Where things lie in a data folder.
std::string PartFolder(const std::string& data_dir, absl::string_view part);
std::string IdentityFolder(const std::string& data_dir, absl::string_view part);
std::string RunFolder(const std::string& data_dir);
std::string LogFolder(const std::string& data_dir);
std::string PidFile(const std::string& data_dir, absl::string_view part);
std::string PersonSocket(const std::string& data_dir);
// Name of the platform's tree of cgroups: two platforms of one machine must not meet in one.
std::string CgroupName(const std::string& data_dir);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_PARTS_H_
