#include "services/scheduler/core/round/fleet.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"

namespace capstan::scheduler::round {
namespace {

std::string ClassKey(ConstraintsId constraints, const Request& request,
                     const absl::optional<mig::Ask>& ask) {
  std::string key = absl::StrCat(constraints);
  if (ask.has_value()) absl::StrAppend(&key, "m", ask->model, ".", ask->profile);
  for (const Quantity& quantity : request) {
    absl::StrAppend(&key, ";", int{quantity.dimension}, "=", quantity.amount);
  }
  return key;
}

int LevelNumber(const absl::optional<Level>& level) {
  return level.has_value() ? static_cast<int>(*level) : -1;
}

std::string ShapeKey(const GangShape& shape) {
  std::string key;
  for (const GangShape::Group& group : shape.groups) {
    absl::StrAppend(&key, group.parent, ",", LevelNumber(group.required), ",",
                    LevelNumber(group.preferred), ",", group.task_class, ",", group.min, ",",
                    group.max);
    for (const Slice& slice : group.slices) {
      absl::StrAppend(&key, "/", static_cast<int>(slice.level), "x", slice.size);
    }
    key += ';';
  }
  return key;
}

bool HasGoodSlices(const GangShape::Group& group, bool leaf) {
  if (group.slices.empty()) return true;
  if (!leaf || group.slices[0].size < 1) return false;
  if (group.min % group.slices[0].size != 0 || group.max % group.slices[0].size != 0) return false;
  for (size_t s = 1; s < group.slices.size(); ++s) {
    const Slice& outer = group.slices[s - 1];
    const Slice& inner = group.slices[s];
    if (inner.level <= outer.level || inner.size < 1 || outer.size % inner.size != 0) return false;
  }
  return true;
}

absl::Status CheckGroups(const GangShape& shape, size_t class_count) {
  if (shape.groups.empty()) return absl::InvalidArgumentError("a gang has at least one group");
  for (size_t g = 0; g < shape.groups.size(); ++g) {
    const GangShape::Group& group = shape.groups[g];
    const bool root = group.parent < 0;
    if (root != (g == 0) || (!root && group.parent >= static_cast<int>(g))) {
      return absl::InvalidArgumentError(
          absl::StrCat("group ", g, ": a parent comes before its groups, and the root is first"));
    }
    if (shape.is_leaf(static_cast<int>(g)) &&
        (group.task_class >= class_count || group.min < 0 || group.max < group.min)) {
      return absl::InvalidArgumentError(absl::StrCat("group ", g, ": class ", group.task_class,
                                                     " with ", group.min, " to ", group.max,
                                                     " tasks"));
    }
    if (!HasGoodSlices(group, shape.is_leaf(static_cast<int>(g)))) {
      return absl::InvalidArgumentError(absl::StrCat("group ", g, ": no slices of its tasks"));
    }
  }
  return absl::OkStatus();
}

// Adds to what there is of the class, in slices of the kind.
void AddNeed(const GangShape& shape, int leaf, std::vector<GangShape::Need>& needs,
             bool in_slices) {
  const GangShape::Group& group = shape.groups[leaf];
  const auto same = std::find_if(needs.begin(), needs.end(), [&](const GangShape::Need& need) {
    return need.task_class == group.task_class &&
           (!in_slices || shape.slices_of(need) == group.slices);
  });
  if (same == needs.end()) {
    needs.push_back({group.task_class, group.min, in_slices ? leaf : -1});
  } else {
    same->count += group.min;
  }
}

// Fills in `leaves`, `needs` and `sliced`: a parent comes before its groups, so from the last to the first.
void SumUp(GangShape& shape) {
  shape.leaves.assign(shape.groups.size(), {});
  shape.needs.assign(shape.groups.size(), {});
  shape.sliced.assign(shape.groups.size(), {});
  for (int g = static_cast<int>(shape.groups.size()) - 1; g >= 0; --g) {
    if (shape.is_leaf(g)) shape.leaves[g] = {g};
    for (int child : shape.children[g]) {
      shape.leaves[g].insert(shape.leaves[g].end(), shape.leaves[child].begin(),
                             shape.leaves[child].end());
    }
    for (int leaf : shape.leaves[g]) {
      AddNeed(shape, leaf, shape.needs[g], false);
      if (!shape.groups[leaf].slices.empty()) AddNeed(shape, leaf, shape.sliced[g], true);
    }
  }
}

}  // namespace

Fleet::Fleet(Fleet* origin)
    : dimensions_(origin->dimensions_),
      version_(origin->version_),
      node_set_(origin->node_set_),
      nodes_(origin->nodes_.Freeze()),
      constraints_(origin->constraints_.Freeze()),
      classes_(origin->classes_.Freeze()),
      shapes_(origin->shapes_.Freeze()),
      gangs_(origin->gangs_.Freeze()),
      holders_(origin->holders_.Freeze()),
      holder_position_(origin->holder_position_),
      spare_nodes_(origin->spare_nodes_),
      spare_gangs_(origin->spare_gangs_),
      constraints_ids_(origin->constraints_ids_),
      class_ids_(origin->class_ids_),
      shape_ids_(origin->shape_ids_) {}

std::unique_ptr<Fleet> Fleet::Fork() { return std::unique_ptr<Fleet>(new Fleet(this)); }

NodeIndex Fleet::AddNode(NodeTraits traits) {
  NodeIndex node = static_cast<NodeIndex>(nodes_.size());
  if (spare_nodes_.empty()) {
    nodes_.PushBack({});
  } else {
    node = spare_nodes_.back();
    spare_nodes_.pop_back();
  }
  NodeSlot& slot = nodes_.Mutable(node);
  slot.free = traits.allocatable;
  slot.gpus.clear();
  for (const MigGpu& gpu : traits.gpus) slot.gpus.push_back(gpu.standing);
  slot.traits = std::make_shared<const NodeTraits>(std::move(traits));
  slot.schedulable = true;
  node_set_.reset();
  return node;
}

void Fleet::ReplaceNode(NodeIndex node, NodeTraits traits) {
  NodeSlot& slot = nodes_.Mutable(node);
  for (int d = 0; d < kMaxDimensions; ++d) {
    slot.free[d] += traits.allocatable[d] - slot.traits->allocatable[d];
  }
  slot.traits = std::make_shared<const NodeTraits>(std::move(traits));
  node_set_.reset();
}

void Fleet::SetSchedulable(NodeIndex node, bool schedulable) {
  if (nodes_[node].schedulable == schedulable) return;
  nodes_.Mutable(node).schedulable = schedulable;
  node_set_.reset();
}

absl::Status Fleet::RemoveNode(NodeIndex node) {
  if (nodes_[node].free != nodes_[node].traits->allocatable) {
    return absl::FailedPreconditionError("a gang holds a place on the node");
  }
  nodes_.Mutable(node) = NodeSlot();
  spare_nodes_.push_back(node);
  node_set_.reset();
  return absl::OkStatus();
}

ClassId Fleet::InternClass(const Constraints& constraints, Request request,
                           absl::optional<mig::Ask> ask) {
  const auto [found, is_new] =
      constraints_ids_.try_emplace(constraints.Key(), static_cast<uint32_t>(constraints_.size()));
  if (is_new) constraints_.PushBack(constraints);
  TaskClass task_class{found->second, Normalise(std::move(request)), ask};
  const auto [known, new_class] =
      class_ids_.try_emplace(ClassKey(task_class.constraints, task_class.request, ask),
                             static_cast<uint32_t>(classes_.size()));
  if (new_class) classes_.PushBack(std::move(task_class));
  return known->second;
}

absl::StatusOr<ShapeId> Fleet::InternShape(GangShape shape) {
  shape.children.assign(shape.groups.size(), {});
  for (size_t g = 1; g < shape.groups.size(); ++g) {
    const int parent = shape.groups[g].parent;
    if (parent >= 0 && parent < static_cast<int>(g)) {
      shape.children[parent].push_back(static_cast<int>(g));
    }
  }
  CAPSTAN_RETURN_IF_ERROR(CheckGroups(shape, classes_.size()));
  SumUp(shape);
  if (!shape.groups[0].required.has_value()) shape.groups[0].required = Level::kCluster;
  shape.demand.clear();
  shape.min_tasks = 0;
  shape.is_elastic = false;
  for (size_t g = 0; g < shape.groups.size(); ++g) {
    if (!shape.is_leaf(static_cast<int>(g))) continue;
    const GangShape::Group& leaf = shape.groups[g];
    shape.demand = Sum(shape.demand, classes_[leaf.task_class].request, leaf.min);
    shape.min_tasks += leaf.min;
    shape.is_elastic = shape.is_elastic || leaf.max > leaf.min;
  }
  const auto [found, is_new] =
      shape_ids_.try_emplace(ShapeKey(shape), static_cast<uint32_t>(shapes_.size()));
  if (is_new) shapes_.PushBack(std::make_shared<const GangShape>(std::move(shape)));
  return found->second;
}

GangIndex Fleet::AddGang(Gang gang) {
  gang.state = GangState::kPending;
  gang.runs.reset();
  if (spare_gangs_.empty()) {
    gangs_.PushBack(std::move(gang));
    return static_cast<GangIndex>(gangs_.size() - 1);
  }
  const GangIndex index = spare_gangs_.back();
  spare_gangs_.pop_back();
  gangs_.Mutable(index) = std::move(gang);
  return index;
}

void Fleet::RemoveGang(GangIndex gang) {
  const Gang& old = gangs_[gang];
  if (old.runs != nullptr) {
    Charge(*shapes_[old.shape], *old.runs, 1);
    const uint32_t position = holder_position_[gang];
    const GangIndex last = holders_[holders_.size() - 1];
    holders_.Mutable(position) = last;
    holder_position_[last] = position;
    holders_.PopBack();
    holder_position_.erase(gang);
  }
  gangs_.Mutable(gang) = Gang();
  spare_gangs_.push_back(gang);
}

void Fleet::Charge(const GangShape& shape, const std::vector<TaskRun>& runs, int64_t sign) {
  for (const TaskRun& run : runs) {
    NodeSlot& slot = nodes_.Mutable(run.node);
    AddTo(slot.free, classes_[shape.groups[run.group].task_class].request, sign * run.count);
    if (!run.instance.is_one()) continue;
    mig::Instances& instances = slot.gpus[run.instance.gpu];
    if (sign < 0) {
      instances.Add(run.instance.position);
    } else {
      instances.Remove(run.instance.position);
    }
  }
}

absl::Status Fleet::CheckWhole(const GangShape& shape, const std::vector<TaskRun>& runs) const {
  std::vector<int64_t> counts(shape.groups.size(), 0);
  int last_group = 0;
  for (const TaskRun& run : runs) {
    if (run.node >= nodes_.size() || nodes_[run.node].traits == nullptr || run.group < last_group ||
        run.group >= static_cast<int>(shape.groups.size()) || !shape.is_leaf(run.group) ||
        run.count <= 0) {
      return absl::FailedPreconditionError("not runs of this gang on nodes that are there");
    }
    const bool is_on_gpu = run.instance.gpu < static_cast<int>(nodes_[run.node].gpus.size());
    if (run.instance.is_one() ? run.count != 1 || !is_on_gpu
                              : classes_[shape.groups[run.group].task_class].ask.has_value()) {
      return absl::FailedPreconditionError("not MIG instances that the node could have");
    }
    last_group = run.group;
    counts[run.group] += run.count;
  }
  for (size_t g = 0; g < counts.size(); ++g) {
    if (!shape.is_leaf(static_cast<int>(g))) continue;
    if (counts[g] < shape.groups[g].min || counts[g] > shape.groups[g].max) {
      return absl::FailedPreconditionError(absl::StrCat("group ", g, " would have ", counts[g],
                                                        " tasks, which is not the whole gang"));
    }
  }
  return absl::OkStatus();
}

namespace {

// Whether nothing else stands in the way of what stands there.
bool CanStand(const NodeSlot& slot, const InstancePlace& place) {
  const mig::Instances& instances = slot.gpus[place.gpu];
  const uint32_t bit = uint32_t{1} << place.position;
  if ((instances.twice & bit) != 0) return false;
  const mig::Layouts& layouts = mig::Layouts::Of(slot.traits->gpus[place.gpu].model);
  return (layouts.Addable(instances.once & ~bit) & bit) != 0;
}

}  // namespace

bool Fleet::NoneOvercommitted(const GangShape& shape, const std::vector<TaskRun>& runs) const {
  for (const TaskRun& run : runs) {
    const ResourceVector& free = nodes_[run.node].free;
    for (const Quantity& quantity : classes_[shape.groups[run.group].task_class].request) {
      if (free[quantity.dimension] < 0) return false;
    }
    if (run.instance.is_one() && !CanStand(nodes_[run.node], run.instance)) return false;
  }
  return true;
}

absl::Status Fleet::ChargeIfRoom(const GangShape& shape, const std::vector<TaskRun>& runs) {
  for (const TaskRun& run : runs) {
    if (!nodes_[run.node].schedulable) {
      return absl::FailedPreconditionError("a node takes nothing new any more");
    }
  }
  Charge(shape, runs, -1);
  if (NoneOvercommitted(shape, runs)) return absl::OkStatus();
  Charge(shape, runs, 1);
  return absl::FailedPreconditionError("a node has not the room any more");
}

void Fleet::Hold(GangIndex gang, GangState state, std::vector<TaskRun> runs) {
  Gang& entry = gangs_.Mutable(gang);
  entry.state = state;
  entry.runs = std::make_shared<const std::vector<TaskRun>>(std::move(runs));
  holder_position_[gang] = static_cast<uint32_t>(holders_.size());
  holders_.PushBack(gang);
}

absl::Status Fleet::Start(GangIndex gang, std::vector<TaskRun> runs, absl::Time now) {
  if (gang >= gangs_.size() || gangs_[gang].state != GangState::kPending) {
    return absl::FailedPreconditionError("the gang does not wait any more");
  }
  const GangShape& shape = *shapes_[gangs_[gang].shape];
  CAPSTAN_RETURN_IF_ERROR(CheckWhole(shape, runs));
  CAPSTAN_RETURN_IF_ERROR(ChargeIfRoom(shape, runs));
  Hold(gang, GangState::kRunning, std::move(runs));
  Gang& entry = gangs_.Mutable(gang);
  entry.started = now;
  entry.checkpointed = now;
  return absl::OkStatus();
}

absl::Status Fleet::Nominate(GangIndex gang, std::vector<TaskRun> runs,
                             const std::vector<GangIndex>& victims) {
  if (gang >= gangs_.size() || gangs_[gang].state != GangState::kPending) {
    return absl::FailedPreconditionError("the gang does not wait any more");
  }
  for (GangIndex victim : victims) {
    if (victim >= gangs_.size() || (gangs_[victim].state != GangState::kRunning &&
                                    gangs_[victim].state != GangState::kEnding)) {
      return absl::FailedPreconditionError("a victim does not run any more");
    }
  }
  const GangShape& shape = *shapes_[gangs_[gang].shape];
  CAPSTAN_RETURN_IF_ERROR(CheckWhole(shape, runs));
  for (GangIndex victim : victims) {
    Charge(*shapes_[gangs_[victim].shape], *gangs_[victim].runs, 1);
  }
  const absl::Status charged = ChargeIfRoom(shape, runs);
  for (GangIndex victim : victims) {
    Charge(*shapes_[gangs_[victim].shape], *gangs_[victim].runs, -1);
  }
  CAPSTAN_RETURN_IF_ERROR(charged);
  Hold(gang, GangState::kNominated, std::move(runs));
  for (GangIndex victim : victims) gangs_.Mutable(victim).state = GangState::kEnding;
  return absl::OkStatus();
}

absl::Status Fleet::StartNominated(GangIndex gang, absl::Time now) {
  const Gang& entry = gangs_[gang];
  if (entry.state != GangState::kNominated) {
    return absl::FailedPreconditionError("the gang is not nominated");
  }
  if (!NoneOvercommitted(*shapes_[entry.shape], *entry.runs)) {
    return absl::FailedPreconditionError("a victim has not ended yet");
  }
  Gang& running = gangs_.Mutable(gang);
  running.state = GangState::kRunning;
  running.started = now;
  running.checkpointed = now;
  return absl::OkStatus();
}

absl::Status Fleet::Grow(GangIndex gang, const std::vector<TaskRun>& more) {
  if (gang >= gangs_.size() || gangs_[gang].state != GangState::kRunning) {
    return absl::FailedPreconditionError("the gang does not run");
  }
  const GangShape& shape = *shapes_[gangs_[gang].shape];
  std::vector<TaskRun> all = *gangs_[gang].runs;
  all.insert(all.end(), more.begin(), more.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const TaskRun& a, const TaskRun& b) { return a.group < b.group; });
  CAPSTAN_RETURN_IF_ERROR(CheckWhole(shape, all));
  CAPSTAN_RETURN_IF_ERROR(ChargeIfRoom(shape, more));
  gangs_.Mutable(gang).runs = std::make_shared<const std::vector<TaskRun>>(std::move(all));
  return absl::OkStatus();
}

std::shared_ptr<const Snapshot> Fleet::Freeze() {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->version = ++version_;
  if (node_set_ == nullptr) node_set_ = std::make_shared<const int>(0);
  snapshot->node_set = node_set_;
  snapshot->dimensions = dimensions_.size();
  for (int d = 0; d < dimensions_.size(); ++d) {
    snapshot->parts[d] = dimensions_.parts(static_cast<Dimension>(d));
  }
  snapshot->nodes = nodes_.Freeze();
  snapshot->constraints = constraints_.Freeze();
  snapshot->classes = classes_.Freeze();
  snapshot->shapes = shapes_.Freeze();
  snapshot->gangs = gangs_.Freeze();
  snapshot->holders = holders_.Freeze();
  return snapshot;
}

}  // namespace capstan::scheduler::round
