#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ACCEPT_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ACCEPT_H_

#include <vector>

#include "absl/time/time.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/round.h"

namespace capstan::scheduler::round {

struct Accepted {
  std::vector<GangIndex> started;
  // Positions in Proposal::preemptions.
  std::vector<size_t> nominated;
  std::vector<GangIndex> grown;
  // Gangs whose part no longer holds: they wait on.
  std::vector<GangIndex> conflicts;
};

// Carries a proposal out on the fleet, which may have changed since the snapshot: what no longer
// holds is left out, each gang by itself. O(runs of the proposal).
Accepted Accept(Fleet& fleet, const Proposal& proposal, absl::Time now);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ACCEPT_H_
