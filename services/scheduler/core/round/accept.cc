#include "services/scheduler/core/round/accept.h"

namespace capstan::scheduler::round {

Accepted Accept(Fleet& fleet, const Proposal& proposal, absl::Time now) {
  Accepted accepted;
  // Before the nominations, which leave nodes short until their victims have gone.
  for (const Start& start : proposal.starts) {
    const bool ok = fleet.Start(start.gang, start.runs, now).ok();
    (ok ? accepted.started : accepted.conflicts).push_back(start.gang);
  }
  for (size_t i = 0; i < proposal.preemptions.size(); ++i) {
    const Preemption& preemption = proposal.preemptions[i];
    if (fleet.Nominate(preemption.preemptor, preemption.runs, preemption.victims).ok()) {
      accepted.nominated.push_back(i);
    } else {
      accepted.conflicts.push_back(preemption.preemptor);
    }
  }
  for (const Start& growth : proposal.growths) {
    const bool ok = fleet.Grow(growth.gang, growth.runs).ok();
    (ok ? accepted.grown : accepted.conflicts).push_back(growth.gang);
  }
  return accepted;
}

}  // namespace capstan::scheduler::round
