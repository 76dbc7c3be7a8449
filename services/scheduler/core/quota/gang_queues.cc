#include "services/scheduler/core/quota/gang_queues.h"

#include "absl/types/optional.h"

namespace capstan::scheduler {

bool GangQueues::Insert(int leaf, const QueuedGang& gang) {
  const bool added = queues_[leaf].insert(gang).second;
  size_ += added ? 1 : 0;
  return added;
}

bool GangQueues::Erase(int leaf, const QueuedGang& gang) {
  const bool erased = queues_[leaf].erase(gang) > 0;
  size_ -= erased ? 1 : 0;
  return erased;
}

std::vector<std::pair<std::string, GangQueues::Queue>> GangQueues::Rebind(const QueueTree& from,
                                                                          const QueueTree& to) {
  std::vector<Queue> before = std::move(queues_);
  queues_ = std::vector<Queue>(to.size());
  std::vector<std::pair<std::string, Queue>> homeless;
  for (int i = 0; i < from.size(); ++i) {
    if (before[i].empty()) continue;
    const absl::optional<int> place = to.Find(from.node(i).id);
    if (place.has_value() && to.leaf(*place)) {
      queues_[*place] = std::move(before[i]);
    } else {
      size_ -= before[i].size();
      homeless.emplace_back(from.node(i).id, std::move(before[i]));
    }
  }
  return homeless;
}

}  // namespace capstan::scheduler
