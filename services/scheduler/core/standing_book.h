#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_STANDING_BOOK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_STANDING_BOOK_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// Where all Nodes stand, kept from one round to the next: whatever it went through, it says what
// `Standings` would find, and costs what has changed. While there are maintenance windows, which
// count from now, it costs all Nodes. For one thread.
class StandingBook {
 public:
  // What it is of, as in `Standings`. The model and the usage are the same ones throughout, and
  // their Nodes never leave.
  struct Scene {
    const Model& model;
    const NodeUsage& usage;
    const std::set<NodeId>& draining;
    const std::set<NodeId>& unreported;
    absl::Time now;
  };

  // To be told of each Node whose record is another, or on which other Tasks live.
  void SetChanged(const NodeId& id) { changed_.insert(id); }
  void SetChanged(std::set<NodeId> ids) { changed_.merge(std::move(ids)); }
  // To be told of each Node of which other is reported than before; a change all the same.
  void SetReported(const NodeId& id) {
    ++revisions_[id];
    changed_.insert(id);
  }
  // All are found anew.
  void SetAllChanged() { all_changed_ = true; }

  // The standings, sorted by id, and their capacities, both with revisions; the caller's until it
  // gives them back, before anything else is asked.
  void Take(const Scene& scene, std::vector<NodeStanding>* standings,
            std::vector<NodeCapacity>* capacities);
  // The same vectors. `disturbed`: positions at which either is not what Take had given.
  void GiveBack(std::vector<NodeStanding> standings, std::vector<NodeCapacity> capacities,
                const std::vector<int>& disturbed);
  // The same standings, to be read until anything else is asked.
  const std::vector<NodeStanding>& Look(const Scene& scene);

  // As of the last Take or Look: what eligible Nodes have in all, and the names of the accelerators
  // of any Node.
  const Amounts& usable() const { return usable_; }
  const std::set<std::string>& accelerators() const { return accelerators_; }

 private:
  // Id, Cluster, whether it is used, and its nominee.
  using Order = std::tuple<std::string, std::string, bool, std::string>;

  static std::vector<Order> OrdersOf(const Model& model);
  // Adds those that are in one of the two alone.
  void AddDifference(const std::set<NodeId>& before, const std::set<NodeId>& after);
  void Renew(const Scene& scene);
  void RenewAll(const Scene& scene);
  // Whether what Nodes have in all may be another.
  bool RenewOne(const Scene& scene, const NodeId& id);
  NodeStanding Find(const Scene& scene, const NodeId& id, const rec::NodeRecord& node) const;
  void SumUp(const Model& model);

  std::vector<NodeStanding> standings_;
  std::vector<NodeCapacity> capacities_;
  Amounts usable_;
  std::set<std::string> accelerators_;

  // By Node, how often it has reported other than before.
  std::map<NodeId, uint64_t> revisions_;
  std::set<NodeId> changed_;
  bool all_changed_ = true;
  // What was there at the last time.
  std::set<NodeId> draining_;
  std::set<NodeId> unreported_;
  std::vector<Order> orders_;
  bool had_windows_ = false;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_STANDING_BOOK_H_
