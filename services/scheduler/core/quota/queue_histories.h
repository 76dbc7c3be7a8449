#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_HISTORIES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_HISTORIES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/tree_usage.h"
#include "services/scheduler/core/quota/usage_history.h"

namespace capstan::scheduler {

// A queue's history by names, which stay what they are when positions in a tree do not. All that
// follows for later times follows from it, as long as the use does not change.
struct NamedHistory {
  struct Amount {
    // As in UsageHistory.
    int64_t average = 0;
    uint32_t fraction = 0;
    // In use from `as_of` on.
    int64_t used = 0;

    friend bool operator==(const Amount&, const Amount&) = default;
  };
  absl::Time as_of = absl::InfinitePast();
  absl::Duration half_life = absl::ZeroDuration();
  // By resource; none that is all zero.
  std::map<std::string, Amount> amounts;

  friend bool operator==(const NamedHistory&, const NamedHistory&) = default;
};

// The histories of the queues of a tree that have a half-life. Each is kept as of the last time at
// which its use, half-life or tree changed, and brought forward only where it is read: so nothing
// is done while nothing changes, and reading often rounds nothing away. For one thread.
class QueueHistories {
 public:
  // By the queue's id.
  using Named = std::map<std::string, NamedHistory>;

  // Whether no queue of the tree has a half-life.
  bool empty() const { return kept_ == 0; }

  // What is kept, of the tree that SetTree was told.
  Named All(const QueueTree& tree) const;
  // Takes another tree with what its queues used before: what is known of a queue goes on, by name
  // of resource, with what was in use until now counted under the half-life it had then. A queue
  // that nothing is known of begins at `now` with nothing. O(queues · resources).
  void SetTree(const QueueTree& tree, const Named& histories, absl::Time now);

  // Counts until `now` what the leaf, and each queue above it, had in use, if `usage` is another
  // from now on; all that happens at one `now` counts as one change. O(depth).
  void Settle(const TreeUsage& usage, int leaf, absl::Time now);
  // The same of all queues.
  void SettleAll(const TreeUsage& usage, absl::Time now);

  // By node, at `now`: what QueueOrder takes. Empty if no queue has a half-life.
  std::vector<UsageHistory> At(absl::Time now) const;
  // Whether the queue is there and has a half-life.
  bool Keeps(const QueueTree& tree, const std::string& id) const {
    return Find(tree, id).has_value();
  }
  // The queue's history as of `now`, which is what is kept from then on; absl::nullopt if it has no
  // half-life, or nothing is or was ever in use.
  absl::optional<NamedHistory> Renew(const QueueTree& tree, const std::string& id, absl::Time now);

  // Queues whose kept history is another since the last call.
  std::set<std::string> TakeChanged();
  void MarkChanged(const std::string& id) { changed_.insert(id); }

 private:
  struct Kept {
    absl::Duration half_life = absl::ZeroDuration();
    UsageHistory history;
    // In use from history.as_of on.
    Resources used;
  };

  // If it has a half-life.
  absl::optional<int> Find(const QueueTree& tree, const std::string& id) const;
  void SettleNode(const TreeUsage& usage, int node, absl::Time now);
  NamedHistory NamedOf(const QueueTree& tree, const Kept& kept) const;

  // By node; those without a half-life are as made.
  std::vector<Kept> nodes_;
  int kept_ = 0;
  std::set<std::string> changed_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_HISTORIES_H_
