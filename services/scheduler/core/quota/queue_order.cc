#include "services/scheduler/core/quota/queue_order.h"

#include <algorithm>
#include <utility>

namespace capstan::scheduler {
namespace {

// Of what there is nothing now, none was ever used: else who used it last, and nobody else, would
// come behind all others for work that does not need it.
Resources Scaled(const UsageHistory& history, int64_t permille, const Resources& capacity) {
  Resources scaled;
  for (int r = 0; r < kMaxResources; ++r) {
    if (capacity[r] <= 0) continue;
    scaled[r] = static_cast<int64_t>(static_cast<Wide>(history.average[r]) * permille / 1000);
  }
  return scaled;
}

// Never: no round starts so many.
constexpr int64_t kForRound = INT64_MAX;

}  // namespace

QueueOrder::QueueOrder(const Inputs& inputs)
    : tree_(inputs.usage.tree()),
      requests_(inputs.requests),
      capacity_(inputs.capacity),
      usage_(inputs.usage),
      merges_(tree_.size()),
      starts_below_(tree_.size()),
      uppermost_(tree_.size(), QueueTree::kRoot),
      head_leaf_(tree_.size(), -1),
      keys_(tree_.size()),
      heaps_(tree_.size()),
      offsets_(tree_.size()),
      heap_sizes_(tree_.size(), 0),
      positions_(tree_.size(), -1) {
  if (inputs.history_permille > 0 && !inputs.histories.empty()) {
    extra_.reserve(tree_.size());
    for (const UsageHistory& history : inputs.histories) {
      extra_.push_back(Scaled(history, inputs.history_permille, capacity_));
    }
  }
  int offset = 0;
  for (int i = 0; i < tree_.size(); ++i) {
    offsets_[i] = offset;
    offset += static_cast<int>(tree_.children(i).size());
    if (i == QueueTree::kRoot) continue;
    const int parent = tree_.node(i).parent;
    uppermost_[i] = parent == QueueTree::kRoot ? i : uppermost_[parent];
  }
  // From the end, children come before their parents.
  for (int i = tree_.size() - 1; i >= 0; --i) {
    if (tree_.leaf(i)) {
      for (const auto& [kind, gangs] : inputs.gangs.kinds(i)) {
        if (inputs.fresh_only && !kind.fresh) continue;
        AddLane(&merges_[i], {&kind, &gangs, gangs.begin(), -1});
      }
      SetLeafHead(i);
    } else if (heap_sizes_[i] > 0) {
      head_leaf_[i] = head_leaf_[*heap(i)];
    }
    if (head_leaf_[i] < 0 || i == QueueTree::kRoot) continue;
    SetKey(i);
    Reposition(i);
  }
}

QueuedGang QueueOrder::next_gang() const {
  const Lane& lane = head(next_leaf());
  return {*lane.kind, *lane.next};
}

bool QueueOrder::IsBehind(const Lane& a, const Lane& b) {
  if (a.kind->priority != b.kind->priority) return a.kind->priority < b.kind->priority;
  return *a.next > *b.next;
}

void QueueOrder::AddLane(Merge* merge, Lane lane) {
  if (lane.next == lane.gangs->end()) return;
  merge->lanes.push_back(lane);
  std::push_heap(merge->lanes.begin(), merge->lanes.end(), IsBehind);
}

QueueOrder::Lane QueueOrder::TakeHead(Merge* merge) {
  std::pop_heap(merge->lanes.begin(), merge->lanes.end(), IsBehind);
  const Lane lane = merge->lanes.back();
  merge->lanes.pop_back();
  return lane;
}

void QueueOrder::SetLeafHead(int leaf) {
  Merge& merge = merges_[leaf];
  while (!merge.lanes.empty() && IsPassed(merge.lanes.front()) &&
         merge.turned.contains(merge.lanes.front().kind->request)) {
    merge.parked.push_back(TakeHead(&merge));
  }
  const bool has_head = !tree_.node(leaf).stops.hold && !merge.lanes.empty();
  head_leaf_[leaf] = has_head ? leaf : -1;
}

void QueueOrder::Unpark(int leaf) {
  Merge& merge = merges_[leaf];
  if (merge.starts == starts_) return;
  const int64_t starts_near = starts_below_[uppermost_[leaf]];
  const bool all = merge.starts_near != starts_near;
  if (all) merge.turned.clear();
  merge.starts = starts_;
  merge.starts_near = starts_near;
  // Who stands before the head has had its turn.
  const int32_t priority = head(leaf).kind->priority;
  const int64_t submit_order = *head(leaf).next;
  std::vector<Lane> parked = std::exchange(merge.parked, {});
  for (Lane& lane : parked) {
    if (!all && IsPassed(lane)) {
      merge.parked.push_back(lane);
    } else if (lane.kind->priority <= priority) {
      if (lane.kind->priority == priority) lane.next = lane.gangs->upper_bound(submit_order);
      AddLane(&merge, lane);
    }
  }
}

void QueueOrder::Pass(int leaf, bool started, int64_t passed_until) {
  Merge& merge = merges_[leaf];
  if (started) {
    ++starts_;
    ++starts_below_[uppermost_[leaf]];
  }
  Unpark(leaf);
  Lane lane = TakeHead(&merge);
  if (!started) merge.turned.insert(lane.kind->request);
  lane.passed_until = std::max(lane.passed_until, passed_until);
  ++lane.next;
  AddLane(&merge, lane);
  Advance(leaf);
}

void QueueOrder::Settle() {
  while (has_next() && IsPassed(head(next_leaf()))) {
    Pass(next_leaf(), /*started=*/false, /*passed_until=*/-1);
  }
}

void QueueOrder::SetKey(int node) {
  const Resources& request = requests_.Get(head(head_leaf_[node]).kind->request);
  const QueueNode& queue = tree_.node(node);
  Resources after = usage_.used(node) + request;
  bool guaranteed = false, beyond = false;
  for (int r = 0; r < tree_.resource_count(); ++r) {
    if (request[r] == 0 || (queue.guarantee_set >> r & 1) == 0) continue;
    (after[r] <= queue.guarantee[r] ? guaranteed : beyond) = true;
  }
  if (!extra_.empty()) after += extra_[node];
  keys_[node].tier = guaranteed && !beyond ? 0 : 1;
  keys_[node].share = DominantShare(after, capacity_, kMaxResources, queue.weight);
}

bool QueueOrder::Before(int a, int b) const {
  if (keys_[a].tier != keys_[b].tier) return keys_[a].tier < keys_[b].tier;
  const std::strong_ordering order = keys_[a].share <=> keys_[b].share;
  return order != 0 ? order < 0 : a < b;
}

void QueueOrder::Put(int parent, int position, int node) {
  heap(parent)[position] = node;
  positions_[node] = position;
}

void QueueOrder::SiftUp(int parent, int position) {
  const int node = heap(parent)[position];
  while (position > 0) {
    const int above = (position - 1) / 2;
    if (!Before(node, heap(parent)[above])) break;
    Put(parent, position, heap(parent)[above]);
    position = above;
  }
  Put(parent, position, node);
}

void QueueOrder::SiftDown(int parent, int position) {
  const int size = heap_sizes_[parent];
  const int node = heap(parent)[position];
  while (2 * position + 1 < size) {
    int below = 2 * position + 1;
    if (below + 1 < size && Before(heap(parent)[below + 1], heap(parent)[below])) ++below;
    if (!Before(heap(parent)[below], node)) break;
    Put(parent, position, heap(parent)[below]);
    position = below;
  }
  Put(parent, position, node);
}

void QueueOrder::Reposition(int node) {
  const int parent = tree_.node(node).parent;
  int position = positions_[node];
  if (head_leaf_[node] >= 0) {
    if (position < 0) {
      position = heap_sizes_[parent]++;
      Put(parent, position, node);
    }
    SiftUp(parent, position);
    SiftDown(parent, positions_[node]);
  } else if (position >= 0) {
    const int last = --heap_sizes_[parent];
    const int moved = heap(parent)[last];
    positions_[node] = -1;
    if (position == last) return;
    Put(parent, position, moved);
    SiftUp(parent, position);
    SiftDown(parent, positions_[moved]);
  }
}

void QueueOrder::Advance(int leaf) {
  SetLeafHead(leaf);
  for (int i = leaf; i != QueueTree::kRoot;) {
    if (head_leaf_[i] >= 0) SetKey(i);
    Reposition(i);
    i = tree_.node(i).parent;
    head_leaf_[i] = heap_sizes_[i] > 0 ? head_leaf_[*heap(i)] : -1;
  }
}

void QueueOrder::Start(const Resources& uses) {
  usage_.Add(next_leaf(), uses);
  Pass(next_leaf(), /*started=*/true, /*passed_until=*/-1);
  Settle();
}

void QueueOrder::Skip() {
  Pass(next_leaf(), /*started=*/false, /*passed_until=*/-1);
  Settle();
}

void QueueOrder::SkipKind() {
  Pass(next_leaf(), /*started=*/false, kForRound);
  Settle();
}

void QueueOrder::SkipKindUntilStart() {
  Pass(next_leaf(), /*started=*/false, starts_);
  Settle();
}

void QueueOrder::Block(int leaf) {
  merges_[leaf].lanes.clear();
  merges_[leaf].parked.clear();
  Advance(leaf);
  Settle();
}

}  // namespace capstan::scheduler
