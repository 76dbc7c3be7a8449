#include "services/scheduler/core/placing_fleet.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/mig/profiles.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/gang_sizes.h"
#include "services/scheduler/core/group_tree.h"
#include "services/scheduler/core/node_terms.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::NodeRequirement;
using capstan::scheduler::v1::Toleration;

namespace {

// Names that a Node's own labels and taints cannot have.
constexpr char kClusterLabel[] = "/cluster";
constexpr char kNodeLabel[] = "/node";
constexpr char kSubmitterTaint[] = "/submitter";
constexpr char kOrderTaint[] = "/order";
// Nodes that are closed at the same times have the same number.
constexpr char kClosuresLabel[] = "/closures";
// Of which it is remembered what they are.
constexpr size_t kMostKinds = 4096;

// No label has it.
constexpr char kNoValue[] = "/";

std::set<std::string> TaintKeysOf(const std::vector<NodeCapacity>& nodes) {
  std::set<std::string> keys;
  for (const NodeCapacity& node : nodes) {
    if (node.reported == nullptr) continue;
    for (const auto& taint : node.reported->taints()) keys.insert(taint.key());
  }
  return keys;
}

std::string NodeLabel(const NodeId& id) { return absl::StrCat(id.cluster, "/", id.node); }

round::SelectorTerm TermOf(const NodeRequirement& requirement) {
  round::SelectorTerm term;
  term.key = requirement.key();
  term.values.assign(requirement.values().begin(), requirement.values().end());
  const NodeRequirement::Operator op = requirement.operator_();
  term.negated =
      op == NodeRequirement::OPERATOR_NOT_IN || op == NodeRequirement::OPERATOR_DOES_NOT_EXIST;
  // Of a version that knows more: no Node is known to be so.
  const bool is_known =
      NodeRequirement::Operator_IsValid(op) && op != NodeRequirement::OPERATOR_UNSPECIFIED;
  if (!is_known) term.values = {kNoValue};
  return term;
}

}  // namespace

PlacingFleet::PlacingFleet(const std::vector<NodeCapacity>& nodes,
                           const std::vector<HeldGang>& held,
                           const std::set<std::string>* label_keys) {
  InternAccelerators(nodes, held);
  if (label_keys != nullptr) label_keys_ = *label_keys;
  taint_keys_ = TaintKeysOf(nodes);
  for (const NodeCapacity& node : nodes) {
    std::vector<std::pair<int, int>>& gpus = gpus_.emplace_back();
    if (node.free.mig.empty()) continue;
    for (const MigGpuState& gpu : node.free.mig.Gpus()) gpus.emplace_back(gpu.gpu, gpu.model);
  }
  for (const NodeCapacity& node : nodes) {
    if (node.closures.empty()) continue;
    if (std::find(calendars_.begin(), calendars_.end(), node.closures) == calendars_.end()) {
      calendars_.push_back(node.closures);
    }
  }
  SetLongestGrace(held);
}

bool PlacingFleet::KnowsLabels(const std::set<std::string>* label_keys) const {
  if (!label_keys_.has_value()) return true;
  return label_keys != nullptr && std::includes(label_keys_->begin(), label_keys_->end(),
                                                label_keys->begin(), label_keys->end());
}

bool PlacingFleet::KnowsAll(const AcceleratorCounts& accelerators) const {
  return std::all_of(accelerators.begin(), accelerators.end(), [this](const auto& entry) {
    return fleet_.dimensions().Find(entry.first) >= 0;
  });
}

bool PlacingFleet::HasTaintKeysOf(const std::vector<NodeCapacity>& nodes) const {
  return TaintKeysOf(nodes) == taint_keys_;
}

void PlacingFleet::SetLongestGrace(const std::vector<HeldGang>& held) {
  longest_grace_ = absl::ZeroDuration();
  for (const HeldGang& gang : held) {
    if (gang.preemptible || gang.ending) longest_grace_ = std::max(longest_grace_, gang.grace);
  }
}

