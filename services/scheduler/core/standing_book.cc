#include "services/scheduler/core/standing_book.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::scheduler {

void StandingBook::Take(const Scene& scene, std::vector<NodeStanding>* standings,
                        std::vector<NodeCapacity>* capacities) {
  Renew(scene);
  *standings = std::move(standings_);
  *capacities = std::move(capacities_);
}

void StandingBook::GiveBack(std::vector<NodeStanding> standings,
                            std::vector<NodeCapacity> capacities,
                            const std::vector<int>& disturbed) {
  standings_ = std::move(standings);
  capacities_ = std::move(capacities);
  for (int at : disturbed) changed_.insert(standings_[at].capacity.id);
}

const std::vector<NodeStanding>& StandingBook::Look(const Scene& scene) {
  Renew(scene);
  return standings_;
}

std::vector<StandingBook::Order> StandingBook::OrdersOf(const Model& model) {
  std::vector<Order> orders;
  for (const auto& [id, record] : model.capacity_orders) {
    orders.emplace_back(id, record.order().cluster(), record.used(), record.nominee_uid());
  }
  return orders;
}

void StandingBook::AddDifference(const std::set<NodeId>& before, const std::set<NodeId>& after) {
  std::set_symmetric_difference(before.begin(), before.end(), after.begin(), after.end(),
                                std::inserter(changed_, changed_.end()));
}

void StandingBook::Renew(const Scene& scene) {
  std::vector<Order> orders = OrdersOf(scene.model);
  const bool has_windows = !scene.model.maintenance_windows.empty();
  all_changed_ = all_changed_ || has_windows || had_windows_ || orders != orders_ ||
                 standings_.size() != scene.model.nodes.size();
  if (!all_changed_) {
    AddDifference(draining_, scene.draining);
    AddDifference(unreported_, scene.unreported);
  }
  orders_ = std::move(orders);
  had_windows_ = has_windows;
  if (draining_ != scene.draining) draining_ = scene.draining;
  if (unreported_ != scene.unreported) unreported_ = scene.unreported;
  const std::set<NodeId> changed = std::exchange(changed_, {});
  bool sums_change = all_changed_;
  for (auto id = changed.begin(); !all_changed_ && id != changed.end(); ++id) {
    sums_change = RenewOne(scene, *id) || sums_change;
  }
  if (std::exchange(all_changed_, false)) RenewAll(scene);
  if (sums_change) SumUp(scene.model);
}

void StandingBook::RenewAll(const Scene& scene) {
  standings_.clear();
  standings_.reserve(scene.model.nodes.size());
  capacities_.clear();
  capacities_.reserve(scene.model.nodes.size());
  for (const auto& [id, node] : scene.model.nodes) {
    standings_.push_back(Find(scene, id, node));
    capacities_.push_back(standings_.back().capacity);
  }
}

bool StandingBook::RenewOne(const Scene& scene, const NodeId& id) {
  const int at = PositionOf(standings_, id);
  if (at < 0) return false;
  NodeStanding standing = Find(scene, id, scene.model.nodes.at(id));
  const NodeCapacity& before = standings_[at].capacity;
  const bool sums_change = standing.capacity.eligible != before.eligible ||
                           standing.capacity.revision != before.revision;
  standings_[at] = std::move(standing);
  capacities_[at] = standings_[at].capacity;
  return sums_change;
}

NodeStanding StandingBook::Find(const Scene& scene, const NodeId& id,
                                const rec::NodeRecord& node) const {
  NodeStanding standing =
      StandingOf(scene.model, scene.usage, id, node, scene.draining.count(id) > 0,
                 scene.unreported.count(id) > 0, scene.now);
  const auto revision = revisions_.find(id);
  standing.capacity.revision = 1 + (revision == revisions_.end() ? 0 : revision->second);
  return standing;
}

void StandingBook::SumUp(const Model& model) {
  usable_ = {};
  accelerators_.clear();
  auto standing = standings_.begin();
  for (const auto& [id, node] : model.nodes) {
    AddAccelerators(node.observation(), &accelerators_);
    if ((standing++)->capacity.eligible) usable_.Add(AllocatableOf(node.observation()));
  }
}

}  // namespace capstan::scheduler
