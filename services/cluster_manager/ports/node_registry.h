#ifndef CAPSTAN_SERVICES_CLUSTER_MANAGER_PORTS_NODE_REGISTRY_H_
#define CAPSTAN_SERVICES_CLUSTER_MANAGER_PORTS_NODE_REGISTRY_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "proto/capstan/scheduler/v1/node.pb.h"

namespace capstan::cluster_manager {

// The scheduler's Nodes: watched, cordoned, uncordoned. On the engine's strand.
class NodeRegistry {
 public:
  struct Listener {
    absl::AnyInvocable<void(const capstan::scheduler::v1::Node& node)> seen;
    absl::AnyInvocable<void(const std::string& name)> gone;
    // The snapshot after (re)connecting is complete.
    absl::AnyInvocable<void()> synced;
    // What was seen may be stale from now on; a new snapshot follows once the scheduler answers.
    absl::AnyInvocable<void()> lost;
  };

  virtual ~NodeRegistry() = default;

  // Once.
  virtual void Watch(Listener listener) = 0;
  // Idempotent. Failures are only reported: the engine asks again as long as it must.
  virtual void Cordon(const std::string& node, const std::string& reason,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;
  virtual void Uncordon(const std::string& node, absl::AnyInvocable<void(absl::Status)> done) = 0;
};

}  // namespace capstan::cluster_manager

#endif  // CAPSTAN_SERVICES_CLUSTER_MANAGER_PORTS_NODE_REGISTRY_H_
