#include "services/scheduler/core/queue_victims.h"

#include <set>

#include "absl/types/optional.h"
#include "services/scheduler/core/quota/admission.h"
#include "services/scheduler/core/quota/queue_tree.h"

namespace capstan::scheduler {

QueueVictims::QueueVictims(const TreeUsage& usage, const Resources& capacity, const Resources& free,
                           const Gang& claimant, const std::vector<Gang>& held)
    : capacity_(capacity),
      claimant_(claimant),
      held_(held),
      before_(usage),
      reclaim_(before_, capacity, /*fair=*/nullptr, claimant.leaf, claimant.amounts,
               Contested(usage, free, claimant)),
      after_(usage) {}

uint32_t QueueVictims::Contested(const TreeUsage& usage, const Resources& free,
                                 const Gang& claimant) {
  const QueueTree& tree = usage.tree();
  uint32_t lacking = 0;
  uint32_t guaranteed = 0;
  for (int r = 0; r < tree.resource_count(); ++r) {
    if (claimant.amounts[r] == 0) continue;
    if (claimant.amounts[r] > free[r]) lacking |= uint32_t{1} << r;
    for (int i = claimant.leaf; i > QueueTree::kRoot; i = tree.node(i).parent) {
      if (tree.node(i).guarantee[r] > 0) guaranteed |= uint32_t{1} << r;
    }
  }
  return lacking != 0 ? lacking : guaranteed;
}

bool QueueVictims::MayEvict(const Reclaim& reclaim, const Gang& claimant, const Gang& victim) {
  if (victim.leaf < 0) return false;
  if (victim.leaf == claimant.leaf) return victim.priority < claimant.priority;
  return !reclaim.Check(victim.leaf, victim.amounts).has_value();
}

QueueVictims::Gang QueueVictims::Whole(int held) const {
  Gang whole = held_[held];
  if (whole.spare >= 0) whole.amounts += held_[whole.spare].amounts;
  return whole;
}

bool QueueVictims::MayEvict(int held) const { return MayEvict(reclaim_, claimant_, Whole(held)); }

std::vector<int> QueueVictims::Together(const std::vector<int>& held) const {
  Reclaim reclaim = reclaim_;
  std::vector<int> allowed;
  std::set<int> spares;
  for (int one : held) {
    const bool spare_goes = spares.count(held_[one].spare) > 0;
    const Gang gang = spare_goes ? held_[one] : Whole(one);
    if (!MayEvict(reclaim, claimant_, gang)) continue;
    reclaim.Take(gang.leaf, gang.amounts);
    spares.insert(one);
    allowed.push_back(one);
  }
  return allowed;
}

void QueueVictims::SetEnded(int held, bool ended) {
  if (ended) {
    after_.Remove(held_[held].leaf, held_[held].amounts);
  } else {
    after_.Add(held_[held].leaf, held_[held].amounts);
  }
}

bool QueueVictims::MayStart() const {
  const absl::optional<QuotaRefusal> refusal =
      CheckStart(after_, capacity_, claimant_.leaf, claimant_.amounts);
  // Whether the fleet has the room is the placement's question.
  return !refusal.has_value() || refusal->reason == QuotaRefusal::Reason::kCapacity ||
         refusal->reason == QuotaRefusal::Reason::kUnknownResource;
}

}  // namespace capstan::scheduler
