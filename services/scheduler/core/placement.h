#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_

#include <vector>

#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// Whether the Node may take Tasks of the gang, capacity aside.
bool Admits(const NodeCapacity& node, const GangRequest& gang);

// First fit by Cluster (in name order), and within a Cluster as few Nodes as a greedy choice finds:
// ranks fill a Node before the next one is opened, and the next one is the smallest that takes all
// that is left of the group, else the one that takes most. If rank order does not fit, the groups
// with the largest Tasks are placed first. Exact for gangs of one group; a gang of several groups
// that only fits in a cleverer order is not found.
class FirstFitPlacer final : public Placer {
 public:
  absl::optional<GangPlacement> Place(const GangRequest& gang,
                                      const std::vector<NodeCapacity>& nodes) const override;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_
