#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_GANG_QUEUES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_GANG_QUEUES_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "services/scheduler/core/quota/queue_tree.h"

namespace capstan::scheduler {

// A gang that waits, in 32 bytes.
struct QueuedGang {
  // Higher goes first.
  int32_t priority = 0;
  // What it needs in all; an id of a RequestClasses.
  uint32_t request = 0;
  // Rises with the time of submission.
  int64_t submit_order = 0;
  // The Job's UUID, high half first.
  std::array<uint64_t, 2> uid = {};

  // The order within a queue: priority, then submission, then uid. The request takes no part.
  friend std::strong_ordering operator<=>(const QueuedGang& a, const QueuedGang& b) {
    if (auto order = b.priority <=> a.priority; order != 0) return order;
    if (auto order = a.submit_order <=> b.submit_order; order != 0) return order;
    return a.uid <=> b.uid;
  }
  friend bool operator==(const QueuedGang& a, const QueuedGang& b) { return (a <=> b) == 0; }
};

// The gangs that wait in each leaf, in order; about 40 bytes each. For one thread.
class GangQueues {
 public:
  using Queue = absl::btree_set<QueuedGang>;

  explicit GangQueues(const QueueTree& tree) : queues_(tree.size()) {}

  // O(log n). False if it is already there, or is not, respectively.
  bool Insert(int leaf, const QueuedGang& gang);
  bool Erase(int leaf, const QueuedGang& gang);

  const Queue& queue(int leaf) const { return queues_[leaf]; }
  size_t size() const { return size_; }

  // Moves every queue to its place in another tree, by id; returns the gangs of queues that are not
  // leaves there, by id of their queue. O(queues).
  std::vector<std::pair<std::string, Queue>> Rebind(const QueueTree& from, const QueueTree& to);

 private:
  std::vector<Queue> queues_;
  size_t size_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_GANG_QUEUES_H_
