#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_TREE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_TREE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "services/scheduler/core/quota/queue_spec.h"
#include "services/scheduler/core/quota/rate.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {

// A queue with everything that follows from those above and below it. Amounts by position in the
// tree's ResourceNames.
struct QueueNode {
  std::string id;
  // -1 for the root.
  int parent = -1;
  // 0 for the root.
  int depth = 0;
  // One beyond the last queue below it: those below v are v + 1 to end - 1.
  int end = 0;
  int64_t weight = 1;
  // Its own, or else the sum of those directly below it.
  Resources guarantee;
  // Bit r: somebody set a guarantee of r here or, if not here, below.
  uint32_t guarantee_set = 0;
  // The guarantee and what may be borrowed; kNoBound if nothing bounds it.
  Resources cap;
  // The part of the guarantee that is not lent: it counts as used even while it is not.
  Resources reserve;
  // Its own stops and those of every queue above.
  QueueStops stops;
  absl::optional<Rate> submit_rate;
  absl::optional<Rate> start_rate;
  // Zero: no usage history.
  absl::Duration half_life = absl::ZeroDuration();
};

// The quota tree. Node 0 is the root, a queue of no name that has no quota; the others follow
// depth first, siblings by id, so that the tree is the same whatever the order it was given in.
// Immutable: to be shared between threads and rounds. About 600 bytes a queue.
class QueueTree {
 public:
  // Only the root.
  QueueTree();
  // `queues` must have passed ValidateQueues. `resources` are names to be counted beside those
  // that quotas name.
  QueueTree(const std::vector<QueueSpec>& queues, std::vector<std::string> resources);

  static constexpr int kRoot = 0;

  int size() const { return static_cast<int>(nodes_.size()); }
  const QueueNode& node(int index) const { return nodes_[index]; }
  // By id, ascending; empty for a leaf.
  absl::Span<const int> children(int index) const {
    return absl::MakeConstSpan(children_).subspan(first_child_[index],
                                                  first_child_[index + 1] - first_child_[index]);
  }
  // True if Jobs may be submitted to it: a queue without queues below it.
  bool leaf(int index) const { return index != kRoot && nodes_[index].end == index + 1; }
  bool contains(int ancestor, int index) const {
    return ancestor <= index && index < nodes_[ancestor].end;
  }
  // The lowest node that contains both.
  int CommonAncestor(int a, int b) const;
  // Levels below the root.
  int depth() const { return depth_; }

  absl::optional<int> Find(absl::string_view id) const;
  // What messages call a node: `queue "x"`, or `the fleet` for the root.
  std::string Describe(int index) const;

  const ResourceNames& resources() const { return resources_; }
  int resource_count() const { return resources_.size(); }

 private:
  void Link(const std::vector<QueueSpec>& queues);
  void SumGuarantees();
  void InheritSettings(const std::vector<QueueSpec>& queues, const std::vector<int>& spec_of);

  ResourceNames resources_;
  std::vector<QueueNode> nodes_;
  std::vector<int> first_child_;
  std::vector<int> children_;
  absl::flat_hash_map<std::string, int> index_;
  int depth_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_TREE_H_
