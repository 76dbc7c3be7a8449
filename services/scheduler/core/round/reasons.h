// Why a gang waits, as types.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_REASONS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_REASONS_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "services/scheduler/core/round/budgets.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler::round {

enum class Obstacle : uint8_t {
  // A queue has not enough left: `refusal`.
  kQuota,
  // Not even empty nodes would hold it.
  kNeverFits,
  // Too few tasks of a class fit into any one cluster.
  kRoom,
  // Enough would fit into one cluster, but into no domain of the level that the group requires, or
  // not in slices.
  kTopology,
  // Each class would fit by itself, but not all of them together.
  kPacking,
  // It would fit, but might delay the gang that room is reserved for.
  kReservation,
  // The round's work was spent before its turn.
  kNotTried,
};

// What keeps a node from taking one task more.
enum class NodeObstacle : uint8_t {
  kUnschedulable,
  kSelector,
  kTaint,
  // Too little of `dimension` is free: the first that is.
  kResource,
};

struct NodeCount {
  NodeObstacle obstacle = NodeObstacle::kResource;
  Dimension dimension = 0;
  int64_t nodes = 0;

  friend bool operator==(const NodeCount&, const NodeCount&) = default;
};

struct Reason {
  Obstacle obstacle = Obstacle::kNotTried;
  Budgets::Refusal refusal;
  // The first group that does not fit, its level, how many tasks of one class it wants below it,
  // and the most that one domain of the level would take; in whole slices where those are short.
  int group = 0;
  absl::optional<Level> level;
  int64_t wanted = 0;
  int64_t best = 0;
  // A node of that domain: it fits if `wanted` - `best` tasks more do there.
  absl::optional<NodeIndex> nearest;
  // Nodes that take no task of the group's first class that does not fit, by what keeps them from
  // it; and how many take some.
  std::vector<NodeCount> nodes;
  int64_t nodes_with_room = 0;
};

// Why the gang does not fit as things are; kReservation if it does on Plane::kNow but not on
// `plane`. O(nodes) for each group.
Reason WhyNot(Workspace& workspace, const GangShape& shape, Plane plane);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_REASONS_H_
