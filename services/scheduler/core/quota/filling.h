#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_FILLING_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_FILLING_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/share.h"

namespace capstan::scheduler {

// The progressive filling behind ComputeFairShares, as a simulation of events.
//
// Shares are in 2^-60 of the capacity. Each node has a clock: the dominant share that it was filled
// to. An inner node has also a level: the share over weight at which its growing children are, so
// that the clock of a growing child is its weight times its parent's level. Between events a
// node's level and claims are linear in its own clock, whatever happens beside it; they are brought
// up to date only when an event below it is handled. Directions are in 2^-46 and rounded up, so
// that claims are never counted too low.
class Filling {
 public:
  Filling(const QueueTree& tree, const Resources& capacity, const std::vector<Resources>& demand);

  // Fills up to the guarantees of the queues `depth` levels below the root.
  void FillGuarantees(int depth);
  // Fills up to the demand.
  void FillAll();

  // Of a leaf: the share it was filled to, that of its whole demand, and its share of resource r.
  uint64_t level(int leaf) const { return static_cast<uint64_t>(nodes_[leaf].clock); }
  bool met(int leaf) const { return nodes_[leaf].whole && nodes_[leaf].clock >= nodes_[leaf].full; }
  uint64_t share(int leaf, int r) const;

 private:
  // kUsedUp: a claim reaches its bound; kReserveUsed: a queue's own reserve; kFleetUsed: use, not
  // claims, reaches the capacity, which matters where reserves add up to more than there is.
  enum class EventKind : uint8_t { kNone, kChild, kFull, kUsedUp, kReserveUsed, kFleetUsed };

  // The next thing that happens at or below a node.
  struct Event {
    EventKind kind = EventKind::kNone;
    // A child, or the position of a resource.
    int which = 0;
    // On the node's clock.
    Wide at = 0;
  };

  struct Node {
    bool active = false;
    // Counted in the parent's direction.
    bool growing = false;
    // Of a leaf: the whole demand fits into `full`.
    bool whole = false;
    Wide weight = 1;
    Wide clock = 0;
    // Of a leaf: its clock when its demand is met.
    Wide full = 0;
    Wide level = 0;
    int growing_children = 0;
    // What one unit of the clock takes, and what it adds to claims.
    std::array<uint64_t, kMaxResources> use = {};
    std::array<uint64_t, kMaxResources> claim_growth = {};
    // Sums of the above over growing children, by weight, for one unit of the level.
    std::array<Wide, kMaxResources> use_sum = {};
    std::array<Wide, kMaxResources> claim_sum = {};
    // The greatest of use_sum: units of the clock for one of the level, in 2^-46.
    Wide pace = 0;
    std::array<uint64_t, kMaxResources> claimed = {};
    std::array<uint64_t, kMaxResources> reserve = {};
    std::array<uint64_t, kMaxResources> cap = {};
    // The cap, or the guarantee while that is filled.
    std::array<uint64_t, kMaxResources> bound = {};
    Event next;
    // Whether it is in its parent's sums and with what, and where in its parent's queue.
    bool counted = false;
    std::array<uint64_t, kMaxResources> counted_use = {};
    std::array<uint64_t, kMaxResources> counted_growth = {};
    Wide queued_at = 0;
    bool queued = false;
    // Active children by the level at which something happens to them: those that wait begin to
    // grow, to the others or below them their next event.
    absl::btree_set<std::pair<Wide, int>> queue;
  };

  void InitializeLeaf(int leaf, const Resources& demand);
  void InitializeLimits(int node);
  void Run(int guarantee_depth);
  void SetBounds(int guarantee_depth);
  bool IsWanted(int leaf, int guarantee_depth) const;
  void Prepare(int node);

  void Handle(int node);
  void BringUpTo(Node& node, Wide clock);
  // Stops the growing leaves that take r; those in a reserve only if `reserved`.
  void StopUsers(int node, int r, bool reserved);
  void OfferLimits(const Node& node, Event& next) const;
  void StopLeaf(Node& leaf);
  void Join(int parent, int child);
  // Takes over into the parent what changed of the child.
  void Recount(int parent, int child);
  // Lets the lowest of those that wait grow if nobody does.
  void Settle(int node);
  void SetDirection(Node& node);
  void SetNext(int node);
  // What growth of the node's clock adds to its parent's claim: nothing while its reserve does.
  uint64_t Passing(const Node& node, int r) const {
    return node.claimed[r] >= node.reserve[r] ? node.claim_growth[r] : 0;
  }

  const QueueTree& tree_;
  const Resources capacity_;
  const int count_;
  std::vector<Node> nodes_;
  // What all leaves take together.
  std::array<uint64_t, kMaxResources> fleet_used_ = {};
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_FILLING_H_
