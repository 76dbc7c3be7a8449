#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_IDENTITY_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_IDENTITY_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// Gets identities for Tasks. Methods do not block; callbacks run on the agent's strand.
class TaskIdentity {
 public:
  virtual ~TaskIdentity() = default;

  // Puts `svid.pem`, `svid_key.pem` and `bundle.pem` of the Task into a folder that only it may
  // read, and answers the folder.
  virtual void Issue(const IssueIdentity& order,
                     absl::AnyInvocable<void(absl::StatusOr<std::string>)> done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_IDENTITY_H_