void PlacingFleet::InternAccelerators(const std::vector<NodeCapacity>& nodes,
                                      const std::vector<HeldGang>& held) {
  std::set<std::string> accelerators;
  for (const NodeCapacity& node : nodes) {
    for (const auto& [name, count] : node.free.accelerators) accelerators.insert(name);
  }
  for (const HeldGang& gang : held) {
    for (const auto& [node, amounts] : gang.shares) {
      for (const auto& [name, count] : amounts.accelerators) accelerators.insert(name);
    }
  }
  std::map<std::string, int> parts_of;
  for (const mig::DeviceModel& model : mig::DeviceModels()) {
    parts_of[mig::SliceResource(model)] = model.memory_slices;
  }
  for (const std::string& name : accelerators) {
    const auto parts = parts_of.find(name);
    const int made_of = parts == parts_of.end() ? 1 : parts->second;
    if (!fleet_.dimensions().Intern(name, made_of).ok()) break;
  }
}

round::InstancePlace PlacingFleet::PlaceOf(int node, const MigSpot& spot) const {
  const auto found =
      std::find(gpus_[node].begin(), gpus_[node].end(), std::make_pair(spot.gpu, spot.model));
  if (found == gpus_[node].end()) return {};
  return {static_cast<int16_t>(found - gpus_[node].begin()), static_cast<int16_t>(spot.position)};
}

absl::optional<MigSpot> PlacingFleet::SpotOf(const round::TaskRun& run) const {
  if (!run.instance.is_one()) return absl::nullopt;
  const auto& [gpu, model] = gpus_[run.node][run.instance.gpu];
  return MigSpot{gpu, model, run.instance.position};
}

GangRequest PlacingFleet::WithDelay(GangRequest gang) const {
  gang.duration += longest_grace_;
  gang.kind = 0;
  return gang;
}

std::string PlacingFleet::Openings(const GangRequest& gang) const {
  if (calendars_.empty()) return "";
  return absl::StrCat("|", absl::StrJoin(ClosedTo(gang, absl::ZeroDuration()), ","), "|",
                      absl::StrJoin(ClosedTo(WithDelay(gang), absl::ZeroDuration()), ","));
}

std::vector<std::string> PlacingFleet::ClosedTo(const GangRequest& gang,
                                                absl::Duration start) const {
  std::vector<std::string> closed;
  NodeCapacity node;
  for (size_t c = 0; c < calendars_.size(); ++c) {
    node.closures = calendars_[c];
    if (!node.IsOpen(start, gang.duration)) closed.push_back(absl::StrCat(c));
  }
  return closed;
}

std::vector<std::pair<absl::Duration, round::ShapeId>> PlacingFleet::ShapesByStart(
    const GangRequest& gang) {
  std::set<absl::Duration> starts = {absl::ZeroDuration()};
  for (const std::vector<Closure>& calendar : calendars_) {
    for (const Closure& closure : calendar) {
      // It may still begin when it is over just as the Node closes.
      const absl::Duration too_late = closure.from - gang.duration + absl::Nanoseconds(1);
      if (too_late > absl::ZeroDuration()) starts.insert(too_late);
      if (closure.until > absl::ZeroDuration()) starts.insert(closure.until);
    }
  }
  std::vector<std::pair<absl::Duration, round::ShapeId>> shapes;
  for (const absl::Duration start : starts) {
    shapes.emplace_back(start, *ShapeOf(gang, LeastSizes(gang), start));
  }
  return shapes;
}

