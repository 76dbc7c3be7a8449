#include "services/scheduler/core/quota/filling.h"

#include <algorithm>

namespace capstan::scheduler {
namespace {

constexpr int kShareBits = 60;
constexpr Wide kWhole = Wide{1} << kShareBits;
// A share that nothing reaches.
constexpr uint64_t kFar = uint64_t{1} << 63;
constexpr int kDirectionBits = 46;
constexpr uint64_t kUnit = uint64_t{1} << kDirectionBits;

constexpr Wide CeilDiv(Wide a, Wide b) { return (a + b - 1) / b; }

// a / b in 2^-bits, rounded up; a <= b < 2^127.
Wide FractionUp(Wide a, Wide b, int bits) {
  if (a >= b) return Wide{1} << bits;
  Wide result = 0;
  for (int i = 0; i < bits; ++i) {
    a <<= 1;
    result <<= 1;
    if (a >= b) {
      a -= b;
      result |= 1;
    }
  }
  return result + (a > 0 ? 1 : 0);
}

// amount / capacity in 2^-60; kFar if it is more than a few capacities.
uint64_t ShareOf(int64_t amount, int64_t capacity, bool up) {
  if (amount == 0) return 0;
  if (amount == kNoBound || capacity == 0 || amount / capacity >= 4) return kFar;
  const Wide scaled = static_cast<Wide>(amount) << kShareBits;
  return static_cast<uint64_t>(up ? CeilDiv(scaled, capacity) : scaled / capacity);
}

// What a clock that moves by `passed` takes.
uint64_t Taken(Wide passed, uint64_t direction) {
  return static_cast<uint64_t>((passed * direction + kUnit - 1) >> kDirectionBits);
}

// How far a clock may move until `left` is taken.
Wide Until(uint64_t from, uint64_t to, uint64_t direction) {
  return from >= to ? 0 : (static_cast<Wide>(to - from) << kDirectionBits) / direction;
}

}  // namespace

Filling::Filling(const QueueTree& tree, const Resources& capacity,
                 const std::vector<Resources>& demand)
    : tree_(tree), capacity_(capacity), count_(tree.resource_count()), nodes_(tree.size()) {
  for (int i = tree.size() - 1; i >= 0; --i) {
    InitializeLimits(i);
    if (tree.leaf(i)) InitializeLeaf(i, demand[i]);
    if (i == QueueTree::kRoot) break;
    Node& parent = nodes_[tree.node(i).parent];
    for (int r = 0; r < count_; ++r) {
      // Reserves may add up to more than there is.
      const Wide sum =
          Wide{parent.claimed[r]} + std::max(nodes_[i].claimed[r], nodes_[i].reserve[r]);
      parent.claimed[r] = static_cast<uint64_t>(std::min(sum, Wide{kFar}));
    }
  }
}

void Filling::InitializeLimits(int index) {
  Node& node = nodes_[index];
  const QueueNode& queue = tree_.node(index);
  node.weight = static_cast<Wide>(queue.weight);
  for (int r = 0; r < count_; ++r) {
    // A guarantee of what the fleet does not have reserves nothing.
    node.reserve[r] = capacity_[r] == 0 ? 0 : ShareOf(queue.reserve[r], capacity_[r], true);
    if (node.reserve[r] == kFar) node.reserve[r] = static_cast<uint64_t>(kWhole);
    node.cap[r] = ShareOf(queue.cap[r], capacity_[r], false);
    if (index == QueueTree::kRoot) node.cap[r] = static_cast<uint64_t>(kWhole);
  }
}

void Filling::InitializeLeaf(int index, const Resources& demand) {
  Node& leaf = nodes_[index];
  int dominant = -1;
  Share share;
  for (int r = 0; r < count_; ++r) {
    // What needs something that is not there gets nothing.
    if (demand[r] > 0 && capacity_[r] == 0) return;
    if (const Share other = Share::Of(demand[r], capacity_[r]); other > share) {
      dominant = r;
      share = other;
    }
  }
  for (int r = count_; r < kMaxResources; ++r) {
    if (demand[r] > 0) return;
  }
  if (dominant < 0) return;
  leaf.whole = demand[dominant] <= capacity_[dominant];
  leaf.full = leaf.whole ? Wide{ShareOf(demand[dominant], capacity_[dominant], true)} : kWhole;
  for (int r = 0; r < count_; ++r) {
    if (demand[r] == 0) continue;
    leaf.use[r] = static_cast<uint64_t>(
        FractionUp(static_cast<Wide>(demand[r]) * capacity_[dominant],
                   static_cast<Wide>(demand[dominant]) * capacity_[r], kDirectionBits));
  }
  leaf.claim_growth = leaf.use;
}

uint64_t Filling::share(int leaf, int r) const {
  return static_cast<uint64_t>(nodes_[leaf].clock * nodes_[leaf].use[r] >> kDirectionBits);
}

void Filling::FillGuarantees(int depth) { Run(depth); }

void Filling::FillAll() { Run(0); }

void Filling::Run(int guarantee_depth) {
  SetBounds(guarantee_depth);
  for (int i = tree_.size() - 1; i >= 0; --i) {
    if (tree_.leaf(i)) nodes_[i].active = IsWanted(i, guarantee_depth);
    Prepare(i);
  }
  while (nodes_[QueueTree::kRoot].active) Handle(QueueTree::kRoot);
}

void Filling::SetBounds(int guarantee_depth) {
  for (int i = 0; i < tree_.size(); ++i) {
    const QueueNode& queue = tree_.node(i);
    nodes_[i].bound = nodes_[i].cap;
    if (guarantee_depth == 0 || queue.depth != guarantee_depth) continue;
    for (int r = 0; r < count_; ++r) {
      if ((queue.guarantee_set >> r & 1) == 0) continue;
      nodes_[i].bound[r] =
          std::min(nodes_[i].cap[r], ShareOf(queue.guarantee[r], capacity_[r], false));
    }
  }
}

bool Filling::IsWanted(int leaf, int guarantee_depth) const {
  const Node& node = nodes_[leaf];
  if (node.clock >= node.full) return false;
  if (guarantee_depth == 0) return true;
  int at = leaf;
  while (tree_.node(at).depth > guarantee_depth) at = tree_.node(at).parent;
  if (tree_.node(at).depth != guarantee_depth) return false;
  for (int r = 0; r < count_; ++r) {
    if ((tree_.node(at).guarantee_set >> r & 1) != 0 && node.use[r] > 0) return true;
  }
  return false;
}

void Filling::Prepare(int index) {
  Node& node = nodes_[index];
  node.growing = node.counted = node.queued = false;
  node.counted_use = node.counted_growth = {};
  if (!tree_.leaf(index)) {
    node.level = 0;
    node.growing_children = 0;
    node.use_sum = node.claim_sum = {};
    node.queue.clear();
    for (int child : tree_.children(index)) Recount(index, child);
    Settle(index);
  }
  SetNext(index);
}

void Filling::Handle(int index) {
  Node& node = nodes_[index];
  const Event event = node.next;
  BringUpTo(node, event.at);
  switch (event.kind) {
    case EventKind::kNone:
      break;
    case EventKind::kFull:
      StopLeaf(node);
      break;
    case EventKind::kUsedUp:
      StopUsers(index, event.which, false);
      break;
    case EventKind::kFleetUsed:
      StopUsers(index, event.which, true);
      break;
    case EventKind::kReserveUsed:
      node.claimed[event.which] = std::max(node.claimed[event.which], node.reserve[event.which]);
      break;
    case EventKind::kChild: {
      Node& child = nodes_[event.which];
      // What rounding left between the two clocks.
      node.level = std::max(node.level, child.queued_at);
      if (child.growing) {
        Handle(event.which);
      } else {
        Join(index, event.which);
      }
      Recount(index, event.which);
      break;
    }
  }
  Settle(index);
  SetNext(index);
}

void Filling::BringUpTo(Node& node, Wide clock) {
  if (clock <= node.clock) return;
  const Wide passed = clock - node.clock;
  for (int r = 0; r < count_; ++r) {
    node.claimed[r] += Taken(passed, node.claim_growth[r]);
    if (&node == nodes_.data()) fleet_used_[r] += Taken(passed, node.use[r]);
  }
  if (node.pace > 0) node.level += (passed << kDirectionBits) / node.pace;
  node.clock = clock;
}

void Filling::StopLeaf(Node& leaf) {
  leaf.active = false;
  leaf.clock = std::min(leaf.clock, leaf.full);
}

void Filling::StopUsers(int index, int r, bool reserved) {
  if (tree_.leaf(index)) {
    StopLeaf(nodes_[index]);
    return;
  }
  for (int child : tree_.children(index)) {
    Node& node = nodes_[child];
    if (!node.active || !node.growing) continue;
    if ((reserved ? node.use[r] : Passing(node, r)) == 0) continue;
    BringUpTo(node, node.weight * nodes_[index].level);
    StopUsers(child, r, reserved);
    Settle(child);
    SetNext(child);
    Recount(index, child);
  }
}

void Filling::Join(int parent, int child) {
  Node& node = nodes_[child];
  // Less than one unit of the level: what rounding up to a whole one adds.
  node.clock = std::max(node.clock, node.weight * nodes_[parent].level);
  node.growing = true;
  SetNext(child);
}

void Filling::Recount(int parent_index, int child_index) {
  Node& parent = nodes_[parent_index];
  Node& child = nodes_[child_index];
  if (child.queued) parent.queue.erase({child.queued_at, child_index});
  if (child.counted) --parent.growing_children;
  child.queued = child.active;
  child.growing = child.growing && child.active;
  for (int r = 0; r < count_; ++r) {
    const uint64_t use = child.growing ? child.use[r] : 0;
    const uint64_t growth = child.growing ? Passing(child, r) : 0;
    parent.use_sum[r] += child.weight * use - child.weight * child.counted_use[r];
    parent.claim_sum[r] += child.weight * growth - child.weight * child.counted_growth[r];
    child.counted_use[r] = use;
    child.counted_growth[r] = growth;
  }
  child.counted = child.growing;
  if (child.counted) ++parent.growing_children;
  if (!child.active) return;
  child.queued_at = CeilDiv(child.growing ? child.next.at : child.clock, child.weight);
  parent.queue.emplace(child.queued_at, child_index);
}

void Filling::Settle(int index) {
  Node& node = nodes_[index];
  if (tree_.leaf(index)) return;
  if (node.growing_children == 0 && !node.queue.empty()) {
    node.level = std::max(node.level, node.queue.begin()->first);
    while (!node.queue.empty() && node.queue.begin()->first <= node.level) {
      const int child = node.queue.begin()->second;
      if (nodes_[child].growing) break;
      Join(index, child);
      Recount(index, child);
    }
  }
  node.active = node.growing_children > 0;
  if (node.active) SetDirection(node);
}

void Filling::SetDirection(Node& node) {
  node.pace = 0;
  for (int r = 0; r < count_; ++r) node.pace = std::max(node.pace, node.use_sum[r]);
  for (int r = 0; r < count_; ++r) {
    node.use[r] = static_cast<uint64_t>(CeilDiv(node.use_sum[r] << kDirectionBits, node.pace));
    node.claim_growth[r] =
        static_cast<uint64_t>(CeilDiv(node.claim_sum[r] << kDirectionBits, node.pace));
  }
}

void Filling::SetNext(int index) {
  Node& node = nodes_[index];
  node.next = Event();
  if (!node.active) return;
  if (tree_.leaf(index)) {
    node.next = {EventKind::kFull, 0, node.full};
  } else {
    const auto& [level, child] = *node.queue.begin();
    const Wide wait = level > node.level ? level - node.level : 0;
    node.next = {EventKind::kChild, child,
                 node.clock + ((wait * node.pace + kUnit - 1) >> kDirectionBits)};
  }
  OfferLimits(node, node.next);
}

void Filling::OfferLimits(const Node& node, Event& next) const {
  const auto offer = [&](EventKind kind, int r, Wide wait) {
    if (node.clock + wait < next.at) next = {kind, r, node.clock + wait};
  };
  for (int r = 0; r < count_; ++r) {
    if (&node == nodes_.data() && node.use[r] > 0) {
      const Wide wait = Until(fleet_used_[r], static_cast<uint64_t>(kWhole), node.use[r]);
      offer(EventKind::kFleetUsed, r, wait);
    }
    if (node.claim_growth[r] == 0) continue;
    if (node.claimed[r] < node.reserve[r]) {
      // One more than rounded down: then it surely is used.
      offer(EventKind::kReserveUsed, r,
            Until(node.claimed[r], node.reserve[r], node.claim_growth[r]) + 1);
    }
    offer(EventKind::kUsedUp, r, Until(node.claimed[r], node.bound[r], node.claim_growth[r]));
  }
}

}  // namespace capstan::scheduler
