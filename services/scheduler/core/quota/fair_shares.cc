#include "services/scheduler/core/quota/fair_shares.h"

#include <algorithm>

#include "services/scheduler/core/quota/admission.h"
#include "services/scheduler/core/quota/filling.h"
#include "services/scheduler/core/quota/share.h"
#include "services/scheduler/core/quota/tree_usage.h"

namespace capstan::scheduler {
namespace {

// By more than which rounding cannot have changed a share, in 2^-60.
constexpr uint64_t kTolerance = uint64_t{1} << 20;

bool HasGuarantees(const QueueTree& tree, int depth) {
  for (int i = 1; i < tree.size(); ++i) {
    if (tree.node(i).depth == depth && tree.node(i).guarantee_set != 0) return true;
  }
  return false;
}

int64_t Units(int64_t capacity, uint64_t share) {
  return static_cast<int64_t>(static_cast<Wide>(capacity) * share >> kShareBits);
}

// A share that rounding left just below a whole unit is that unit, where units are large enough to
// tell. Otherwise two queues that share 16 accelerators evenly would be entitled to 7 each.
int64_t WholeUnits(int64_t capacity, uint64_t share) {
  const int64_t below = Units(capacity, share);
  const int64_t above = Units(capacity, share + kTolerance);
  return above == below + 1 ? above : below;
}

// What the leaf surely has: less than its share by what rounding can be.
Resources Base(const QueueTree& tree, const Resources& capacity, const Filling& filling, int leaf) {
  Resources base;
  for (int r = 0; r < tree.resource_count(); ++r) {
    const uint64_t share = filling.share(leaf, r);
    if (share > kTolerance) base[r] = Units(capacity[r], share - kTolerance);
  }
  return base;
}

// Gives the leaf the rest of its share where every limit still holds exactly.
void Complete(TreeUsage& usage, const Resources& capacity, const Filling& filling, int leaf,
              const Resources& demand) {
  for (int r = 0; r < usage.tree().resource_count(); ++r) {
    const int64_t wanted =
        filling.met(leaf) ? demand[r]
                          : std::min(demand[r], WholeUnits(capacity[r], filling.share(leaf, r)));
    Resources rest;
    rest[r] = wanted - usage.used(leaf)[r];
    if (rest[r] > 0 && FitsLimits(usage, capacity, leaf, rest)) usage.Add(leaf, rest);
  }
}

}  // namespace

FairShares ComputeFairShares(const QueueTree& tree, const Resources& capacity,
                             const std::vector<Resources>& demand) {
  Filling filling(tree, capacity, demand);
  for (int depth = tree.depth(); depth > 0; --depth) {
    if (HasGuarantees(tree, depth)) filling.FillGuarantees(depth);
  }
  filling.FillAll();

  FairShares shares;
  shares.levels.resize(tree.size());
  TreeUsage usage(tree);
  for (int i = 1; i < tree.size(); ++i) {
    if (!tree.leaf(i)) continue;
    shares.levels[i] = filling.level(i);
    usage.Add(i, Base(tree, capacity, filling, i));
  }
  for (int i = 1; i < tree.size(); ++i) {
    if (tree.leaf(i)) Complete(usage, capacity, filling, i, demand[i]);
  }
  shares.amounts.reserve(tree.size());
  for (int i = 0; i < tree.size(); ++i) shares.amounts.push_back(usage.used(i));
  return shares;
}

}  // namespace capstan::scheduler
