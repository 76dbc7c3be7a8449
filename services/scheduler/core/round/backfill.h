#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_BACKFILL_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_BACKFILL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/node_rows.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler::round {

// Room that will be free when the first gang in order that does not fit now can start.
struct Reservation {
  GangIndex gang = 0;
  // When it can at the latest, if every gang ends by what it declared.
  absl::Time start;
  // Whether the end of a gang that declared none, or has overrun, was assumed to get there.
  bool assumed = false;
  std::vector<TaskRun> runs;
  // What Plane::kBeyondReservation is bounded to on its nodes.
  std::vector<std::pair<NodeIndex, NodeBound>> bounds;
};

// What a gang that holds a place leaves, and when.
struct Departure {
  absl::Time end;
  bool assumed = false;
  GangIndex gang = 0;
  // Of those that end at once the first goes first. Different for each.
  uint64_t order = 0;
  const GangShape* shape = nullptr;
  std::shared_ptr<const std::vector<TaskRun>> runs;
};

// `gang`'s expected end: started + declared; `started` + `assumed_duration` if it declared nothing;
// and once that is past, as long again as it has run already. A gang told to go ends now.
Departure DepartureOf(const Snapshot& snapshot, GangIndex gang, absl::Time now,
                      absl::Duration assumed_duration);

// What a gang is if it begins between `from` and the next such time: its constraints may name other
// nodes where these are closed for a time.
struct Beginning {
  absl::Time from;
  const GangShape* shape = nullptr;
};

// EASY backfill: finds the earliest time at which the gang fits, that of a departure or of a
// beginning, and bounds Plane::kBeyondReservation so that what is placed there cannot take what it
// will need. The workspace's free amounts are as before. `beginnings`, by time, starts with `now`,
// at which the gang does not fit. absl::nullopt if it does not fit after all have gone and the last
// of them. O(holders' runs + (beginnings + log(holders)) · placing the gang), or twice as often
// through the runs where it begins at none of the first times.
absl::optional<Reservation> Reserve(Workspace& workspace, GangPlacer& placer, GangIndex gang,
                                    const std::vector<Beginning>& beginnings,
                                    std::vector<Departure> departures);
// The same where it is the same whenever it begins.
absl::optional<Reservation> Reserve(Workspace& workspace, GangPlacer& placer, GangIndex gang,
                                    std::vector<Departure> departures, absl::Time now);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_BACKFILL_H_
