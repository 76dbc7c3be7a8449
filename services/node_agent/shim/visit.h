#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_VISIT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_VISIT_H_

#include <string>

namespace capstan::node_agent {

// The descriptor by which agent and visit speak: a socket that keeps messages apart. The agent's
// one message is a serialised telemetry.v1.TaskCommand; the visit's, if any, is the text of why the
// command could not be run. When the agent's end is closed, the visit ends.
inline constexpr int kVisitFd = 3;

// Runs a command in the environment of the running Task of `folder`: in its PID, mount and IPC
// namespaces, its cgroup, as its uid without any right, with its environment (and a TERM for a
// terminal) and working directory; standard input, output and error are the caller's 0, 1 and 2,
// of which 0 becomes the controlling terminal if the command has one. Returns the exit code as a
// shell has it; 126 and 127 if the command could not be run.
//
// The command is in a group of its own below the Task's, which is ended, with everything in it,
// when the command has ended or the agent's end is closed. It dies with the Task, since it is in
// the Task's PID namespace and cgroup, and with this process. Needs root and a single thread.
int RunVisit(const std::string& folder);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_VISIT_H_
