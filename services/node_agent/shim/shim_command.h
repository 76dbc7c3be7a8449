#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_SHIM_COMMAND_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_SHIM_COMMAND_H_

#include <string>
#include <vector>

#include "libs/time/clock.h"

namespace capstan::node_agent {

// Exit codes of a probe.
inline constexpr int kProbeIsolates = 0;
inline constexpr int kProbeNothing = 10;

// The process `capstan shim …`, from its arguments to its exit code. Must be the process's only
// thread.
//   <folder>           owns the Task in the folder; see RunShim
//   --visit <folder>   runs a command beside the Task of the folder; see RunVisit
//   --probe <folder>   tries on an empty folder whether a Task could be put into namespaces here
//                      and, where the process is not root, into a user namespace; kProbeIsolates
//                      or kProbeNothing, with the reason on stderr
int RunShimCommand(const std::vector<std::string>& arguments, const Clock& clock);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_SHIM_COMMAND_H_
