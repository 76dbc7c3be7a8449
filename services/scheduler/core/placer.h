#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_

#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// A Node as a Placer sees it.
struct NodeCapacity {
  NodeId id;
  // Allocatable less what live Tasks take; may be negative where a Node has shrunk.
  Amounts free;
  // False for a Node that takes nothing: silent, cordoned, draining, not yet reported.
  bool eligible = false;
  // If set, only Jobs of this submitter may be placed: the Node cannot isolate strangers.
  absl::optional<std::string> only_submitter;
};

// A gang to be placed.
struct GangRequest {
  struct Group {
    int replicas = 0;
    Amounts each;
  };
  // In rank order.
  std::vector<Group> groups;
  // Clusters allowed; empty means any.
  std::set<std::string> clusters;
  std::string submitter;

  static GangRequest From(const JobEntry& job);
  // Equal for gangs that fit the same Nodes.
  std::string Shape() const;
};

// Where each rank goes: positions in the given Nodes, all of one Cluster.
using GangPlacement = std::vector<int>;

// Decides where one gang goes, all or none. Pure: equal arguments give equal answers. The full
// engine goes behind this interface.
class Placer {
 public:
  virtual ~Placer() = default;

  // absl::nullopt if the gang does not fit now. `nodes` is sorted by id.
  virtual absl::optional<GangPlacement> Place(const GangRequest& gang,
                                              const std::vector<NodeCapacity>& nodes) const = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_
