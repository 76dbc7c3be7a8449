#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_ISOLATION_PROBE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_ISOLATION_PROBE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/cgroup/cgroup.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/shim_spec.h"

namespace capstan::node_agent {

// What this machine can do for its Tasks.
struct ProbedIsolation {
  // For the shims; hidden_paths is left to the caller.
  Isolation isolation;
  // What it cannot do: LIMITS_NOT_ENFORCED, UNFENCED, UNISOLATED.
  std::vector<capstan::type::v1::NodeObservation::Limitation> limitations;
  // Why there are no namespaces; empty if there are.
  std::string reason = "";
};

// Finds out by trying, with the command that also runs the shims, in `scratch` (a folder, made if
// absent). Takes some ten milliseconds. To be called at the agent's start.
absl::StatusOr<ProbedIsolation> ProbeIsolation(const std::vector<std::string>& shim_command,
                                               const std::string& scratch,
                                               const cgroup::Tree& groups);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_ISOLATION_PROBE_H_
