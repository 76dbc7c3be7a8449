#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RATE_GATE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RATE_GATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/rate.h"

namespace capstan::scheduler {

// A token bucket: full at first, and never rounded, since it counts in tokens times nanoseconds. A
// time before the last one seen counts as that. A value.
class TokenBucket {
 public:
  TokenBucket(const Rate& rate, BootTime now);

  const Rate& rate() const { return rate_; }

  // The first moment, not before `now`, at which `count` tokens are there if nobody takes any;
  // InfiniteFuture if the bucket can never hold so many.
  BootTime AvailableAt(int64_t count, BootTime now) const;
  // Takes `count` tokens, or nothing and returns false.
  bool Take(int64_t count, BootTime now);

 private:
  using Level = unsigned __int128;

  Level LevelAt(BootTime now) const;

  Rate rate_;
  BootTime as_of_;
  Level level_;
};

// Why a rate said no.
struct RateRefusal {
  // Node of the tree whose bucket is the last to have enough.
  int node = 0;
  // When it has, if nobody takes any; InfiniteFuture if never.
  BootTime available;
};

// Buckets of one kind (submissions or starts) for each node of a tree that has a rate. Not durable:
// after a restart the buckets are full again. For one thread.
class RateGate {
 public:
  enum class Kind { kSubmit, kStart };

  // By the queue's id.
  using Buckets = std::map<std::string, TokenBucket>;

  // `tree` must outlive the gate and stay as it is. A queue whose rate is the one of its bucket in
  // `before` goes on with that; all other buckets are full.
  RateGate(const QueueTree& tree, Kind kind, BootTime now, const Buckets& before = {});

  // Every bucket, for the gate of another tree. Of the tree as it was when this was made.
  Buckets TakeBuckets() const;

  // What Take would say. O(depth).
  absl::optional<RateRefusal> Check(int leaf, int64_t count, BootTime now) const;

  // Takes `count` tokens at the leaf and at every level above, or none anywhere. O(depth).
  absl::optional<RateRefusal> Take(int leaf, int64_t count, BootTime now);

 private:
  const QueueTree* tree_;
  std::vector<absl::optional<TokenBucket>> buckets_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RATE_GATE_H_
