#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_PORT_PROBE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_PORT_PROBE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace capstan::node_agent {

// Finds out which TCP ports are in use on this machine.
class PortProbe {
 public:
  virtual ~PortProbe() = default;
  // Those of `ports` that cannot be bound on every address now. Leaves none bound. Quick.
  virtual absl::StatusOr<std::vector<int32_t>> Taken(const std::vector<int32_t>& ports) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_PORT_PROBE_H_
