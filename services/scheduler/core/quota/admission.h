#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_ADMISSION_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_ADMISSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/tree_usage.h"

namespace capstan::scheduler {

// Why the quota tree does not let a gang start, or a Job be submitted.
struct QuotaRefusal {
  enum class Reason {
    // The queue takes no new Jobs.
    kCordoned,
    // The queue starts nothing.
    kHeld,
    // The queue is being emptied.
    kDraining,
    // The fleet has no such resource, or the tree does not count it.
    kUnknownResource,
    // The queue's guarantee and what it may borrow are used up.
    kBorrowingLimit,
    // The fleet is used up.
    kCapacity,
    // As the two above, but there would be room if guarantees that lie idle were lent.
    kNotLent,
  };

  // The level: a node of the tree.
  int node = 0;
  Reason reason = Reason::kHeld;
  // Position of the resource; -1 if the refusal is about no resource.
  int resource = -1;
  // What the level may have, counts as having, and would need more.
  int64_t limit = 0;
  int64_t found = 0;
  int64_t needed = 0;
  // How much of `found` is guarantee that lies idle and is not lent.
  int64_t not_lent = 0;

  // True if it could not start even if nothing else ran: only a change of the tree or the fleet
  // helps.
  bool never() const { return resource >= 0 && needed > limit; }

  friend bool operator==(const QuotaRefusal&, const QuotaRefusal&) = default;
};

// One sentence: `queue "team" may have 64 of gpu, has 60 and would need 8 more`.
std::string Describe(const QueueTree& tree, const QuotaRefusal& refusal);

// Whether a Job may be submitted to the leaf: names the uppermost queue that says no.
absl::optional<QuotaRefusal> CheckSubmission(const QueueTree& tree, int leaf);

// Whether a gang that needs `request` in all may start in the leaf: at every level, what the queue
// would then count as using stays within its guarantee and borrowing limit, and at the root within
// `capacity`. A level already beyond its limit (it was lowered) refuses only what it has too much
// of. Returns the first refusal from the leaf upwards. O(depth · resources), no allocation.
absl::optional<QuotaRefusal> CheckStart(const TreeUsage& usage, const Resources& capacity, int leaf,
                                        const Resources& request);

// As CheckStart, of the limits alone: whatever is held or drained.
bool FitsLimits(const TreeUsage& usage, const Resources& capacity, int leaf,
                const Resources& request);

// All refusals: every stop, and each level and resource that has too little. From the leaf upwards.
std::vector<QuotaRefusal> ExplainStart(const TreeUsage& usage, const Resources& capacity, int leaf,
                                       const Resources& request);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_ADMISSION_H_
