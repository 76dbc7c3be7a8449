#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_NODE_PROBE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_NODE_PROBE_H_

#include "absl/functional/any_invocable.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::node_agent {

// Looks at the machine. Does not block; the callback runs on the agent's strand.
class NodeProbe {
 public:
  virtual ~NodeProbe() = default;
  // What the Node is and how it fares now, preflight included. What fails is said in the
  // observation.
  virtual void Observe(absl::AnyInvocable<void(capstan::type::v1::NodeObservation)> done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_NODE_PROBE_H_
