#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_GROWTH_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_GROWTH_H_

#include <vector>

#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/placing_fleet.h"
#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler {

// What a gang gets beside what it has: see PlacingRound::Grow. All that is given outlives it. For
// one thread.
class GangGrowth {
 public:
  // `widest`: the gang with the most of each group, which the workspace is loaded for.
  GangGrowth(PlacingFleet* placing_fleet, round::Workspace* workspace, round::Plane plane,
             const GangRequest& gang, const GangPlacement& has, round::ShapeId widest);

  // Takes the places in the workspace; once.
  void Run(MayHaveMore may_have);

  const std::vector<MoreTasks>& added() const { return added_; }
  // The same in the engine's words, of the widest shape.
  std::vector<round::TaskRun> added_runs() const {
    return {runs_.begin() + had_runs_, runs_.end()};
  }
  // Tasks in all of that.
  int count() const { return count_; }

 private:
  void Add(int group, round::TaskRun run);
  // The part as a whole, if the gang has nothing of it: within the domains that what is around it
  // is in.
  void AddPart(const OptionalPart& part, MayHaveMore may_have);
  // More Tasks of a group, unless that is in a part that the gang is without.
  void GrowGroup(int group, MayHaveMore may_have);

  PlacingFleet* const placing_fleet_;
  round::Workspace* const workspace_;
  const round::Plane plane_;
  const GangRequest& gang_;
  const round::ShapeId widest_;
  // By group: what the most of it is, where the widest shape has it, and how many Tasks there are.
  const std::vector<int> most_;
  const std::vector<int> leaves_;
  std::vector<int> sizes_;
  // Of all that it has by now; those that it had come first.
  std::vector<round::TaskRun> runs_;
  int had_runs_ = 0;
  std::vector<MoreTasks> added_;
  Amounts more_;
  int count_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_GROWTH_H_
