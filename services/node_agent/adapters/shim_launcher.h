#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_SHIM_LAUNCHER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_SHIM_LAUNCHER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace capstan::node_agent {

// Starts `command folder` as a shim that has nothing to do with this process any more: in a session
// of its own, not our child, without our descriptors, signals and environment, in `/`, its errors
// in
// `<folder>/shim.err`. It holds the folder's lock from before the fork on. Answers its pid.
// ALREADY_EXISTS with reason TASK_STARTED if a shim holds the lock. Safe in a process with threads.
absl::StatusOr<pid_t> LaunchShim(const std::vector<std::string>& command,
                                 const std::string& folder);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_SHIM_LAUNCHER_H_
