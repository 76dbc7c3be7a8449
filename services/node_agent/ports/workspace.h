#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_WORKSPACE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_WORKSPACE_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// Files of Tasks on this Node. Methods do not block; callbacks run on the agent's strand.
class Workspace {
 public:
  using DoneCallback = absl::AnyInvocable<void(absl::Status)>;

  virtual ~Workspace() = default;

  // Fills `<folder>/work` with a private, writable copy of the Bundle and makes the output folder,
  // empty; both the Task's own. Starts from nothing if done before.
  virtual void Furnish(const struct Furnish& order, DoneCallback done) = 0;
  // Removes what is left of a Task's output folder. OK if absent, and if empty.
  virtual void DiscardOutput(const std::string& directory, DoneCallback done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_WORKSPACE_H_
