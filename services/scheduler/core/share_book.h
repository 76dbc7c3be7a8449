#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_SHARE_BOOK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_SHARE_BOOK_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "services/scheduler/core/demand.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/quota/queue_spec.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/tree_usage.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// What each Queue uses and is entitled to, and how well the fleet is used, as of records. What is
// in use follows each change; the rest is as of the last Compute. Pure: equal calls give equal
// answers, whatever came in between. For one thread.
class ShareBook {
 public:
  ShareBook() = default;
  ShareBook(const ShareBook&) = delete;
  ShareBook& operator=(const ShareBook&) = delete;

  // As stored. O(queues + live Jobs).
  void SetQueues(const std::map<std::string, rec::QueueRecord>& queues);
  // The Job as stored, or null once it is gone or not live.
  void SetJob(const std::string& uid, const JobEntry* job);
  // The Node as stored, or null once it is gone, and what Tasks take of it.
  void SetNode(const NodeId& id, const rec::NodeRecord* node, const Amounts& allocated);

  // Of what is in use now, and what waits. O(queues · log queues + Nodes with a free accelerator ·
  // kinds of what waits), the kinds being bounded.
  void Compute(const std::vector<DemandBook::Wanted>& wanted);

  struct QueueShare {
    struct Amount {
      int64_t in_use = 0;
      int64_t fair_share = 0;

      friend bool operator==(const Amount&, const Amount&) = default;
    };
    // By resource; none that is all zero.
    std::map<std::string, Amount> amounts;
    // The greatest part of the fleet in any resource.
    double dominant = 0;
    double fair_dominant = 0;
  };
  // Of the Queue with this id.
  QueueShare Of(const std::string& queue) const;

  // Half the sum, over all Queues without Queues below them, of the distance between the dominant
  // share of what is in use and that of the fair share: the part of the fleet that is not where it
  // ought to be, if one resource is what all want.
  double error() const { return error_; }
  // Accelerators free on Nodes that take Tasks, of a type that some waiting Task asks for, where no
  // such Task would fit. Those in MIG mode are not counted.
  int64_t fragmented() const { return fragmented_; }
  // Gangs that are to go on with fewer Tasks than their least: none, ever. Tasks that exited 0 do
  // not lack.
  int64_t partial() const { return static_cast<int64_t>(partial_.size()); }

 private:
  struct Live {
    std::string queue;  // id
    Amounts amounts;
  };
  // Of a Node that takes Tasks, or has some.
  struct Room {
    Amounts counted;  // in capacity_
    // Accelerators are left; then all that is.
    bool any_free = false;
    Amounts free;
  };

  // A tree that knows all names of accelerators.
  void MakeTree();
  void LearnNames(const Amounts& amounts);
  void CountFragments(const std::vector<DemandBook::Wanted>& wanted);

  std::vector<QueueSpec> specs_;
  std::set<std::string> accelerators_;
  QueueTree tree_;
  TreeUsage usage_{tree_};
  std::map<std::string, Live> live_;  // by uid
  std::map<NodeId, Room> rooms_;
  Amounts capacity_;
  std::set<std::string> partial_;  // uids

  // As of the last Compute. By node of the tree; empty after a change of that.
  std::vector<Resources> fair_;
  Resources fleet_;
  double error_ = 0;
  int64_t fragmented_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_SHARE_BOOK_H_
