#include "services/scheduler/core/quota/gang_queues.h"

#include <algorithm>
#include <tuple>

namespace capstan::scheduler {

bool GangQueues::Insert(int leaf, const QueuedGang& gang) {
  Queue& queue = queues_[leaf];
  if (!queue.kinds[gang.kind].insert(gang.submit_order).second) return false;
  ++queue.size;
  ++size_;
  return true;
}

bool GangQueues::Erase(int leaf, const QueuedGang& gang) {
  Queue& queue = queues_[leaf];
  const auto kind = queue.kinds.find(gang.kind);
  if (kind == queue.kinds.end() || kind->second.erase(gang.submit_order) == 0) return false;
  if (kind->second.empty()) queue.kinds.erase(kind);
  --queue.size;
  --size_;
  return true;
}

absl::optional<QueuedGang> GangQueues::First(int leaf) const {
  absl::optional<QueuedGang> first;
  for (const auto& [kind, gangs] : kinds(leaf)) {
    if (first.has_value() && kind.priority < first->kind.priority) break;
    if (first.has_value() && *gangs.begin() > first->submit_order) continue;
    first = QueuedGang{kind, *gangs.begin()};
  }
  return first;
}

std::vector<QueuedGang> GangQueues::InOrder(int leaf) const {
  std::vector<QueuedGang> all;
  for (const auto& [kind, gangs] : kinds(leaf)) {
    for (int64_t submit_order : gangs) all.push_back({kind, submit_order});
  }
  std::sort(all.begin(), all.end(), [](const QueuedGang& a, const QueuedGang& b) {
    return std::make_tuple(-int64_t{a.kind.priority}, a.submit_order) <
           std::make_tuple(-int64_t{b.kind.priority}, b.submit_order);
  });
  return all;
}

}  // namespace capstan::scheduler
