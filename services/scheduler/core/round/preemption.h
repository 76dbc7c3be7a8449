#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_PREEMPTION_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_PREEMPTION_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/round/budgets.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/need.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler::round {

// Gangs that end so that one of higher standing starts. Whole gangs; without any one of them the
// preemptor would not fit.
struct Preemption {
  GangIndex preemptor = 0;
  // By rank.
  std::vector<GangIndex> victims;
  // The certificate, by position in `victims`: why each of them is needed.
  std::vector<Need> needs;
  // Where it goes once they have ended.
  std::vector<TaskRun> runs;
  // Sum of LostWork; where that is not weighed, how many they are.
  int64_t cost = 0;

  friend bool operator==(const Preemption&, const Preemption&) = default;
};

struct PreemptionLimits {
  // A gang that has run for less is no victim.
  absl::Duration min_runtime = absl::ZeroDuration();
  // Task placements that may be tried for one preemptor; where a minimal set is not certain
  // within them, none is named.
  int64_t max_tried_tasks = 4'000'000;
  // Off, to study what it is worth: all victims are as dear, so that of sets with equal highest
  // priority the one with fewest is named.
  bool weigh_lost_work = true;
};

// Work that ends with the gang: seconds since its last checkpoint, times its accelerators in
// thousandths, or where it has none its cores in thousandths. At least 1.
int64_t LostWork(const Snapshot& snapshot, GangIndex gang, absl::Time now);
// The same of a gang whose last checkpoint is so long ago.
int64_t LostWork(const Snapshot& snapshot, GangIndex gang, absl::Duration unsaved);

// Whether `victim` may end for `preemptor`: in its own queue by priority, in another by guarantee.
bool MayEvict(const Snapshot& snapshot, const Budgets& budgets, const PreemptionLimits& limits,
              GangIndex preemptor, GangIndex victim, absl::Time now);

// What queues say while victims are looked for: who may end for the preemptor, and whether that
// leaves it the quota it needs.
class EvictionRules {
 public:
  virtual ~EvictionRules() = default;

  // Whether the gang may end for it, if nobody else does.
  virtual bool MayEvict(GangIndex victim) const = 0;
  // Of gangs of which each may, best first: some that all may together, and hence any of them.
  virtual std::vector<GangIndex> Together(std::vector<GangIndex> candidates) const = 0;
  // Counts the gang as ended, or as not after all.
  virtual void SetEnded(GangIndex victim, bool ended) = 0;
  // Whether the preemptor's queues let it start, with those gone that count as ended. Once it may,
  // it also may with more of them gone.
  virtual bool MayStart() const = 0;
  // What going costs the gang, in a unit of the rules' own, at least 1. Then the cheapest set is
  // looked for, whatever priorities are in it. Absent: LostWork is weighed, behind priorities.
  virtual absl::optional<int64_t> CostOf(GangIndex) const { return absl::nullopt; }
  // What LostWork says of it, where the rules know better than the snapshot.
  virtual absl::optional<int64_t> LostWorkOf(GangIndex) const { return absl::nullopt; }
  // Of sets that are equal otherwise, the one whose members rank lower is named. Different for each.
  virtual uint64_t RankOf(GangIndex gang) const { return gang; }
};

// The cheapest set of victims found that makes room, and quota, for the gang: lowest highest
// priority, then least lost work, then fewest. Minimal by inclusion: for gangs whose groups are of
// one class, in slices of one kind, under one level over all domains, since what fits goes on
// fitting when more is free; for others in the domain where it goes, by trying each victim.
// absl::nullopt if there is none. `excluded` are gangs that cannot be victims any more. The
// workspace is as before.
//
// O(Nodes + runs of all candidates · log + victims · domains) for the former.
absl::optional<Preemption> FindVictims(Workspace& workspace, GangPlacer& placer,
                                       const Budgets& budgets, const PreemptionLimits& limits,
                                       const absl::flat_hash_set<GangIndex>& excluded,
                                       GangIndex preemptor, absl::Time now, Plane plane);

// As above, by other rules than budgets: of the running, preemptible gangs that are not excluded.
absl::optional<Preemption> FindVictims(Workspace& workspace, GangPlacer& placer,
                                       EvictionRules& rules, const PreemptionLimits& limits,
                                       const absl::flat_hash_set<GangIndex>& excluded,
                                       GangIndex preemptor, absl::Time now, Plane plane);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_PREEMPTION_H_