round::NodeTraits PlacingFleet::TraitsOf(const NodeCapacity& node,
                                         const Amounts& allocatable) const {
  round::NodeTraits traits;
  traits.path = {
      node.id.cluster,    node.topology.region, node.topology.zone,          node.topology.row,
      node.topology.rail, node.topology.rack,   node.topology.nvlink_domain, node.id.node};
  traits.labels = {{kClusterLabel, node.id.cluster}};
  // Nodes that differ in their labels are looked at one by one: only those that somebody avoids.
  if (node.avoided) traits.labels.insert({kNodeLabel, NodeLabel(node.id)});
  if (!node.closures.empty()) {
    const auto calendar = std::find(calendars_.begin(), calendars_.end(), node.closures);
    traits.labels.insert({kClosuresLabel, absl::StrCat(calendar - calendars_.begin())});
  }
  if (node.only_submitter.has_value()) {
    traits.taints.push_back({kSubmitterTaint, *node.only_submitter});
  }
  if (!node.order.empty()) traits.taints.push_back({kOrderTaint, node.order});
  if (node.reported != nullptr) AddReported(node, &traits);
  traits.allocatable[round::kCpuMillis] = allocatable.cpu_millis;
  traits.allocatable[round::kMemoryBytes] = allocatable.memory_bytes;
  for (const auto& [name, count] : allocatable.accelerators) {
    const int dimension = fleet_.dimensions().Find(name);
    if (dimension >= 0) traits.allocatable[dimension] = count;
  }
  if (allocatable.mig.empty()) return traits;
  for (const MigGpuState& gpu : allocatable.mig.Gpus()) {
    traits.gpus.push_back({gpu.model, gpu.instances});
  }
  return traits;
}

void PlacingFleet::AddReported(const NodeCapacity& node, round::NodeTraits* traits) const {
  const NodeLabels& labels = node.reported->labels();
  if (label_keys_.has_value()) {
    for (const std::string& key : *label_keys_) {
      const auto label = labels.find(key);
      if (label != labels.end()) traits->labels.emplace(key, label->second);
    }
  } else {
    for (const auto& [key, value] : labels) traits->labels.emplace(key, value);
  }
  for (const auto& taint : node.reported->taints()) {
    traits->taints.push_back({taint.key(), taint.value()});
  }
}

void PlacingFleet::TakeForOne(round::NodeIndex node, const std::string& submitter) {
  round::NodeTraits traits = *fleet_.node(node).traits;
  traits.taints.push_back({kSubmitterTaint, submitter});
  fleet_.ReplaceNode(node, std::move(traits));
}

round::Request PlacingFleet::RequestOf(const Amounts& amounts) const {
  round::Request request = {{round::kCpuMillis, amounts.cpu_millis},
                            {round::kMemoryBytes, amounts.memory_bytes}};
  for (const auto& [name, count] : amounts.accelerators) {
    const int dimension = fleet_.dimensions().Find(name);
    if (dimension >= 0) request.push_back({static_cast<round::Dimension>(dimension), count});
  }
  return request;
}

absl::optional<round::ShapeId> PlacingFleet::ShapeOf(const GangRequest& gang) {
  if (gang.kind == 0) return ShapeOf(gang, LeastSizes(gang));
  if (least_shapes_.size() >= kMostKinds && !least_shapes_.contains(gang.kind)) {
    least_shapes_.clear();
  }
  const auto [known, is_new] = least_shapes_.try_emplace(gang.kind);
  if (is_new) known->second = ShapeOf(gang, LeastSizes(gang));
  return known->second;
}

round::Constraints PlacingFleet::ConstraintsOf(const GangRequest& gang,
                                               absl::Duration start) const {
  round::Constraints constraints;
  constraints.tolerations = {{kSubmitterTaint, false, gang.submitter}};
  for (const std::string& order : gang.orders) {
    constraints.tolerations.push_back({kOrderTaint, false, order});
  }
  for (const Toleration& toleration : gang.tolerations) {
    if (!toleration.key().empty()) {
      constraints.tolerations.push_back(
          {toleration.key(), toleration.any_value(), toleration.value()});
      continue;
    }
    // Of every taint that Nodes have themselves: not of those that are ours.
    for (const std::string& key : taint_keys_) {
      constraints.tolerations.push_back({key, toleration.any_value(), toleration.value()});
    }
  }
  if (!gang.clusters.empty()) {
    constraints.selector = {{kClusterLabel, {gang.clusters.begin(), gang.clusters.end()}, false}};
  }
  if (!gang.avoided.empty()) {
    round::SelectorTerm& term = constraints.selector.emplace_back();
    term.key = kNodeLabel;
    for (const NodeId& id : gang.avoided) term.values.push_back(NodeLabel(id));
    term.negated = true;
  }
  if (std::vector<std::string> closed = ClosedTo(gang, start); !closed.empty()) {
    round::SelectorTerm& term = constraints.selector.emplace_back();
    term.key = kClosuresLabel;
    term.values = std::move(closed);
    term.negated = true;
  }
  for (const NodeRequirement& requirement : gang.node_requirements) {
    constraints.selector.push_back(TermOf(requirement));
  }
  return constraints;
}

