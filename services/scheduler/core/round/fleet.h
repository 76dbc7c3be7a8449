// What a round sees: nodes, classes of tasks, gangs that wait and gangs that run. The Fleet is the
// version that the strand changes; a Snapshot is one it gave out, for good.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_FLEET_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_FLEET_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/mig/layouts.h"
#include "services/scheduler/core/round/cow_array.h"
#include "services/scheduler/core/round/resources.h"
#include "services/scheduler/core/round/traits.h"

namespace capstan::scheduler::round {

// Places in the arrays below; that of a node or gang that left is used again.
using NodeIndex = uint32_t;
using GangIndex = uint32_t;
using ConstraintsId = uint32_t;
using ClassId = uint32_t;
using ShapeId = uint32_t;
// Whoever fills the budgets gives queues their numbers.
using QueueId = uint32_t;

struct NodeSlot {
  // Null: no node here.
  std::shared_ptr<const NodeTraits> traits;
  // Allocatable less what gangs hold that run or are nominated: below 0 where a nominated gang
  // waits for its victims to end, or where a node has shrunk.
  ResourceVector free{};
  // By GPU in MIG mode: what stands there, or is to. Twice where a nominated gang waits for it.
  std::vector<mig::Instances> gpus;
  // False for a node that takes nothing new: cordoned, silent, draining.
  bool schedulable = false;
};

// Tasks with identical requirements.
struct TaskClass {
  ConstraintsId constraints = 0;
  // Normalised.
  Request request;
  // Each has an instance of its own of this profile; what that is of the GPU's memory slices is in
  // `request` too.
  absl::optional<mig::Ask> ask;
};

// Of a leaf: each run of `size` consecutive ranks, from its first one on, lies in one domain of
// `level`.
struct Slice {
  Level level = Level::kHost;
  int size = 1;

  friend bool operator==(const Slice&, const Slice&) = default;
};

// A gang as a tree of groups. Ranks go by leaf, in order.
struct GangShape {
  struct Group {
    // An earlier group; -1 for the first, which is the root.
    int parent = -1;
    // All tasks below lie in one domain of this level, if set. The root's is at least kCluster.
    absl::optional<Level> required;
    // As few domains of this level as a greedy choice finds, if set and deeper than `required`.
    absl::optional<Level> preferred;
    // Of a leaf (a group that is nobody's parent) only.
    ClassId task_class = 0;
    // All of `min` start or none; up to `max` while there is room to spare.
    int min = 0;
    int max = 0;
    // The widest first. Levels deepen, each size divides the one before, and the first `min` and
    // `max`.
    std::vector<Slice> slices;
  };
  std::vector<Group> groups;

  // Tasks of one class that a group wants at least.
  struct Need {
    ClassId task_class = 0;
    int64_t count = 0;
    // Of those in slices only: a leaf that has these.
    int leaf = -1;
  };

  // Filled in by Fleet::InternShape.
  std::vector<std::vector<int>> children;  // by group
  std::vector<std::vector<int>> leaves;    // by group: those below it, itself if it is one, by rank
  std::vector<std::vector<Need>> needs;    // by group: of all leaves below, each class once
  std::vector<std::vector<Need>> sliced;   // by group: of those, what is in slices of one kind
  Request demand;                          // of all minima
  int64_t min_tasks = 0;
  bool is_elastic = false;  // some leaf may have more than its minimum

  bool is_leaf(int group) const { return children[group].empty(); }
  // Of what is needed in slices.
  const std::vector<Slice>& slices_of(const Need& need) const { return groups[need.leaf].slices; }
};

// A MIG instance of a node.
struct InstancePlace {
  // In NodeTraits::gpus; -1 if there is none.
  int16_t gpu = -1;
  // In StateTable::positions() of the GPU's model.
  int16_t position = 0;

  bool is_one() const { return gpu >= 0; }
  friend bool operator==(const InstancePlace&, const InstancePlace&) = default;
};

// Consecutive ranks of a leaf on one node. A gang's runs are sorted by group, and within one by
// rank.
struct TaskRun {
  NodeIndex node = 0;
  int32_t group = 0;
  int32_t count = 0;
  // If it holds one: `count` is 1 then.
  InstancePlace instance = {};

