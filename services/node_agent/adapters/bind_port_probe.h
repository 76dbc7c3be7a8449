#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_BIND_PORT_PROBE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_BIND_PORT_PROBE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "services/node_agent/ports/port_probe.h"

namespace capstan::node_agent {

// Binds and listens on each port, then closes it.
class BindPortProbe final : public PortProbe {
 public:
  absl::StatusOr<std::vector<int32_t>> Taken(const std::vector<int32_t>& ports) override;
};

// ip_local_port_range of this machine; {32768, 60999} if it cannot be read.
std::pair<int32_t, int32_t> LocalPortRange();

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_BIND_PORT_PROBE_H_
