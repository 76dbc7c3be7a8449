#include "services/scheduler/core/quota/reclaim.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/scheduler/core/quota/share.h"

namespace capstan::scheduler {
namespace {

using Reason = ReclaimRefusal::Reason;

bool Covers(const Resources& freed, const Resources& shortage) {
  for (int r = 0; r < kMaxResources; ++r) {
    if (freed[r] < shortage[r]) return false;
  }
  return true;
}

// Whether the amounts bring `freed` nearer to the shortage.
bool Useful(const Resources& freed, const Resources& shortage, const Resources& amounts) {
  for (int r = 0; r < kMaxResources; ++r) {
    if (freed[r] < shortage[r] && amounts[r] > 0) return true;
  }
  return false;
}

}  // namespace

Reclaim::Reclaim(const TreeUsage& usage, const Resources& capacity, const FairShares* fair,
                 int claimant, const Resources& request, uint32_t contested)
    : before_(usage),
      capacity_(capacity),
      fair_(fair),
      claimant_(claimant),
      request_(request),
      contested_(contested),
      after_(usage) {
  after_.Add(claimant, request);
}

absl::optional<ReclaimRefusal> Reclaim::CheckClaim(int common) const {
  const QueueTree& tree = before_.tree();
  int side = claimant_;
  while (tree.node(side).parent != common) side = tree.node(side).parent;
  const QueueNode& node = tree.node(side);
  bool any = false;
  for (int r = 0; r < tree.resource_count(); ++r) {
    if ((contested_ >> r & 1) == 0 || request_[r] == 0) continue;
    any = true;
    const int64_t used = before_.used(side)[r];
    if (used + request_[r] <= node.guarantee[r]) continue;
    return ReclaimRefusal{Reason::kNotGuaranteed, side, r, node.guarantee[r], used, request_[r]};
  }
  if (any) return absl::nullopt;
  return ReclaimRefusal{Reason::kNotGuaranteed, side, -1, 0, 0, 0};
}

absl::optional<ReclaimRefusal> Reclaim::CheckVictim(int index, const Resources& amounts) const {
  const QueueTree& tree = before_.tree();
  const QueueNode& node = tree.node(index);
  for (int r = 0; r < tree.resource_count(); ++r) {
    if (amounts[r] == 0) continue;
    const int64_t left = after_.used(index)[r] - amounts[r];
    if (left >= std::min(node.guarantee[r], before_.used(index)[r])) continue;
    return ReclaimRefusal{Reason::kGuaranteeOfVictim, index, r,
                          node.guarantee[r],          left,  amounts[r]};
  }
  if (fair_ == nullptr || tree.contains(index, claimant_)) return absl::nullopt;
  const Resources left = after_.used(index) - amounts;
  const int count = tree.resource_count();
  if (DominantShare(left, capacity_, count) >=
      DominantShare(fair_->amounts[index], capacity_, count)) {
    return absl::nullopt;
  }
  return ReclaimRefusal{Reason::kFairShareOfVictim, index, -1, 0, 0, 0};
}

absl::optional<ReclaimRefusal> Reclaim::Check(int leaf, const Resources& amounts) const {
  const QueueTree& tree = before_.tree();
  if (leaf == claimant_) return ReclaimRefusal{Reason::kSameQueue, leaf, -1, 0, 0, 0};
  absl::optional<ReclaimRefusal> refusal = CheckClaim(tree.CommonAncestor(claimant_, leaf));
  for (int i = leaf; i >= 0 && !refusal.has_value(); i = tree.node(i).parent) {
    refusal = CheckVictim(i, amounts);
  }
  return refusal;
}

std::vector<int> SelectVictims(Reclaim reclaim, const Resources& shortage,
                               const std::vector<ReclaimCandidate>& candidates) {
  std::vector<int> taken;
  Resources freed;
  for (size_t i = 0; i < candidates.size() && !Covers(freed, shortage); ++i) {
    const ReclaimCandidate& candidate = candidates[i];
    if (!Useful(freed, shortage, candidate.amounts)) continue;
    if (reclaim.Check(candidate.leaf, candidate.amounts).has_value()) continue;
    reclaim.Take(candidate.leaf, candidate.amounts);
    freed += candidate.amounts;
    taken.push_back(static_cast<int>(i));
  }
  if (!Covers(freed, shortage)) return {};
  // One pass is enough: what is needed now is needed all the more with fewer others.
  for (size_t i = taken.size(); i-- > 0;) {
    const Resources without = freed - candidates[taken[i]].amounts;
    if (!Covers(without, shortage)) continue;
    freed = without;
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return taken;
}

std::string Describe(const QueueTree& tree, const ReclaimRefusal& refusal) {
  const std::string who = tree.Describe(refusal.node);
  const std::string of =
      refusal.resource < 0 ? "" : absl::StrCat(" of ", tree.resources().name(refusal.resource));
  switch (refusal.reason) {
    case Reason::kSameQueue:
      return absl::StrCat("it is in ", who, " too, where priority decides");
    case Reason::kNotGuaranteed:
      if (refusal.resource < 0) return absl::StrCat(who, " lacks nothing that others could give");
      return absl::StrCat(who, " is guaranteed ", refusal.guarantee, of, ", has ", refusal.found,
                          " and would need ", refusal.change, " more");
    case Reason::kGuaranteeOfVictim:
      return absl::StrCat(who, " is guaranteed ", refusal.guarantee, of, " and would have ",
                          refusal.found, " left");
    case Reason::kFairShareOfVictim:
      return absl::StrCat(who, " would fall below its fair share");
  }
  return "";
}

}  // namespace capstan::scheduler
