#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_SPEC_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_SPEC_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/quota/limit.h"
#include "services/scheduler/core/quota/rate.h"

namespace capstan::scheduler {

inline constexpr int64_t kMaxQueueWeight = 1'000'000;
inline constexpr int64_t kDefaultQueueWeight = 100;
inline constexpr int kMaxQueues = 16'384;
// Levels below the root.
inline constexpr int kMaxQueueDepth = 16;

// What a queue may have of one resource, with everything below it.
struct Quota {
  // What it gets whenever it asks, whatever its weight. Unset: what those below it are guaranteed;
  // and where an ancestor's guarantee is filled, this resource does not stop the queue. Zero:
  // nothing, and work that needs the resource is not part of any guarantee of this queue.
  // Unlimited is an error.
  Limit guarantee = {};
  // What it may use above the guarantee. Unset: as its nearest ancestor says, of which each bound
  // counts above the queue's own guarantee; if none does, unlimited.
  Limit borrowing = {};
  // How much of the guarantee others may use while it lies idle. Unset: as its nearest ancestor
  // says; if none does, unlimited. What is not lent stays free for the queue.
  Limit lending = {};

  friend bool operator==(const Quota&, const Quota&) = default;
};

// What is stopped in a queue and everything below it.
struct QueueStops {
  // Nothing new is submitted.
  bool cordon = false;
  // Nothing is started.
  bool hold = false;
  // Nothing is submitted or started, what runs is stopped with grace, and the guarantee is lent.
  bool drain = false;

  friend bool operator==(const QueueStops&, const QueueStops&) = default;
};

// A node of the quota tree as somebody wrote it. Jobs are submitted to leaves.
struct QueueSpec {
  std::string id;
  // Id of the queue above; "" for one directly below the root.
  std::string parent;
  // Its part among its siblings: 1 to kMaxQueueWeight.
  int64_t weight = kDefaultQueueWeight;
  // By name of the resource.
  std::map<std::string, Quota> quotas;
  QueueStops stops;
  // How fast Jobs are taken in and gangs started here and below, beside what the levels above and
  // below say; unset: as fast as they come.
  absl::optional<Rate> submit_rate;
  absl::optional<Rate> start_rate;
  // Of its usage history; unset: as its parent's; at the root, or if zero, there is no history.
  absl::optional<absl::Duration> half_life;

  friend bool operator==(const QueueSpec&, const QueueSpec&) = default;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_SPEC_H_
