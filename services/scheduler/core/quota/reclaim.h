#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RECLAIM_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RECLAIM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "services/scheduler/core/quota/fair_shares.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/tree_usage.h"

namespace capstan::scheduler {

// Why a gang may not be stopped for another queue's guarantee.
struct ReclaimRefusal {
  enum class Reason {
    // It is in the claimant's own queue, where priority decides.
    kSameQueue,
    // The claimant's side has its guarantee, or would go beyond it.
    kNotGuaranteed,
    // The node would fall below its own guarantee.
    kGuaranteeOfVictim,
    // The node would fall below its fair share.
    kFairShareOfVictim,
  };

  Reason reason = Reason::kSameQueue;
  // Level that says no, and the resource; -1 if it is about no single resource.
  int node = 0;
  int resource = -1;
  // The guarantee; what is used, or would be left; what the claimant needs, or the gang frees.
  int64_t guarantee = 0;
  int64_t found = 0;
  int64_t change = 0;

  friend bool operator==(const ReclaimRefusal&, const ReclaimRefusal&) = default;
};

std::string Describe(const QueueTree& tree, const ReclaimRefusal& refusal);

// Which gangs of other queues may be stopped so that a gang of the claimant starts within what is
// guaranteed. Of the lowest node that contains both, let a be the child on the claimant's side:
//
//   1. with the claimant's gang, a uses no more than its guarantee of each contested resource, that
//      is of each of which there is too little free;
//   2. no node on the victim's way to the root has less of its guarantee, in any resource that the
//      victim frees, than before: after all that was taken, and the claimant's gang where it
//      counts;
//   3. if fair shares are given, no node below the common one falls below its dominant share there.
//
// By 1 and 2 the sum over all nodes and resources of what is missing to guarantees falls with each
// reclaim, so that reclaims alone can never go round in a circle. A value for one decision; reads
// what it is given, which must outlive it. For one thread.
class Reclaim {
 public:
  // `contested` has bit r for each contested resource. `fair` may be null.
  Reclaim(const TreeUsage& usage, const Resources& capacity, const FairShares* fair, int claimant,
          const Resources& request, uint32_t contested);

  // Whether a gang of the leaf that uses `amounts` may be stopped beside those taken already. Once
  // refused, it stays refused however many more are taken. O(depth · resources).
  absl::optional<ReclaimRefusal> Check(int leaf, const Resources& amounts) const;
  // Counts it as stopped, or as not stopped after all.
  void Take(int leaf, const Resources& amounts) { after_.Remove(leaf, amounts); }
  void Return(int leaf, const Resources& amounts) { after_.Add(leaf, amounts); }

 private:
  absl::optional<ReclaimRefusal> CheckClaim(int common) const;
  absl::optional<ReclaimRefusal> CheckVictim(int node, const Resources& amounts) const;

  const TreeUsage& before_;
  const Resources capacity_;
  const FairShares* fair_;
  const int claimant_;
  const Resources request_;
  const uint32_t contested_;
  // With the claimant's gang and without those taken.
  TreeUsage after_;
};

// A gang that might be stopped.
struct ReclaimCandidate {
  int leaf = 0;
  Resources amounts;
};

// Positions of candidates, ascending, that may be stopped and together free at least `shortage`;
// minimal by inclusion: without any one of them they would not. Prefers those that come first.
// Empty if taking them in that order does not reach it, even where some other choice would. A
// shortage of zero needs nobody. O(candidates · depth · resources).
std::vector<int> SelectVictims(Reclaim reclaim, const Resources& shortage,
                               const std::vector<ReclaimCandidate>& candidates);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RECLAIM_H_
