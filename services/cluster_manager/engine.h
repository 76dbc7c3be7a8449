#ifndef CAPSTAN_SERVICES_CLUSTER_MANAGER_ENGINE_H_
#define CAPSTAN_SERVICES_CLUSTER_MANAGER_ENGINE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/store/commit_queue.h"
#include "libs/store/leadership.h"
#include "libs/store/shards.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "services/cluster_manager/core/health_core.h"
#include "services/cluster_manager/ports/node_registry.h"

namespace capstan::cluster_manager {

struct EngineConfig {
  HealthConfig health;
  // This process among the replicas; no two that run at once have the same.
  std::string member;
  absl::Duration lease_ttl = absl::Seconds(3);
  // True for a store that one process owns (SQLite).
  bool sole_owner = false;
};

// The cluster manager's strand: takes its share of the Clusters, owns the core of each shard that
// is its own, stores its verdicts, then acts on Nodes. A shard is a set of Clusters by a hash of
// their names; its verdicts are written by whoever leads it, and by nobody else. On the strand,
// destruction included.
class Engine {
 public:
  // All pointers must outlive the engine; `store` calls back on `strand`.
  Engine(EngineConfig config, store::Store* store, NodeRegistry* nodes, Strand* strand,
         Random random, log::Logger* logger, metrics::Registry* metrics);
  ~Engine();

  // Begins to take part, and watches.
  void Start();
  // Gives all shards up for good.
  void Resign(absl::AnyInvocable<void(absl::Status)> done);

 private:
  // A shard that is led, for one term.
  struct Shard {
    int number = 0;
    store::Compare guard;
    std::unique_ptr<HealthCore> core;
    std::unique_ptr<store::CommitQueue> queue;
    Strand::TimerId timer = 0;
    const std::shared_ptr<char> alive = std::make_shared<char>();
  };

  void Gained(int number, const store::Leadership& term);
  void Lost(int number, const absl::Status& why);
  void Loaded(Shard& shard, const std::vector<store::KeyValue>& records);
  void Watch();
  // The shard of a Node, if it is led here and loaded.
  Shard* ShardOf(const std::string& node);
  // Stores and carries out a step, and arms the timer for what the core waits for next.
  void Take(Shard& shard, Step step);
  void CarryOut(const Effect& effect);
  void Arm(Shard& shard);

  const EngineConfig config_;
  store::Store* const store_;
  NodeRegistry* const nodes_;
  Strand* const strand_;
  Random random_;
  log::Logger* const logger_;
  metrics::Gauge shards_led_;
  store::Shards shards_;
  std::map<int, std::unique_ptr<Shard>> led_;
  // The registry's latest, to show to cores as they come.
  std::map<std::string, capstan::scheduler::v1::Node> seen_;
  bool synced_ = false;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::cluster_manager

#endif  // CAPSTAN_SERVICES_CLUSTER_MANAGER_ENGINE_H_
