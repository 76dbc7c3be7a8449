#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_SIZES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_SIZES_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// By group: what the gang needs, and what it may have in all.
std::vector<int> LeastSizes(const GangRequest& gang);
std::vector<int> MostSizes(const GangRequest& gang);

// Whether it may have the part at all.
bool MayHavePart(const GangRequest& gang, const OptionalPart& part);
// Whether any group of the part has a Task.
bool HasAnyOf(const OptionalPart& part, const std::vector<int>& sizes);

// How many Tasks of each group a gang gets that may be of its least: first the parts, in their
// order, then what its groups may have more, in their order, in whole slices, each as many as a
// bisection finds: of one class under one level more may be only if fewer may.
std::vector<int> MostThatMayBe(const GangRequest& gang,
                               absl::FunctionRef<bool(const std::vector<int>& sizes)> may_be);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_GANG_SIZES_H_