absl::optional<round::ShapeId> PlacingFleet::ShapeOf(const GangRequest& gang,
                                                     const std::vector<int>& sizes,
                                                     absl::Duration start) {
  for (const GangRequest::Group& group : gang.groups) {
    for (const auto& [name, count] : group.each.accelerators) {
      if (fleet_.dimensions().Find(name) < 0) return absl::nullopt;
    }
  }
  const round::Constraints constraints = ConstraintsOf(gang, start);
  round::GangShape shape = TreeOf(gang, sizes, [&](const GangRequest::Group& group) {
    if (group.node_requirements.empty()) {
      return fleet_.InternClass(constraints, RequestOf(group.each), group.each.mig.ask());
    }
    round::Constraints own = constraints;
    for (const NodeRequirement& requirement : group.node_requirements) {
      own.selector.push_back(TermOf(requirement));
    }
    return fleet_.InternClass(own, RequestOf(group.each), group.each.mig.ask());
  });
  const auto id = fleet_.InternShape(std::move(shape));
  if (!id.ok()) return absl::nullopt;
  return *id;
}

round::ClassId PlacingFleet::ClassOfShare(const Amounts& share) {
  if (!share.mig.empty()) {
    Amounts numbers = share;
    numbers.mig = {};
    return ClassOfShare(numbers);
  }
  if (!last_share_.has_value() || last_share_->first != share) {
    last_share_.emplace(share, fleet_.InternClass({}, RequestOf(share)));
  }
  return last_share_->second;
}

absl::optional<round::ShapeId> PlacingFleet::ShapeOfHeld(
    const std::vector<std::pair<int, Amounts>>& shares, std::vector<round::TaskRun>* runs) {
  using Part = std::pair<int, round::InstancePlace>;
  std::vector<std::pair<round::ClassId, std::vector<Part>>> groups;
  const auto add = [&groups](round::ClassId id, const Part& part) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [id](const auto& group) { return group.first == id; });
    if (same == groups.end()) {
      groups.push_back({id, {part}});
    } else {
      same->second.push_back(part);
    }
  };
  for (const auto& [node, amounts] : shares) {
    add(ClassOfShare(amounts), {node, {}});
    if (amounts.mig.empty()) continue;
    // Each instance as a Task of its own that takes nothing else.
    for (const MigSpot& spot : amounts.mig.Instances()) {
      const round::InstancePlace place = PlaceOf(node, spot);
      if (place.is_one()) add(fleet_.InternClass({}, {}), {node, place});
    }
  }
  if (groups.empty()) return absl::nullopt;
  const bool is_one = groups.size() == 1;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const auto& [node, place] : groups[g].second) {
      runs->push_back({static_cast<round::NodeIndex>(node),
                       static_cast<int32_t>(is_one ? g : g + 1), 1, place});
    }
  }
  const auto kind = std::make_pair(groups[0].first, groups[0].second.size());
  if (is_one) {
    const auto known = held_shapes_.find(kind);
    if (known != held_shapes_.end()) return known->second;
  }
  round::GangShape shape;
  if (!is_one) shape.groups.emplace_back();
  for (const auto& [id, parts] : groups) {
    round::GangShape::Group leaf;
    leaf.parent = is_one ? -1 : 0;
    leaf.task_class = id;
    leaf.min = leaf.max = static_cast<int>(parts.size());
    shape.groups.push_back(leaf);
  }
  const auto id = fleet_.InternShape(std::move(shape));
  if (!id.ok()) return absl::nullopt;
  if (is_one) held_shapes_.emplace(kind, *id);
  return *id;
}

}  // namespace capstan::scheduler
