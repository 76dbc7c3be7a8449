#include "services/scheduler/core/kept_fleet.h"

#include <algorithm>
#include <tuple>

namespace capstan::scheduler {
namespace {

using round::GangIndex;
using round::NodeIndex;

// Kinds of gang that are remembered: a round asks about some new ones, and each has an index of all
// Nodes for as long as they stay the same.
constexpr size_t kMostShapes = 4096;

bool IsSame(const round::NodeTraits& a, const round::NodeTraits& b) {
  const auto same_taint = [](const round::Taint& x, const round::Taint& y) {
    return x.key == y.key && x.value == y.value;
  };
  return a.path == b.path && a.labels == b.labels && a.allocatable == b.allocatable &&
         std::equal(a.taints.begin(), a.taints.end(), b.taints.begin(), b.taints.end(), same_taint);
}

}  // namespace

KeptFleet::KeptFleet(const std::vector<NodeCapacity>& nodes, const std::vector<HeldGang>& held,
                     const std::set<std::string>* label_keys)
    : placing_fleet_(nodes, held, label_keys), may_be_kept_(!placing_fleet_.has_closures()) {
  const std::vector<bool> movable = Movable(nodes, held);
  for (const NodeCapacity& node : nodes) {
    nodes_.push_back({node.id, node.reported, node.revision, node.only_submitter, node.order,
                      node.avoided, node.free, node.free});
  }
  for (size_t i = 0; i < held.size(); ++i) {
    held_.push_back(HeldFrom(held[i], movable[i]));
    if (!movable[i]) continue;
    for (const auto& [node, amounts] : held[i].shares) nodes_[node].allocatable.Add(amounts);
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    fleet().AddNode(placing_fleet_.TraitsOf(nodes[n], nodes_[n].allocatable));
  }
  for (size_t i = 0; i < held.size(); ++i) {
    if (!movable[i] || held[i].shares.empty()) continue;
    held_[i].gang = Hold(held[i]);
    may_be_kept_ = may_be_kept_ && held_[i].gang.has_value();
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    fleet().SetSchedulable(static_cast<NodeIndex>(n), nodes[n].eligible);
  }
  NumberHeld();
}

bool KeptFleet::Follow(const std::vector<NodeCapacity>& nodes, const std::vector<HeldGang>& held,
                       const std::set<std::string>* label_keys) {
  if (!MayFollow(nodes, label_keys)) return false;
  const std::vector<bool> movable = Movable(nodes, held);
  // What goes leaves room for what comes, and what Nodes have in all is known once both are.
  const std::vector<size_t> added = FollowHeld(held, movable);
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!FollowNode(n, nodes[n])) return false;
  }
  for (size_t i : added) {
    if (!Add(held[i], &held_[i])) return false;
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    fleet().SetSchedulable(static_cast<NodeIndex>(n), nodes[n].eligible);
  }
  placing_fleet_.SetLongestGrace(held);
  NumberHeld();
  return true;
}

KeptFleet::Held KeptFleet::HeldFrom(const HeldGang& gang, bool is_movable) {
  return {gang.uid,   gang.is_spare, gang.revision, gang.priority, gang.preemptible && !gang.ending,
          is_movable, gang.shares,   absl::nullopt};
}

bool KeptFleet::IsSame(const Held& kept, const HeldGang& gang, bool is_movable) {
  return kept.revision == gang.revision && kept.priority == gang.priority &&
         kept.may_end == (gang.preemptible && !gang.ending) && kept.is_movable == is_movable &&
         !kept.is_disturbed;
}

std::vector<bool> KeptFleet::Movable(const std::vector<NodeCapacity>& nodes,
                                     const std::vector<HeldGang>& held) {
  std::vector<bool> movable(held.size(), true);
  std::vector<bool> is_short(nodes.size());
  bool any_short = false;
  for (size_t n = 0; n < nodes.size(); ++n) {
    is_short[n] = nodes[n].free.AnyBelowZero();
    any_short = any_short || is_short[n];
  }
  if (!any_short) return movable;
  for (size_t i = 0; i < held.size(); ++i) {
    movable[i] = std::none_of(held[i].shares.begin(), held[i].shares.end(),
                              [&](const auto& share) { return is_short[share.first]; });
  }
  for (size_t i = 1; i < held.size(); ++i) {
    if (held[i].is_spare) movable[i] = movable[i - 1] = movable[i] && movable[i - 1];
  }
  return movable;
}

bool KeptFleet::IsReportedAnew(const Node& kept, const NodeCapacity& node) {
  return node.revision == 0 || kept.revision != node.revision || kept.reported != node.reported;
}

