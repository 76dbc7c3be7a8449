#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_TREE_USAGE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_TREE_USAGE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {

// What the gangs of each queue use, with everything below it, and what it counts as against the
// limits above: at least the part of its guarantee that it does not lend. A value; copied for a
// round in O(queues).
//
//   claim(v) = max(reserve(v), used(v) if v is a leaf, else the sum of the claims below)
class TreeUsage {
 public:
  // Nothing is used. `tree` must outlive this and its copies.
  explicit TreeUsage(const QueueTree& tree);

  const QueueTree& tree() const { return *tree_; }
  const Resources& used(int node) const { return used_[node]; }
  int64_t claim(int node, int r) const {
    return std::max(tree_->node(node).reserve[r], claimed_[node][r]);
  }

  // The claim before the node's own reserve: what growth adds to.
  int64_t claimed(int node, int r) const { return claimed_[node][r]; }

  // A gang of the leaf takes, or gives back, `amounts`. O(depth).
  void Add(int leaf, const Resources& amounts);
  void Remove(int leaf, const Resources& amounts);

 private:
  const QueueTree* tree_;
  std::vector<Resources> used_;
  std::vector<Resources> claimed_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_TREE_USAGE_H_
