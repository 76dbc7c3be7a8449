#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_PROCESS_IDENTITY_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <cstdint>

#include "libs/safe_path/safe_path.h"

namespace capstan::node_agent {

// Start time of a process in clock ticks since boot (field 22 of /proc/<pid>/stat), which with the
// pid names a process for one boot; 0 if there is none, or only its zombie.
int64_t ProcessStartTicks(pid_t pid);

// A descriptor of the process, if it still is the one that started then; else invalid. It polls
// POLLIN once the process has ended, whoever its parent is.
UniqueFd OpenProcess(pid_t pid, int64_t start_ticks);

// Sends a signal through such a descriptor; false if the process has ended.
bool SignalProcess(const UniqueFd& process, int signal);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_PROCESS_IDENTITY_H_
