#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_USAGE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_USAGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/accelerator_counts.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// Amounts of resources as numbers.
struct Amounts {
  int64_t cpu_millis = 0;
  int64_t memory_bytes = 0;
  // No zero entries. Of GPUs in MIG mode memory slices, by mig::SliceResource.
  AcceleratorCounts accelerators;
  // Beside those slices: which, of what.
  MigAmounts mig = {};

  static Amounts From(const capstan::type::v1::Resources& resources);
  // What one Task asks for as it does; else without what is no number.
  capstan::type::v1::Resources ToResources() const;

  void Add(const Amounts& other, int64_t times = 1);
  void Subtract(const Amounts& other, int64_t times = 1) { Add(other, -times); }
  // How many of `each` fit into what this is; at most `limit`.
  int64_t Fits(const Amounts& each, int64_t limit) const;

  // Less than nothing of anything: where a Node has shrunk.
  bool AnyBelowZero() const;

  friend bool operator==(const Amounts&, const Amounts&) = default;
};

// What can be placed on a Node in all, its GPUs in MIG mode among it; there are memory slices of
// those that it reports as such and no others, whatever it says of its devices.
Amounts AllocatableOf(const capstan::type::v1::NodeObservation& observation);
// The names of accelerators in that.
void AddAccelerators(const capstan::type::v1::NodeObservation& observation,
                     std::set<std::string>* names);
// What the Task takes in the generation that its gang is in, or was in last: an instance instead of
// what it asks for.
Amounts AmountsOf(const JobEntry& job, int rank);
// What each Task takes that is added to the gang.
Amounts AmountsOf(const JobEntry& job, const rec::GangHeadRecord::Addition& addition);
// As a record has it.
rec::MigPlace PlaceOf(const MigSpot& spot);
// The instance of a rank, or of what is added to the gang.
absl::optional<MigSpot> SpotOf(const JobEntry& job, int rank);
absl::optional<MigSpot> SpotOf(const JobEntry& job, const rec::GangHeadRecord::Addition& addition);
// What a Task takes that asks for `each` and has that instance, if any.
Amounts WithInstance(Amounts each, const absl::optional<MigSpot>& spot);

// What live Tasks take of each Node: a Task counts from its placement until its end is stored.
// Kept from the gangs alone, so that it cannot drift from them. For one thread.
class NodeUsage {
 public:
  struct Entry {
    Amounts allocated;
    int task_count = 0;
    // Uids of the Jobs with a live Task on the Node.
    std::set<std::string> jobs;
  };

  // `keeps_changed`: TakeChanged will be asked.
  explicit NodeUsage(bool keeps_changed = false) : keeps_changed_(keeps_changed) {}

  // Replaces what `job` (or the Job of this uid that is gone, if null) contributes.
  void Update(const std::string& uid, const JobEntry* job);
  // Of a Node without live Tasks: an empty entry.
  const Entry& Get(const NodeId& node) const;
  // The entries of all Nodes that have live Tasks.
  const std::map<NodeId, Entry>& nodes() const { return nodes_; }
  // What the Job's live Tasks take, by Node.
  std::vector<std::pair<NodeId, Amounts>> SharesOf(const std::string& uid) const;
  struct Share {
    Amounts amounts;
    int task_count = 0;

    friend bool operator==(const Share&, const Share&) = default;
  };
  using Shares = std::map<NodeId, Share>;
  // The same of all Jobs that have live Tasks, by uid.
  const std::map<std::string, Shares>& shares() const { return shares_; }
  // Nodes on which the Job has live Tasks.
  std::set<NodeId> NodesOf(const std::string& uid) const;
  // Nodes of which the entry may be another than when this was asked last.
  std::set<NodeId> TakeChanged() { return std::exchange(changed_, {}); }

 private:
  // Of a Job that is live.
  static Shares LiveShares(const JobEntry& job);

  const bool keeps_changed_;
  std::set<NodeId> changed_;
  std::map<NodeId, Entry> nodes_;
  std::map<std::string, Shares> shares_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_USAGE_H_
