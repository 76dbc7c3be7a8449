#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_LEASES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_LEASES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "libs/time/clock.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// Who has been silent since when, as this leader counts it (DESIGN.md §4, "Fencing of Tasks").
// Nothing here is stored: a new leader counts everything from its own start, which is later than
// any answer of a former one.
//
// The one promise that fencing rests on: no Task on `node` can have a confirmation younger than
// ConfirmedBound(node). An executor's confirmation is the time it *sent* a renewal, which is before
// it was received; once it has reported a Node silent it no longer passes confirmations on to it,
// until the scheduler has acknowledged the Node's return.
class LeaseTable {
 public:
  explicit LeaseTable(const CoreConfig& config) : config_(config) {}

  // Everything known from the records is counted from `now`. `silent` as stored in the Node; one
  // that was given up fell long ago and counts no longer towards a freeze.
  void AddCluster(const std::string& cluster, BootTime now);
  void AddNode(const NodeId& node, bool silent, bool given_up, BootTime now);

  // A message of the Cluster's executor came in.
  void Heard(const std::string& cluster, BootTime now);
  // The executor reported whether it hears the Node's agent.
  void ReportNode(const NodeId& node, bool silent, BootTime now);
  // Declares executors silent that have not been heard for suspect_after; returns them.
  std::vector<std::string> Expire(BootTime now);
  // When Expire has work next; InfiniteFuture if never.
  BootTime NextExpiry() const;

  // Nodes that are silent themselves or whose executor is. O(those).
  std::vector<NodeId> SilentNodes() const;
  bool ClusterSilent(const std::string& cluster) const;
  // The Node's own silence, or that of its executor.
  bool NodeSilent(const NodeId& node) const;
  BootTime ConfirmedBound(const NodeId& node) const;

  // True while so many fell silent together that the observer itself is suspected: nothing may be
  // re-placed by time-out.
  bool frozen() const { return executors_frozen_ || nodes_frozen_; }
  // What is silent now is really gone: it counts no longer towards a freeze until it returns.
  void Confirm();

 private:
  struct ClusterLease {
    BootTime heard_at;
    bool silent = false;
    BootTime fell_at;
    bool confirmed = false;
  };
  struct NodeLease {
    bool silent = false;
    BootTime fell_at;
    bool confirmed = false;
  };

  void Judge(BootTime now);
  // Latches when too many fell within the window, lets go when few enough are silent at all.
  void JudgeOne(int total, int silent, int fell, int minimum, bool* frozen) const;

  const CoreConfig config_;
  std::map<std::string, ClusterLease> clusters_;
  std::map<NodeId, NodeLease> nodes_;
  std::set<NodeId> silent_nodes_;  // themselves
  bool executors_frozen_ = false;
  bool nodes_frozen_ = false;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_LEASES_H_
