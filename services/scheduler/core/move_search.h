#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_MOVE_SEARCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_MOVE_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/optional.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/placing_fleet.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/node_rows.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler {

// A round of placing in which gangs are looked for that may be moved.
struct MoveScene {
  PlacingFleet* placing_fleet = nullptr;
  round::Workspace* workspace = nullptr;
  // By position among those held; absent of who stays, come what may.
  const std::vector<absl::optional<round::GangIndex>>* held = nullptr;
  const std::vector<bool>* is_spare = nullptr;
  // That position.
  std::function<int(round::GangIndex gang)> held_of;
  // Brings the workspace up to the fleet, with what is told to end already as gone.
  std::function<void()> prepare;
  // What a gang may take.
  std::function<round::Plane(const GangRequest& gang)> plane_of;
};

// Places that all of some gangs can have together.
struct MoveChoice {
  struct Part {
    // -1: the gang that waits.
    int held = -1;
    GangRequest request;
    round::ShapeId shape = 0;
    round::Plane plane = round::Plane::kNow;
    std::vector<round::TaskRun> runs = {};
  };
  // The one that waits first, then those that are moved, as they were placed.
  std::vector<Part> parts;
  // All that has to end for it.
  std::vector<round::GangIndex> leaving;
  int64_t cost = 0;
};

// Victims by cost alone, of those that may be moved; then a place for the gang that waits, and one
// for each victim, the largest first, as if all had ended. Who has none then is no victim of the
// next try, of which there are a few. At most 32 gangs, and 512 of their Tasks. The workspace is not
// as before.
absl::optional<MoveChoice> ChooseMoves(const MoveScene& scene, const GangRequest& gang,
                                       const MoveRules& rules, int64_t max_cost);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_MOVE_SEARCH_H_