bool KeptFleet::MayFollow(const std::vector<NodeCapacity>& nodes,
                          const std::set<std::string>* label_keys) const {
  if (!may_be_kept_ || nodes.size() != nodes_.size() || !placing_fleet_.KnowsLabels(label_keys) ||
      placing_fleet_.shapes() > kMostShapes) {
    return false;
  }
  bool any_reported = false;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes_[n].id != nodes[n].id || !nodes[n].closures.empty()) return false;
    any_reported = any_reported || IsReportedAnew(nodes_[n], nodes[n]);
  }
  return !any_reported || placing_fleet_.HasTaintKeysOf(nodes);
}

std::vector<size_t> KeptFleet::FollowHeld(const std::vector<HeldGang>& held,
                                          const std::vector<bool>& movable) {
  std::vector<size_t> added;
  std::vector<Held> old = std::exchange(held_, {});
  held_.reserve(held.size());
  size_t k = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    const auto name = std::tie(held[i].uid, held[i].is_spare);
    // Of those whose shares are not known to be the same none is kept: they are in no order.
    const bool is_known = held[i].revision != 0;
    while (is_known && k < old.size() &&
           (old[k].revision == 0 || std::tie(old[k].uid, old[k].is_spare) < name)) {
      Drop(old[k++]);
    }
    if (is_known && k < old.size() && std::tie(old[k].uid, old[k].is_spare) == name) {
      Held& same = old[k++];
      if (IsSame(same, held[i], movable[i])) {
        held_.push_back(std::move(same));
        continue;
      }
      Drop(same);
    }
    held_.push_back(HeldFrom(held[i], movable[i]));
    if (movable[i] && !held[i].shares.empty()) added.push_back(i);
  }
  while (k < old.size()) Drop(old[k++]);
  for (size_t i : added) {
    for (const auto& [node, amounts] : held[i].shares) nodes_[node].free.Subtract(amounts);
  }
  return added;
}

void KeptFleet::Drop(const Held& held) {
  if (!held.gang.has_value()) return;
  fleet().RemoveGang(*held.gang);
  for (const auto& [node, amounts] : held.shares) nodes_[node].free.Add(amounts);
}

bool KeptFleet::FollowNode(size_t at, const NodeCapacity& node) {
  Node& kept = nodes_[at];
  const bool is_free_other = kept.free != node.free;
  if (!is_free_other && !kept.is_disturbed && !IsReportedAnew(kept, node) &&
      kept.only_submitter == node.only_submitter && kept.order == node.order &&
      kept.avoided == node.avoided) {
    return true;
  }
  if (is_free_other) {
    if (!kept.free.mig.empty() || !node.free.mig.empty()) return false;
    if (!placing_fleet_.KnowsAll(node.free.accelerators)) return false;
    kept.allocatable.Add(node.free);
    kept.allocatable.Subtract(kept.free);
  }
  round::NodeTraits traits = placing_fleet_.TraitsOf(node, kept.allocatable);
  const NodeIndex index = static_cast<NodeIndex>(at);
  if (!scheduler::IsSame(*fleet().node(index).traits, traits)) {
    fleet().ReplaceNode(index, std::move(traits));
  }
  Amounts allocatable = std::move(kept.allocatable);
  kept = {node.id,    node.reported, node.revision, node.only_submitter,
          node.order, node.avoided,  node.free,     std::move(allocatable)};
  return true;
}

bool KeptFleet::Add(const HeldGang& gang, Held* held) {
  for (const auto& [node, amounts] : gang.shares) {
    if (!placing_fleet_.KnowsAll(amounts.accelerators)) return false;
    fleet().SetSchedulable(static_cast<NodeIndex>(node), true);
  }
  held->gang = Hold(gang);
  return held->gang.has_value();
}

absl::optional<GangIndex> KeptFleet::Hold(const HeldGang& gang) {
  std::vector<round::TaskRun> runs;
  const absl::optional<round::ShapeId> id = placing_fleet_.ShapeOfHeld(gang.shares, &runs);
  if (!id.has_value()) return absl::nullopt;
  round::Gang entry;
  entry.shape = *id;
  entry.priority = gang.priority;
  entry.preemptible = gang.preemptible && !gang.ending;
  const GangIndex index = fleet().AddGang(entry);
  if (!fleet().Start(index, std::move(runs), kRoundStart).ok()) {
    fleet().RemoveGang(index);
    return absl::nullopt;
  }
  return index;
}

void KeptFleet::Disturb(GangIndex gang) {
  if (gang < held_of_.size() && held_of_[gang] >= 0) held_[held_of_[gang]].is_disturbed = true;
}

void KeptFleet::NumberHeld() {
  gangs_.clear();
  held_of_.clear();
  for (size_t i = 0; i < held_.size(); ++i) {
    const absl::optional<GangIndex>& gang = held_[i].gang;
    gangs_.push_back(gang);
    if (!gang.has_value()) continue;
    if (held_of_.size() <= *gang) held_of_.resize(*gang + 1, -1);
    held_of_[*gang] = static_cast<int>(i);
  }
}

}  // namespace capstan::scheduler
