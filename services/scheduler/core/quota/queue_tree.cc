#include "services/scheduler/core/quota/queue_tree.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan::scheduler {
namespace {

ResourceNames NamesOf(const std::vector<QueueSpec>& queues, std::vector<std::string> names) {
  for (const QueueSpec& queue : queues) {
    for (const auto& [resource, quota] : queue.quotas) names.push_back(resource);
  }
  return ResourceNames(std::move(names));
}

// Positions of the queues in `queues`, by parent and then by id.
std::map<std::string, std::vector<int>> ByParent(const std::vector<QueueSpec>& queues) {
  std::map<std::string, std::vector<int>> by_parent;
  for (size_t i = 0; i < queues.size(); ++i) {
    by_parent[queues[i].parent].push_back(static_cast<int>(i));
  }
  for (auto& [parent, members] : by_parent) {
    std::sort(members.begin(), members.end(),
              [&queues](int a, int b) { return queues[a].id < queues[b].id; });
  }
  return by_parent;
}

int64_t Bound(const Limit& borrowing, int64_t guarantee) {
  return borrowing.has_amount() ? guarantee + borrowing.amount() : kNoBound;
}

int64_t Reserve(const Limit& lending, int64_t guarantee) {
  return lending.has_amount() ? std::max<int64_t>(0, guarantee - lending.amount()) : 0;
}

// What a node hands on to those below it that say nothing.
struct Inherited {
  Limit borrowing;
  Limit lending;
};

}  // namespace

QueueTree::QueueTree() : QueueTree({}, {}) {}

QueueTree::QueueTree(const std::vector<QueueSpec>& queues, std::vector<std::string> resources)
    : resources_(NamesOf(queues, std::move(resources))) {
  Link(queues);
}

void QueueTree::Link(const std::vector<QueueSpec>& queues) {
  const std::map<std::string, std::vector<int>> by_parent = ByParent(queues);
  nodes_.reserve(queues.size() + 1);
  std::vector<int> spec_of;
  // Depth first without recursion: a stack of (queue, parent's node).
  std::vector<std::pair<int, int>> stack = {{-1, -1}};
  while (!stack.empty()) {
    const auto [spec, parent] = stack.back();
    stack.pop_back();
    const int index = size();
    spec_of.push_back(spec);
    QueueNode& node = nodes_.emplace_back();
    node.parent = parent;
    if (spec >= 0) {
      node.id = queues[spec].id;
      node.weight = queues[spec].weight;
      node.depth = nodes_[parent].depth + 1;
      index_.emplace(node.id, index);
    }
    depth_ = std::max(depth_, node.depth);
    auto it = by_parent.find(node.id);
    if (it == by_parent.end()) continue;
    for (auto child = it->second.rbegin(); child != it->second.rend(); ++child) {
      stack.emplace_back(*child, index);
    }
  }
  for (int i = 0; i < size(); ++i) nodes_[i].end = i + 1;
  for (int i = size() - 1; i > 0; --i) {
    QueueNode& parent = nodes_[nodes_[i].parent];
    parent.end = std::max(parent.end, nodes_[i].end);
  }
  first_child_.reserve(size() + 1);
  for (int i = 0; i < size(); ++i) {
    first_child_.push_back(static_cast<int>(children_.size()));
    for (int c = i + 1; c < nodes_[i].end; c = nodes_[c].end) children_.push_back(c);
  }
  first_child_.push_back(static_cast<int>(children_.size()));

  for (int i = 1; i < size(); ++i) {
    for (const auto& [resource, quota] : queues[spec_of[i]].quotas) {
      if (!quota.guarantee.has_amount()) continue;
      const int r = resources_.Find(resource);
      nodes_[i].guarantee[r] = quota.guarantee.amount();
      nodes_[i].guarantee_set |= 1u << r;
    }
  }
  SumGuarantees();
  InheritSettings(queues, spec_of);
}

void QueueTree::SumGuarantees() {
  for (int i = size() - 1; i > 0; --i) {
    for (int r = 0; r < resource_count(); ++r) {
      if ((nodes_[i].guarantee_set & (1u << r)) != 0) continue;
      for (int c : children(i)) {
        nodes_[i].guarantee[r] += nodes_[c].guarantee[r];
        nodes_[i].guarantee_set |= nodes_[c].guarantee_set & (1u << r);
      }
    }
  }
}

void QueueTree::InheritSettings(const std::vector<QueueSpec>& queues,
                                const std::vector<int>& spec_of) {
  const int count = resource_count();
  std::vector<std::vector<Inherited>> inherited(size(), std::vector<Inherited>(count));
  for (int r = 0; r < kMaxResources; ++r) nodes_[kRoot].cap[r] = kNoBound;
  for (int i = 1; i < size(); ++i) {
    QueueNode& node = nodes_[i];
    const QueueNode& parent = nodes_[node.parent];
    const QueueSpec& spec = queues[spec_of[i]];
    inherited[i] = inherited[node.parent];
    for (const auto& [resource, quota] : spec.quotas) {
      Inherited& own = inherited[i][resources_.Find(resource)];
      if (quota.borrowing.set()) own.borrowing = quota.borrowing;
      if (quota.lending.set()) own.lending = quota.lending;
    }
    node.submit_rate = spec.submit_rate;
    node.start_rate = spec.start_rate;
    node.half_life = spec.half_life.value_or(parent.half_life);
    node.stops.drain = spec.stops.drain || parent.stops.drain;
    node.stops.hold = spec.stops.hold || parent.stops.hold || node.stops.drain;
    node.stops.cordon = spec.stops.cordon || parent.stops.cordon || node.stops.drain;
    for (int r = 0; r < kMaxResources; ++r) node.cap[r] = kNoBound;
    for (int r = 0; r < count; ++r) {
      node.cap[r] = Bound(inherited[i][r].borrowing, node.guarantee[r]);
      node.reserve[r] = node.stops.drain ? 0 : Reserve(inherited[i][r].lending, node.guarantee[r]);
    }
  }
}

int QueueTree::CommonAncestor(int a, int b) const {
  while (!contains(a, b)) a = nodes_[a].parent;
  return a;
}

absl::optional<int> QueueTree::Find(absl::string_view id) const {
  auto it = index_.find(id);
  if (it == index_.end()) return absl::nullopt;
  return it->second;
}

std::string QueueTree::Describe(int index) const {
  return index == kRoot ? "the fleet" : absl::StrCat("queue \"", nodes_[index].id, "\"");
}

}  // namespace capstan::scheduler
