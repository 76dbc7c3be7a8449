#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_VICTIMS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_VICTIMS_H_

#include <cstdint>
#include <vector>

#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/quota/reclaim.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/tree_usage.h"

namespace capstan::scheduler {

// Whose gangs may end for one that waits: in its own queue those of lower priority, in others those
// that hold what its queue is guaranteed (quota/reclaim.h, whose argument that reclaims never go
// round in a circle holds here too). For one decision; the tree and `held` must outlive it.
class QueueVictims final : public VictimRules {
 public:
  struct Gang {
    // -1: in no queue of the tree; then it is no victim.
    int leaf = -1;
    int32_t priority = 0;
    Resources amounts;
    // Position of the part of the gang that may also end by itself; -1 if there is none. It ends
    // whenever this one does, and is not counted in its `amounts`.
    int spare = -1;
  };

  // `usage` is before anyone ends. `free` is what Nodes have left, all together: a resource of
  // which it is less than the request is contested; if there is none, what the claimant's queues
  // have a guarantee of is.
  QueueVictims(const TreeUsage& usage, const Resources& capacity, const Resources& free,
               const Gang& claimant, const std::vector<Gang>& held);
  QueueVictims(const QueueVictims&) = delete;
  QueueVictims& operator=(const QueueVictims&) = delete;

  bool MayEvict(int held) const override;
  std::vector<int> Together(const std::vector<int>& held) const override;
  void SetEnded(int held, bool ended) override;
  bool MayStart() const override;

 private:
  static uint32_t Contested(const TreeUsage& usage, const Resources& free, const Gang& claimant);
  static bool MayEvict(const Reclaim& reclaim, const Gang& claimant, const Gang& victim);
  // With the part that ends with it.
  Gang Whole(int held) const;

  const Resources capacity_;
  const Gang claimant_;
  const std::vector<Gang>& held_;
  const TreeUsage before_;
  // With nobody ended.
  const Reclaim reclaim_;
  // With those gone that count as ended.
  TreeUsage after_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_VICTIMS_H_
