#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_TOKENS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_TOKENS_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// A JWT-SVID.
struct TaskToken {
  std::string spiffe_id;
  // Secret.
  std::string token;
  absl::Time expires;
};

// What JWT-SVIDs of the trust domain are verified with.
struct TokenKeys {
  std::string trust_domain;
  // JSON Web Key Set.
  std::string jwks;
  // After how long to ask again.
  absl::Duration refresh_after;
};

// Gets tokens for Tasks, and the keys to verify others'. Methods do not block; callbacks run on the
// agent's strand, once.
class TaskTokens {
 public:
  virtual ~TaskTokens() = default;

  // A token of the Task, or of its service account, for the audiences.
  virtual void Issue(const IssueIdentity& task, bool as_service_account,
                     const std::vector<std::string>& audiences,
                     absl::AnyInvocable<void(absl::StatusOr<TaskToken>)> done) = 0;
  virtual void GetKeys(absl::AnyInvocable<void(absl::StatusOr<TokenKeys>)> done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_TOKENS_H_
