#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_CGROUP_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_CGROUP_H_

#include <sys/types.h>

#include <string>

#include "absl/strings/string_view.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

// Content of /proc/<pid>/cgroup; empty if there is no such process.
std::string ReadCgroup(pid_t pid);

// True if `proc_cgroup`, the content of /proc/<pid>/cgroup, places the process in the Task's group
// or below it.
bool InCgroup(absl::string_view proc_cgroup,
              const capstan::nodeagent::v1::ShimSpec::Cgroup& cgroup);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_CGROUP_H_
