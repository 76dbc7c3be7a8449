#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_FAIR_SHARES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_FAIR_SHARES_H_

#include <cstdint>
#include <vector>

#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {

// What each queue is entitled to.
struct FairShares {
  // By node: whole units, for an inner node the sum of those below. Never more than the demand, the
  // limits and the capacity allow.
  std::vector<Resources> amounts;
  // By leaf: the dominant share it was filled to, in 2^-kShareBits of the capacity, rounded down by
  // less than 2^-40 of it.
  std::vector<uint64_t> levels;
};

inline constexpr int kShareBits = 60;

// Hierarchical dominant-share fairness by weighted progressive filling. Every leaf grows in the
// proportions of its demand; at each node those children that can still grow and lie lowest (share
// over weight) grow together by their weights, where a node's growth is the dominant share of what
// the growing leaves below it take. A leaf stops when its demand is met or when something it needs
// is used up: the capacity, or what a queue above it (or itself) may have, in which guarantees that
// are not lent count as used. Before that, deepest level first, the leaves below each queue with a
// guarantee are filled the same way up to the guarantee: the floor from which the rest starts.
//
// `demand` is by node, of leaves: what runs there and waits, each 0 to kMaxAmount. The README of
// this folder says how it works and what bounds its rounding. Integers only: the result is the same
// on every machine. O((leaves + stops) · depth · (resources + log siblings)).
FairShares ComputeFairShares(const QueueTree& tree, const Resources& capacity,
                             const std::vector<Resources>& demand);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_FAIR_SHARES_H_
