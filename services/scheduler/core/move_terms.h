// What it takes to have a gang stand elsewhere, so that a MIG instance fits that only scattered room
// is there for (docs/adr/0011-mig-repartition.md).
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_MOVE_TERMS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_MOVE_TERMS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// After a round that searched for somebody to move in vain: what has changed since is looked at
// together, for a search goes over all Nodes.
inline constexpr absl::Duration kPauseAfterVain = absl::Seconds(10);

// Time of whole GPUs: of the work that the gang loses with the stop, a MIG instance counting by its
// memory slices, and `act_cost`. At least a millisecond.
absl::Duration CostOfMove(const JobEntry& job, absl::Duration unsaved, absl::Duration act_cost);

// mig::SliceResource of each model of which it asks for an instance.
std::set<std::string> SliceResourcesOf(const GangRequest& request);

// The Job as it asks to be placed, with the sizes of its generation and in the same Cluster.
GangRequest MovedRequest(GangRequest request, const JobEntry& job);

// A placement as a record has it, and back: `position_of` is -1 of a Node that is not there. The
// latter is absent if any is not, or if it is no place of the Job's generation.
rec::PlannedPlace PlannedPlaceOf(const std::vector<NodeCapacity>& nodes,
                                 const GangPlacement& placement);
absl::optional<GangPlacement> PlacementOf(const JobEntry& job, const rec::PlannedPlace& place,
                                          absl::FunctionRef<int(const NodeId& id)> position_of);

// Who may be moved for a gang that asks for MIG instances: whoever has an instance of a GPU of such
// a model and may be ended for another, whatever its priority and Queue, and is not being ended yet.
// Costs are CostOfMove in milliseconds. `model` and `held` outlive it; for one thread.
class MoveTerms final : public MoveRules {
 public:
  // `request_of`: what is asked for a Job that is held.
  MoveTerms(const Model* model, const std::vector<HeldGang>* held, const GangRequest& wants,
            absl::Duration act_cost, std::function<GangRequest(const JobEntry& job)> request_of);

  // Whether it has such an instance.
  bool IsInTheWay(int held) const;
  absl::optional<int64_t> CostOf(int held) const override;
  GangRequest RequestOf(int held) const override;

 private:
  const Model* const model_;
  const std::vector<HeldGang>* const held_;
  // Of what is wanted.
  const std::set<std::string> slices_;
  const absl::Duration act_cost_;
  const std::function<GangRequest(const JobEntry& job)> request_of_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_MOVE_TERMS_H_
