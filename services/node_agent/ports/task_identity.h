#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_IDENTITY_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_IDENTITY_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// What a certificate says about its own life.
struct SvidLife {
  absl::Time not_before;
  absl::Time not_after;
};

// An X.509-SVID as the Workload API gives it: DER.
struct TaskSvid {
  // Leaf first.
  std::vector<std::string> chain;
  // PKCS#8.
  std::string private_key;
  std::vector<std::string> roots;

  friend bool operator==(const TaskSvid&, const TaskSvid&) = default;
};

// Gets identities for Tasks. Methods do not block; callbacks run on the agent's strand.
class TaskIdentity {
 public:
  virtual ~TaskIdentity() = default;

  // Gets an SVID under a new key and makes it the Task's, in place of one it has: `svid.pem`,
  // `svid_key.pem` and `bundle.pem` below kCurrentIdentity in a folder that only the Task may read;
  // answers that folder. Whoever opens kCurrentIdentity sees a set that belongs together. After an
  // error the identity the Task had stays.
  virtual void Issue(const IssueIdentity& order,
                     absl::AnyInvocable<void(absl::StatusOr<std::string>)> done) = 0;

  // The life of the SVID in a folder that Issue has answered, in this life of the agent or before.
  virtual void Inspect(const std::string& directory,
                       absl::AnyInvocable<void(absl::StatusOr<SvidLife>)> done) = 0;

  // The SVID in such a folder, its files all of one set.
  virtual void Read(const std::string& directory,
                    absl::AnyInvocable<void(absl::StatusOr<TaskSvid>)> done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_IDENTITY_H_