  friend bool operator==(const TaskRun&, const TaskRun&) = default;
};

enum class GangState : uint8_t {
  kAbsent,
  kPending,
  // Holds its place until its victims have ended.
  kNominated,
  kRunning,
  // Told to go; holds its place until it has.
  kEnding,
};

struct Gang {
  // The caller's name for it.
  uint64_t key = 0;
  ShapeId shape = 0;
  QueueId queue = 0;
  int32_t priority = 0;
  GangState state = GangState::kAbsent;
  // May be a victim.
  bool preemptible = true;
  // At most so long, as declared; absl::InfiniteDuration() if nothing was.
  absl::Duration declared = absl::InfiniteDuration();
  // Of a running gang.
  absl::Time started;
  // Work after this is lost with the gang; `started` if it has no checkpoint.
  absl::Time checkpointed;
  // Of a gang that holds a place.
  std::shared_ptr<const std::vector<TaskRun>> runs;
};

struct Snapshot {
  uint64_t version = 0;
  // Another object whenever the set of nodes, a node's traits or its being schedulable may differ.
  std::shared_ptr<const int> node_set;
  int dimensions = 0;
  // By dimension: see Dimensions::parts.
  std::array<int, kMaxDimensions> parts{};
  CowView<NodeSlot> nodes;
  CowView<Constraints> constraints;
  CowView<TaskClass> classes;
  CowView<std::shared_ptr<const GangShape>> shapes;
  CowView<Gang> gangs;
  // Gangs that hold a place, in no order that means anything.
  CowView<GangIndex> holders;
};

// For one thread. A call that answers with an error has changed nothing.
class Fleet {
 public:
  Fleet() = default;
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // A fleet that starts from this one's state and goes its own way: for asking what would happen
  // if. Costs as Freeze, and a copy of the tables of classes, shapes and holders.
  std::unique_ptr<Fleet> Fork();

  Dimensions& dimensions() { return dimensions_; }
  const Dimensions& dimensions() const { return dimensions_; }

  NodeIndex AddNode(NodeTraits traits);
  // Traits, allocatable among them, may differ from what they were in anything but the GPUs.
  void ReplaceNode(NodeIndex node, NodeTraits traits);
  void SetSchedulable(NodeIndex node, bool schedulable);
  // FAILED_PRECONDITION while a gang holds a place on it.
  absl::Status RemoveNode(NodeIndex node);

  // Equal arguments have equal ids, for good.
  ClassId InternClass(const Constraints& constraints, Request request,
                      absl::optional<mig::Ask> ask = absl::nullopt);
  // INVALID_ARGUMENT if the groups are no tree in preorder, or min and max are no range.
  absl::StatusOr<ShapeId> InternShape(GangShape shape);

  // A gang that waits; `state` and what only running gangs have are ignored.
  GangIndex AddGang(Gang gang);
  // Forgets a gang; what it holds is free.
  void RemoveGang(GangIndex gang);
  // The place is taken at once. FAILED_PRECONDITION if the gang does not wait, runs are not whole
  // or a node has not the room any more.
  absl::Status Start(GangIndex gang, std::vector<TaskRun> runs, absl::Time now);
  // Takes the place though victims still hold it, and tells them to go, if they are not told
  // already. FAILED_PRECONDITION if there would not be room enough once they have gone.
  absl::Status Nominate(GangIndex gang, std::vector<TaskRun> runs,
                        const std::vector<GangIndex>& victims);
  // Runs a nominated gang whose place has become free: FAILED_PRECONDITION before that.
  absl::Status StartNominated(GangIndex gang, absl::Time now);
  // Gives a running gang more tasks. FAILED_PRECONDITION as in Start.
  absl::Status Grow(GangIndex gang, const std::vector<TaskRun>& more);
  void SetCheckpointed(GangIndex gang, absl::Time at) { gangs_.Mutable(gang).checkpointed = at; }

  const Gang& gang(GangIndex gang) const { return gangs_[gang]; }
  const NodeSlot& node(NodeIndex node) const { return nodes_[node]; }
  const GangShape& shape(ShapeId id) const { return *shapes_[id]; }
  // Which are never forgotten, nor are classes, of which each is in some shape.
  size_t shapes() const { return shapes_.size(); }

  // This version, for any thread: costs a pointer for each 2,048 nodes and gangs.
  std::shared_ptr<const Snapshot> Freeze();

 private:
  explicit Fleet(Fleet* origin);

  // Adds `sign` times what the runs take to the free amounts of their nodes.
  void Charge(const GangShape& shape, const std::vector<TaskRun>& runs, int64_t sign);
  absl::Status CheckWhole(const GangShape& shape, const std::vector<TaskRun>& runs) const;
  // Whether no node of the runs is below 0 in what they take, and their instances can stand.
  bool NoneOvercommitted(const GangShape& shape, const std::vector<TaskRun>& runs) const;
  absl::Status ChargeIfRoom(const GangShape& shape, const std::vector<TaskRun>& runs);
  void Hold(GangIndex gang, GangState state, std::vector<TaskRun> runs);

  Dimensions dimensions_;
  uint64_t version_ = 0;
  // Null once the nodes have changed since the last version.
  std::shared_ptr<const int> node_set_;
  CowArray<NodeSlot> nodes_;
  CowArray<Constraints> constraints_;
  CowArray<TaskClass> classes_;
  CowArray<std::shared_ptr<const GangShape>> shapes_;
  CowArray<Gang> gangs_;
  CowArray<GangIndex> holders_;
  // By gang: its position in holders_.
  absl::flat_hash_map<GangIndex, uint32_t> holder_position_;
  std::vector<NodeIndex> spare_nodes_;
  std::vector<GangIndex> spare_gangs_;
  absl::flat_hash_map<std::string, ConstraintsId> constraints_ids_;
  absl::flat_hash_map<std::string, ClassId> class_ids_;
  absl::flat_hash_map<std::string, ShapeId> shape_ids_;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_FLEET_H_
