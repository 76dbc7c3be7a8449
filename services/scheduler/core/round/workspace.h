#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_WORKSPACE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_WORKSPACE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "services/scheduler/core/round/class_index.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/node_rows.h"

namespace capstan::scheduler::round {

// The state that a round tries things on: free amounts, an index for each class in use, and a
// journal by which anything is taken back in O(what it touched). Kept from one round to the next,
// it costs what changed between their snapshots; answers do not depend on what it saw before.
// For one thread.
class Workspace {
 public:
  // Takes over a snapshot and forgets what was tried. Free amounts of nodes that neither changed
  // since the snapshot before nor were tried on are not looked at.
  void Load(std::shared_ptr<const Snapshot> snapshot);

  const Snapshot& snapshot() const { return *snapshot_; }
  const NodeRows& rows() const { return rows_; }
  const TaskClass& task_class(ClassId id) const { return snapshot_->classes[id]; }

  // True to the rows until they change again.
  const ClassIndex& Index(ClassId id, Plane plane);
  const Standings& StandingsUnder(ConstraintsId id) { return *StandingsOf(id); }

  // Takes room for `count` tasks; gives it, if `count` is below 0. With kBeyondReservation it also
  // counts against the bounds. `instance`: what the one task has or had, if it has one.
  void Take(int position, ClassId id, int64_t count, Plane plane, InstancePlace instance = {});
  // Takes room for one task of a class that has instances, where it fits, and says which it gets.
  InstancePlace TakeInstance(int position, ClassId id, Plane plane);
  // Gives (`sign` 1) or takes (-1) what a gang's runs hold.
  void Give(const GangShape& shape, absl::Span<const TaskRun> runs, int sign);
  // Bounds kBeyondReservation until the next Load. Not in the journal.
  void SetBound(int position, const NodeBound& bound);

  size_t Mark() const { return journal_.size(); }
  // Takes back all since the mark.
  void UndoTo(size_t mark);

 private:
  struct Entry {
    int position;
    ClassId id;
    int64_t count;
    Plane plane;
    InstancePlace instance;
  };

  const std::shared_ptr<const Standings>& StandingsOf(ConstraintsId id);
  void Apply(const Entry& entry, int64_t sign);

  std::shared_ptr<const Snapshot> snapshot_;
  NodeRows rows_;
  std::vector<Entry> journal_;
  // By constraints.
  std::vector<std::shared_ptr<const Standings>> standings_;
  // By class.
  std::vector<std::unique_ptr<ClassIndex>> now_;
  std::vector<std::unique_ptr<ClassIndex>> beyond_;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_WORKSPACE_H_
