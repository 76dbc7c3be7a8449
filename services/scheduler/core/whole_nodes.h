#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_WHOLE_NODES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_WHOLE_NODES_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// What each Node would have free if nothing ran there, found once for all who ask: a value, good as
// long as the standings stay where they are. For any thread.
class WholeNodes {
 public:
  WholeNodes() = default;
  // O(Nodes).
  WholeNodes(const std::vector<NodeStanding>& standings, const NodeUsage& usage);

  // Of one of these standings.
  const Amounts& Of(const NodeCapacity& node) const { return whole_.at(&node); }

 private:
  absl::flat_hash_map<const NodeCapacity*, Amounts> whole_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_WHOLE_NODES_H_
