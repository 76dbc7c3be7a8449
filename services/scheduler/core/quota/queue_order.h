#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_ORDER_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "services/scheduler/core/quota/gang_queues.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/request_classes.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/share.h"
#include "services/scheduler/core/quota/tree_usage.h"
#include "services/scheduler/core/quota/usage_history.h"

namespace capstan::scheduler {

inline constexpr int64_t kMaxHistoryPermille = 1000;

// In which order gangs of a quota tree are tried in one round. At each node of the tree, from the
// root down, the child is next that comes first by:
//
//   1. whether its guarantee covers its head: with the head started, it would use no more than its
//      guarantee of every resource that the head needs and somebody set a guarantee of, and there
//      is one such resource; these go first;
//   2. its share with the head started, lowest first: the greatest, over resources, of
//      (used + head's request + history · permille / 1000) / capacity, divided by its weight,
//      compared exactly;
//   3. its id.
//
// The head of a leaf is its first gang that was not yet started or skipped, that of an inner node
// the head of its next child. Queues that are held have none.
//
// Making one costs O(queues · resources + kinds), each Start or Skip O(depth · (resources + log
// siblings) + log kinds). The gangs behind a SkipKind cost no more for being many: of each request
// that they have one takes a turn for all, and again after each start below the same uppermost
// queue.
//
// It only reads what it is given, all of which must outlive it and stay as it is. For one thread.
class QueueOrder {
 public:
  struct Inputs {
    // Copied: the round's own starts are counted in it.
    const TreeUsage& usage;
    const GangQueues& gangs;
    const RequestClasses& requests;
    Resources capacity;
    // By node of the tree, advanced to the round's time; empty: no history. Read only while the
    // order is made. Of what there is none of, history does not count.
    const std::vector<UsageHistory>& histories;
    // How much of the history's average counts beside current use; 0 to kMaxHistoryPermille.
    int64_t history_permille = 0;
    // Leaves out what is not fresh.
    bool fresh_only = false;
  };

  explicit QueueOrder(const Inputs& inputs);

  // False once no gang is left.
  bool has_next() const { return head_leaf_[QueueTree::kRoot] >= 0; }
  // The gang to be tried now and its queue. Only with has_next().
  int next_leaf() const { return head_leaf_[QueueTree::kRoot]; }
  QueuedGang next_gang() const;
  const Resources& next_request() const { return requests_.Get(head(next_leaf()).kind->request); }

  // The next gang starts: it counts as using what it needs, or what it is said to.
  void Start() { Start(next_request()); }
  void Start(const Resources& uses);
  // The next gang does not start in this round; the one behind it in its queue is tried later.
  void Skip();
  // As Skip, and so for every gang of its kind behind it in its queue, none of which is returned
  // any more. The others come in the order in which they would if each of those was skipped in its
  // turn.
  void SkipKind();
  // The same until anybody starts: those whose turn comes after that are returned.
  void SkipKindUntilStart();
  // Nothing of the leaf is tried any more in this round.
  void Block(int leaf);

  // Use as given, and what was started since.
  const TreeUsage& usage() const { return usage_; }
  // By which the node was compared with its siblings: its share with its head started.
  Share share(int node) const { return keys_[node].share; }

 private:
  // Smaller goes first; siblings' ids are in the order of their indices.
  struct Key {
    // 0 if the guarantee covers the head, else 1.
    int tier = 1;
    Share share;
  };
  // The gangs of one kind in one leaf.
  struct Lane {
    const GangKind* kind = nullptr;
    const GangQueues::Gangs* gangs = nullptr;
    // Its first that has had no turn.
    GangQueues::Gangs::const_iterator next;
    // Those left are passed over, until more starts than this were made.
    int64_t passed_until = -1;
  };
  // The lanes of a leaf.
  struct Merge {
    // A heap by priority and order of the first gang.
    std::vector<Lane> lanes;
    // Those of which nobody needs a turn, as things are. In no order.
    std::vector<Lane> parked;
    // Requests of gangs that had a turn since the last start below the same uppermost queue: who is
    // passed over and has the same would have its turn together with the one before it.
    absl::flat_hash_set<uint32_t> turned;
    // Of starts below the uppermost queue, and of all, when this was last put right.
    int64_t starts_near = 0;
    int64_t starts = 0;
  };

  const Lane& head(int leaf) const { return merges_[leaf].lanes.front(); }
  bool IsPassed(const Lane& lane) const { return lane.passed_until >= starts_; }
  static bool IsBehind(const Lane& a, const Lane& b);
  static void AddLane(Merge* merge, Lane lane);
  static Lane TakeHead(Merge* merge);
  // Brings back what has to have turns again.
  void Unpark(int leaf);
  // The head of the leaf has had its turn.
  void Pass(int leaf, bool started, int64_t passed_until);
  // Until the root's head is somebody who is not passed over.
  void Settle();
  void Advance(int leaf);
  void SetLeafHead(int leaf);
  void SetKey(int node);
  bool Before(int a, int b) const;
  // The node's key or head changed: puts it right in its parent's heap.
  void Reposition(int node);
  void SiftUp(int parent, int position);
  void SiftDown(int parent, int position);
  void Put(int parent, int position, int node);
  int* heap(int parent) { return heaps_.data() + offsets_[parent]; }

  const QueueTree& tree_;
  const RequestClasses& requests_;
  const Resources capacity_;
  TreeUsage usage_;
  // What history adds to use, by node; empty if nothing.
  std::vector<Resources> extra_;
  // By leaf.
  std::vector<Merge> merges_;
  int64_t starts_ = 0;
  // By node below the root: starts in it and below.
  std::vector<int64_t> starts_below_;
  // By node: its uppermost queue.
  std::vector<int> uppermost_;
  // By node: the leaf whose gang is the node's head; -1 if it has none.
  std::vector<int> head_leaf_;
  std::vector<Key> keys_;
  // A binary heap of those children that have a head for each node, one behind the other.
  std::vector<int> heaps_;
  std::vector<int> offsets_;
  std::vector<int> heap_sizes_;
  // By node: its place in its parent's heap; -1 if it has no head.
  std::vector<int> positions_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_QUEUE_ORDER_H_
