#ifndef CAPSTAN_SERVICES_CLUSTER_MANAGER_ENGINE_H_
#define CAPSTAN_SERVICES_CLUSTER_MANAGER_ENGINE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "libs/log/log.h"
#include "libs/random/random.h"
#include "libs/store/commit_queue.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "services/cluster_manager/core/health_core.h"
#include "services/cluster_manager/ports/node_registry.h"

namespace capstan::cluster_manager {

// The cluster manager's strand: owns the core, stores its verdicts, then acts on Nodes. On the
// strand, destruction included.
class Engine {
 public:
  // All pointers must outlive the engine; `store` calls back on `strand`.
  Engine(HealthConfig config, store::Store* store, NodeRegistry* nodes, Strand* strand,
         Random random, log::Logger* logger);
  ~Engine();

  // Reads the store, then watches. `ready` gets OK, or why a stored record was refused.
  void Start(absl::AnyInvocable<void(absl::Status)> ready);

 private:
  void Read();
  void Ready();
  void Watch();
  void Reload(const absl::Status& why);
  // Stores and carries out a step, and arms the timer for what the core waits for next.
  void Take(Step step);
  void Arm();

  const HealthConfig config_;
  store::Store* const store_;
  NodeRegistry* const nodes_;
  Strand* const strand_;
  Random random_;
  log::Logger* const logger_;
  absl::AnyInvocable<void(absl::Status)> ready_;
  std::unique_ptr<HealthCore> core_;
  std::unique_ptr<store::CommitQueue> queue_;
  // The registry's latest, to show again to a core that was read anew.
  std::map<std::string, capstan::scheduler::v1::Node> seen_;
  bool synced_ = false;
  bool watching_ = false;
  Strand::TimerId timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::cluster_manager

#endif  // CAPSTAN_SERVICES_CLUSTER_MANAGER_ENGINE_H_
