#include "services/scheduler/core/quota/tree_usage.h"

namespace capstan::scheduler {

TreeUsage::TreeUsage(const QueueTree& tree)
    : tree_(&tree), used_(tree.size()), claimed_(tree.size()) {
  for (int i = tree.size() - 1; i > 0; --i) {
    for (int r = 0; r < tree.resource_count(); ++r) {
      claimed_[tree.node(i).parent][r] += claim(i, r);
    }
  }
}

void TreeUsage::Add(int leaf, const Resources& amounts) {
  Resources change = amounts;
  for (int i = leaf; i >= 0; i = tree_->node(i).parent) {
    used_[i] += amounts;
    for (int r = 0; r < tree_->resource_count(); ++r) {
      const int64_t before = claim(i, r);
      claimed_[i][r] += change[r];
      change[r] = claim(i, r) - before;
    }
  }
}

void TreeUsage::Remove(int leaf, const Resources& amounts) { Add(leaf, Resources() - amounts); }

}  // namespace capstan::scheduler
