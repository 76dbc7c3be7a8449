#include "services/scheduler/core/quota/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace capstan::scheduler {
namespace {

using Reason = QuotaRefusal::Reason;

QuotaRefusal Stopped(int node, Reason reason) {
  QuotaRefusal refusal;
  refusal.node = node;
  refusal.reason = reason;
  return refusal;
}

// The uppermost queue at or above the leaf that `stops` applies to; -1 if there is none.
template <typename Stops>
int Uppermost(const QueueTree& tree, int leaf, Stops stops) {
  int found = -1;
  for (int i = leaf; i >= 0 && stops(tree.node(i).stops); i = tree.node(i).parent) found = i;
  return found;
}

absl::optional<QuotaRefusal> CheckStops(const QueueTree& tree, int leaf) {
  const QueueStops& stops = tree.node(leaf).stops;
  if (stops.drain) {
    return Stopped(Uppermost(tree, leaf, [](const QueueStops& s) { return s.drain; }),
                   Reason::kDraining);
  }
  if (stops.hold) {
    return Stopped(Uppermost(tree, leaf, [](const QueueStops& s) { return s.hold; }),
                   Reason::kHeld);
  }
  return absl::nullopt;
}

// What of a node's claim is idle guarantee that is not lent.
int64_t NotLent(const TreeUsage& usage, int node, int r) {
  return std::max<int64_t>(0, usage.claim(node, r) - usage.used(node)[r]);
}

QuotaRefusal Exceeded(const TreeUsage& usage, int node, int r, int64_t limit, int64_t needed,
                      Reason reason) {
  QuotaRefusal refusal;
  refusal.node = node;
  refusal.reason = reason;
  refusal.resource = r;
  refusal.limit = limit;
  refusal.found = usage.claim(node, r);
  refusal.needed = needed;
  refusal.not_lent = NotLent(usage, node, r);
  if (refusal.not_lent > 0 && refusal.found - refusal.not_lent + needed <= limit) {
    refusal.reason = Reason::kNotLent;
  }
  return refusal;
}

// Walks up from the leaf with what each level's claim grows by. `found` gets each refusal and says
// whether to go on.
template <typename Found>
void Walk(const TreeUsage& usage, const Resources& capacity, int leaf, const Resources& request,
          Found found) {
  const QueueTree& tree = usage.tree();
  const int count = tree.resource_count();
  Resources growth = request;
  for (int i = leaf; i >= 0; i = tree.node(i).parent) {
    const QueueNode& node = tree.node(i);
    for (int r = 0; r < count; ++r) {
      if (growth[r] == 0) continue;
      // The claim grows by less than the request where the guarantee is reserved anyway.
      const int64_t after = std::max(node.reserve[r], usage.claimed(i, r) + growth[r]);
      growth[r] = after - usage.claim(i, r);
      if (growth[r] == 0) continue;
      const int64_t limit = i == QueueTree::kRoot ? capacity[r] : node.cap[r];
      if (after <= limit) continue;
      Reason reason = i != QueueTree::kRoot ? Reason::kBorrowingLimit
                      : capacity[r] == 0    ? Reason::kUnknownResource
                                            : Reason::kCapacity;
      if (!found(Exceeded(usage, i, r, limit, growth[r], reason))) return;
    }
  }
  // Reserves may add up to more than the fleet has: what lies in one must be there all the same.
  for (int r = 0; r < count; ++r) {
    const int64_t used = usage.used(QueueTree::kRoot)[r];
    if (request[r] == 0 || growth[r] > 0 || used + request[r] <= capacity[r]) continue;
    const Reason reason = capacity[r] == 0 ? Reason::kUnknownResource : Reason::kCapacity;
    if (!found({QueueTree::kRoot, reason, r, capacity[r], used, request[r], 0})) return;
  }
  for (int r = count; r < kMaxResources; ++r) {
    if (request[r] == 0) continue;
    QuotaRefusal refusal = Stopped(QueueTree::kRoot, Reason::kUnknownResource);
    refusal.resource = r;
    refusal.needed = request[r];
    if (!found(refusal)) return;
  }
}

}  // namespace

absl::optional<QuotaRefusal> CheckSubmission(const QueueTree& tree, int leaf) {
  absl::optional<QuotaRefusal> refusal = CheckStops(tree, leaf);
  if (refusal.has_value() && refusal->reason == Reason::kDraining) return refusal;
  if (!tree.node(leaf).stops.cordon) return absl::nullopt;
  return Stopped(Uppermost(tree, leaf, [](const QueueStops& s) { return s.cordon; }),
                 Reason::kCordoned);
}

absl::optional<QuotaRefusal> CheckStart(const TreeUsage& usage, const Resources& capacity, int leaf,
                                        const Resources& request) {
  absl::optional<QuotaRefusal> first = CheckStops(usage.tree(), leaf);
  if (first.has_value()) return first;
  Walk(usage, capacity, leaf, request, [&first](const QuotaRefusal& refusal) {
    first = refusal;
    return false;
  });
  return first;
}

bool FitsLimits(const TreeUsage& usage, const Resources& capacity, int leaf,
                const Resources& request) {
  bool fits = true;
  Walk(usage, capacity, leaf, request, [&fits](const QuotaRefusal&) { return fits = false; });
  return fits;
}

std::vector<QuotaRefusal> ExplainStart(const TreeUsage& usage, const Resources& capacity, int leaf,
                                       const Resources& request) {
  std::vector<QuotaRefusal> refusals;
  if (absl::optional<QuotaRefusal> stopped = CheckStops(usage.tree(), leaf); stopped.has_value()) {
    refusals.push_back(*stopped);
  }
  Walk(usage, capacity, leaf, request, [&refusals](const QuotaRefusal& refusal) {
    refusals.push_back(refusal);
    return true;
  });
  return refusals;
}

std::string Describe(const QueueTree& tree, const QuotaRefusal& refusal) {
  const std::string who = tree.Describe(refusal.node);
  switch (refusal.reason) {
    case Reason::kCordoned:
      return absl::StrCat(who, " is cordoned: it takes no new Jobs");
    case Reason::kHeld:
      return absl::StrCat(who, " is held: it starts nothing");
    case Reason::kDraining:
      return absl::StrCat(who, " is draining: it takes and starts nothing");
    case Reason::kUnknownResource:
    case Reason::kBorrowingLimit:
    case Reason::kCapacity:
    case Reason::kNotLent:
      break;
  }
  const std::string name = refusal.resource < tree.resource_count()
                               ? tree.resources().name(refusal.resource)
                               : "a resource that is not counted";
  if (refusal.reason == Reason::kUnknownResource) {
    return absl::StrCat("the fleet has no ", name, "; ", refusal.needed, " needed");
  }
  std::string text = absl::StrCat(who, " may have ", refusal.limit, " of ", name, ", has ",
                                  refusal.found, " and would need ", refusal.needed, " more");
  if (refusal.not_lent > 0) {
    absl::StrAppend(&text, "; ", refusal.not_lent, " of it is guaranteed below and not lent");
  }
  return text;
}

}  // namespace capstan::scheduler
