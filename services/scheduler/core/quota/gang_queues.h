#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_GANG_QUEUES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_GANG_QUEUES_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/quota/queue_tree.h"

namespace capstan::scheduler {

// What those gangs of a queue have in common for which a try ends alike, as long as none of them
// finds room.
struct GangKind {
  // Higher goes first.
  int32_t priority = 0;
  // What each needs in all; an id of a RequestClasses.
  uint32_t request = 0;
  // Whatever else a try depends on; a number of the caller's.
  uint32_t id = 0;
  // Not tried yet.
  bool fresh = false;

  friend std::strong_ordering operator<=>(const GangKind& a, const GangKind& b) {
    if (auto order = b.priority <=> a.priority; order != 0) return order;
    if (auto order = a.request <=> b.request; order != 0) return order;
    if (auto order = a.id <=> b.id; order != 0) return order;
    return a.fresh <=> b.fresh;
  }
  friend bool operator==(const GangKind& a, const GangKind& b) { return (a <=> b) == 0; }
};

// A gang that waits. The order within a queue is priority, then submission.
struct QueuedGang {
  GangKind kind;
  // Rises with the time of submission; no other gang of the queue has the same.
  int64_t submit_order = 0;

  friend bool operator==(const QueuedGang&, const QueuedGang&) = default;
};

// The gangs that wait in each leaf, by kind and in order: 8 bytes each and a B-tree's slack, and
// about 100 for each kind. For one thread.
class GangQueues {
 public:
  // By submit_order.
  using Gangs = absl::btree_set<int64_t>;
  // None is empty.
  using Kinds = absl::btree_map<GangKind, Gangs>;

  explicit GangQueues(const QueueTree& tree) : queues_(tree.size()) {}

  // O(log n). False if it is already there, or is not, respectively.
  bool Insert(int leaf, const QueuedGang& gang);
  bool Erase(int leaf, const QueuedGang& gang);

  const Kinds& kinds(int leaf) const { return queues_[leaf].kinds; }
  size_t size(int leaf) const { return queues_[leaf].size; }
  size_t size() const { return size_; }

  // The leaf's first gang. O(kinds of the highest priority).
  absl::optional<QueuedGang> First(int leaf) const;
  // All of the leaf, in order. O(n log n).
  std::vector<QueuedGang> InOrder(int leaf) const;

 private:
  struct Queue {
    Kinds kinds;
    size_t size = 0;
  };

  std::vector<Queue> queues_;
  size_t size_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_GANG_QUEUES_H_
