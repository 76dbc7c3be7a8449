#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "google/protobuf/map.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// Where a Node stands, outermost first; empty where nobody said.
struct NodeTopology {
  std::string region;
  std::string zone;
  std::string row;
  std::string rack;
  std::string nvlink_domain;

  // From the labels `topology.kubernetes.io/{region,zone}`, `capstan.dev/{row,rack,nvlink-domain}`
  // and, without the last, `nvidia.com/gpu.clique`.
  static NodeTopology From(const google::protobuf::Map<std::string, std::string>& labels);
};

// A Node as a Placer sees it.
struct NodeCapacity {
  NodeId id;
  // Allocatable less what live Tasks take; may be negative where a Node has shrunk.
  Amounts free;
  // False for a Node that takes nothing: silent, cordoned, draining, not yet reported.
  bool eligible = false;
  // If set, only Jobs of this submitter may be placed: the Node cannot isolate strangers.
  absl::optional<std::string> only_submitter;
  // The Node cannot isolate strangers: the first to be placed on it is its only submitter.
  bool unisolated = false;
  NodeTopology topology;
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

// One round of placing: what is placed takes room from what comes after. For one thread.
class PlacingRound {
 public:
  virtual ~PlacingRound() = default;

  // All or none. absl::nullopt if the gang does not fit now, and then no gang of its Shape fits in
  // this round any more.
  virtual absl::optional<GangPlacement> Place(const GangRequest& gang) = 0;
};

// Decides where gangs go. Pure: equal arguments and calls give equal answers.
class Placer {
 public:
  virtual ~Placer() = default;

  // `nodes` is sorted by id.
  virtual std::unique_ptr<PlacingRound> Begin(const std::vector<NodeCapacity>& nodes) const = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PLACER_H_
