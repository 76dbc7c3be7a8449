#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_GROUP_TREE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_GROUP_TREE_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/round/fleet.h"

namespace capstan::scheduler {

// The gang as the engine's tree, with so many Tasks of each group: a root, then its sections, then
// its groups in rank order, so that runs that are sorted by group are sorted by rank; without groups
// of no Tasks, and sections without any. A gang of one group in no section is a leaf alone, which
// may be spread domain by domain.
round::GangShape TreeOf(
    const GangRequest& gang, const std::vector<int>& sizes,
    absl::FunctionRef<round::ClassId(const GangRequest::Group& group)> class_of);
// By group, its position in that; -1 of one that is not there.
std::vector<int> LeavesOf(const GangRequest& gang, const std::vector<int>& sizes);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_GROUP_TREE_H_
