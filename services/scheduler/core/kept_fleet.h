#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_KEPT_FLEET_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_KEPT_FLEET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/placing_fleet.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/workspace.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// The fleet of a round in the engine's words, with what is held in it, which may be kept for the
// next round: whatever it went through, a round in it decides as it would in a new one, but for the
// numbers of gangs, classes and shapes, on which nothing may depend. For one thread.
class KeptFleet {
 public:
  // O(nodes · log + shares held).
  KeptFleet(const std::vector<NodeCapacity>& nodes, const std::vector<HeldGang>& held,
            const std::set<std::string>* label_keys);
  KeptFleet(const KeptFleet&) = delete;
  KeptFleet& operator=(const KeptFleet&) = delete;

  // Becomes one of these. False if it cannot: then it is of no use any more. A comparison for each
  // Node and gang, and what a new one costs for those that are others.
  bool Follow(const std::vector<NodeCapacity>& nodes, const std::vector<HeldGang>& held,
              const std::set<std::string>* label_keys);

  PlacingFleet& placing_fleet() { return placing_fleet_; }
  const PlacingFleet& placing_fleet() const { return placing_fleet_; }
  round::Fleet& fleet() { return placing_fleet_.fleet(); }
  round::Workspace& workspace() { return workspace_; }

  // By position among those held; absent of those that stay where they are, come what may.
  const std::vector<absl::optional<round::GangIndex>>& gangs() const { return gangs_; }
  // That position, of one that has one.
  int HeldOf(round::GangIndex gang) const { return held_of_[gang]; }

  // Another gang that holds a place, of the round at hand. absl::nullopt if it does not fit what the
  // Nodes were said to have.
  absl::optional<round::GangIndex> Hold(const HeldGang& gang);
  // Before Follow: what a round has done to these, beside its own gangs, which it has removed.
  void Disturb(round::GangIndex gang);
  void DisturbNode(round::NodeIndex node) { nodes_[node].is_disturbed = true; }

 private:
  struct Node {
    NodeId id;
    const capstan::type::v1::NodeObservation* reported = nullptr;
    uint64_t revision = 0;
    absl::optional<std::string> only_submitter;
    std::string order;
    bool avoided = false;
    // What it was said to have free, and what of that and of what is held can be counted on.
    Amounts free;
    Amounts allocatable;
    bool is_disturbed = false;
  };
  struct Held {
    std::string uid;
    bool is_spare = false;
    uint64_t revision = 0;
    int32_t priority = 0;
    bool may_end = false;
    // On no Node that has less than nothing: such a gang is not in the fleet.
    bool is_movable = true;
    std::vector<std::pair<int, Amounts>> shares;
    absl::optional<round::GangIndex> gang;
    bool is_disturbed = false;
  };

  static Held HeldFrom(const HeldGang& gang, bool is_movable);
  static bool IsSame(const Held& kept, const HeldGang& gang, bool is_movable);
  // By position among those held.
  static std::vector<bool> Movable(const std::vector<NodeCapacity>& nodes,
                                   const std::vector<HeldGang>& held);
  static bool IsReportedAnew(const Node& kept, const NodeCapacity& node);
  bool MayFollow(const std::vector<NodeCapacity>& nodes,
                 const std::set<std::string>* label_keys) const;
  // Lets go of gangs that are others or gone, and takes up the list; the positions of those that
  // are to be added.
  std::vector<size_t> FollowHeld(const std::vector<HeldGang>& held,
                                 const std::vector<bool>& movable);
  void Drop(const Held& held);
  // False if its GPUs in MIG mode are others, or if it has what no Node had.
  bool FollowNode(size_t at, const NodeCapacity& node);
  bool Add(const HeldGang& gang, Held* held);
  void NumberHeld();

  PlacingFleet placing_fleet_;
  round::Workspace workspace_;
  std::vector<Node> nodes_;
  std::vector<Held> held_;
  std::vector<absl::optional<round::GangIndex>> gangs_;
  std::vector<int> held_of_;  // by gang
  // Not so if it has a gang that could not be added, or closures, which are counted from now.
  bool may_be_kept_ = true;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_KEPT_FLEET_H_
