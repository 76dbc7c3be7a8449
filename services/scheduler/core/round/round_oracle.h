// An independent judge of whole rounds, for tests and for benchmarks outside the timed part.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_ORACLE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_ORACLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/scheduler/core/round/placement_check.h"
#include "services/scheduler/core/round/round.h"

namespace capstan::scheduler::round {

// Of tasks of one class in all leaves, in equal slices or none, under the root's level alone, how
// many fit into `free` where most do: by counting domain by domain; of so many that all fit, no
// fewer than these. Only for shapes for which CanCount.
int64_t MostThatFit(const Snapshot& snapshot, const GangShape& shape,
                    absl::Span<const ResourceVector> free);
// Whether all of them do.
bool CountsToFit(const Snapshot& snapshot, const GangShape& shape,
                 absl::Span<const ResourceVector> free);
bool CanCount(const GangShape& shape);

// FAILED_PRECONDITION naming the first rule that the proposal breaks: everything it starts, makes
// room for and grows is whole, admitted, within its topology and within what is free, all of it
// together; victims ran, are named once, and make the room. With `minimal`, no victim of a gang
// that CanCount could have stayed, each is needed for what is said of it, and none were named for a
// gang that would have fitted. With `complete`, no gang that CanCount waits for room that there is.
// Quotas are checked by the caller.
struct RoundChecks {
  bool minimal = true;
  bool complete = true;
};
absl::Status CheckRound(const Snapshot& snapshot, absl::Span<const GangIndex> order,
                        const Proposal& proposal, const RoundChecks& checks);

// The proposal in words that are equal for equal proposals.
std::string Describe(const Proposal& proposal);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_ROUND_ORACLE_H_
