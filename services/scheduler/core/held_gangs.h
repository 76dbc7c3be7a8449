// Gangs that hold a place, as a Placer is told of them.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_HELD_GANGS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_HELD_GANGS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

struct HeldFacts {
  // For how long it has run.
  absl::Duration ran;
  // One of its Tasks is on a silent Node.
  bool any_silent = false;
  // In how long it is stopped for a maintenance window.
  absl::Duration evicted_in = absl::InfiniteDuration();
  // It is being stopped to grow, and its room is kept.
  bool comes_back = false;
};

// What of a live gang's Job decides how it is seen, until the Job changes.
struct HeldTerms {
  int32_t priority = 0;
  rec::GangHeadRecord::Phase phase = rec::GangHeadRecord::PHASE_UNSPECIFIED;
  absl::Duration grace;
  // As it says itself.
  bool preemptible = false;
  // With what its stop takes; absent if nothing was declared.
  absl::optional<absl::Duration> longest_run;
  // So often its work is saved.
  absl::optional<absl::Duration> checkpoint_period;

  static HeldTerms Of(const JobEntry& job);
};

// Sets all but the uid, the shares and what is told apart by them. It is preemptible as far as it
// says so itself, and neither comes back nor is on a silent Node, where its end may be long in
// coming.
void SetStanding(const HeldTerms& terms, const HeldFacts& facts, HeldGang* gang);

// A live gang but for what it takes.
HeldGang HeldGangOf(const JobEntry& job, const HeldFacts& facts);

// Adds the gang; of one that has more than its least, what that is behind it. `position_of` is -1
// of a Node that is not there.
void SplitHeld(const JobEntry& job, HeldGang gang,
               absl::FunctionRef<int(const NodeId& id)> position_of, std::vector<HeldGang>* all);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_HELD_GANGS_H_
