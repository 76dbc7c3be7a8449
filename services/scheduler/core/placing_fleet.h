#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PLACING_FLEET_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PLACING_FLEET_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/accelerator_counts.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// All times of a round are counted from its own.
inline constexpr absl::Time kRoundStart = absl::UnixEpoch();

// What a round sees, in the engine's words: the fleet that its Nodes are to be added to, and what
// gangs are in it. Nodes that are closed at the same times are told apart from others by a label,
// and those that are kept for somebody by a taint; a gang selects and tolerates by these, beside
// what it asks of the labels and taints that Nodes have themselves.
class PlacingFleet {
 public:
  // Knows the accelerators, closures and taints of these. `label_keys`: see Placer::Begin.
  PlacingFleet(const std::vector<NodeCapacity>& nodes, const std::vector<HeldGang>& held,
               const std::set<std::string>* label_keys);
  PlacingFleet(const PlacingFleet&) = delete;
  PlacingFleet& operator=(const PlacingFleet&) = delete;

  round::Fleet& fleet() { return fleet_; }
  size_t shapes() const { return fleet_.shapes(); }

  // Whether all of these are known: of Nodes labels, accelerators and taints.
  bool KnowsLabels(const std::set<std::string>* label_keys) const;
  bool KnowsAll(const AcceleratorCounts& accelerators) const;
  bool HasTaintKeysOf(const std::vector<NodeCapacity>& nodes) const;
  // Some Node is closed for a time.
  bool has_closures() const { return !calendars_.empty(); }
  // Others may have to stop.
  void SetLongestGrace(const std::vector<HeldGang>& held);

  round::NodeTraits TraitsOf(const NodeCapacity& node, const Amounts& allocatable) const;
  // From here on the Node takes no other submitter's Tasks.
  void TakeForOne(round::NodeIndex node, const std::string& submitter);
  // Without what no Node of the fleet has.
  round::Request RequestOf(const Amounts& amounts) const;
  // The instance in the engine's words, none if the Node has no such GPU; and back.
  round::InstancePlace PlaceOf(int node, const MigSpot& spot) const;
  absl::optional<MigSpot> SpotOf(const round::TaskRun& run) const;

  // With its least of each group, beginning now; absl::nullopt if it asks for what no Node has. Of
  // GangRequest::kind it is remembered.
  absl::optional<round::ShapeId> ShapeOf(const GangRequest& gang);
  // With so many Tasks of each group, beginning so late.
  absl::optional<round::ShapeId> ShapeOf(const GangRequest& gang, const std::vector<int>& sizes,
                                         absl::Duration start = absl::ZeroDuration());
  // A gang that holds this place, in groups of equal shares; with its runs. absl::nullopt if that is
  // nothing.
  absl::optional<round::ShapeId> ShapeOfHeld(const std::vector<std::pair<int, Amounts>>& shares,
                                             std::vector<round::TaskRun>* runs);
  // What the gang is from each time on at which other Nodes are open to it; from now at first. Not
  // of one that asks for what no Node has.
  std::vector<std::pair<absl::Duration, round::ShapeId>> ShapesByStart(const GangRequest& gang);
  // As if it began only once others have been stopped for it.
  GangRequest WithDelay(GangRequest gang) const;
  // Equal for gangs to which the same Nodes are open, now and once others have been stopped.
  std::string Openings(const GangRequest& gang) const;

 private:
  void InternAccelerators(const std::vector<NodeCapacity>& nodes,
                          const std::vector<HeldGang>& held);
  // The numbers of the closures that the gang would run into if it began so late.
  std::vector<std::string> ClosedTo(const GangRequest& gang, absl::Duration start) const;
  // The labels that gangs may ask by, and its taints.
  void AddReported(const NodeCapacity& node, round::NodeTraits* traits) const;
  // For each of the gang's Tasks.
  round::Constraints ConstraintsOf(const GangRequest& gang, absl::Duration start) const;

  round::Fleet fleet_;
  // Of a share that was held. Most are as the one before.
  round::ClassId ClassOfShare(const Amounts& share);

  // By Node, its GPUs in MIG mode: number and model.
  std::vector<std::vector<std::pair<int, int>>> gpus_;
  absl::optional<std::pair<Amounts, round::ClassId>> last_share_;
  // Of gangs that hold equal shares of so many Nodes.
  std::map<std::pair<round::ClassId, size_t>, round::ShapeId> held_shapes_;
  // By GangRequest::kind.
  absl::flat_hash_map<uint64_t, absl::optional<round::ShapeId>> least_shapes_;
  // The closures of Nodes, each kind once; and how long it may take until others have stopped.
  std::vector<std::vector<Closure>> calendars_;
  absl::Duration longest_grace_;
  // Keys of the labels that gangs may ask by, if they are known; and of all taints of Nodes.
  absl::optional<std::set<std::string>> label_keys_;
  std::set<std::string> taint_keys_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PLACING_FLEET_H_
