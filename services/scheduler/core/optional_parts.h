#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_OPTIONAL_PARTS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_OPTIONAL_PARTS_H_

#include <vector>

#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::scheduler {

// A section that a gang may be without, as `min_sections` of its parent says, or of the Job. A gang
// has it whole, which is at least what each of its groups needs, or nothing of it.
struct OptionalPart {
  // Position in the spec.
  int section = 0;
  // The part that it lies in, an earlier one, which is there whenever this one is; -1: none.
  int within = -1;
  // Positions of the groups that are in it, and in no part that lies in it; at least one.
  std::vector<int> groups;

  friend bool operator==(const OptionalPart&, const OptionalPart&) = default;
};

// In order of their sections. Of a spec that is not valid: anything.
std::vector<OptionalPart> OptionalParts(const capstan::scheduler::v1::JobSpec& spec);

// Tasks that a group has at least, where it has any.
int MinReplicas(const capstan::scheduler::v1::TaskGroup& group);
// Whether the group is in a part.
bool IsOptional(const capstan::scheduler::v1::JobSpec& spec, int group);
// The least number of Tasks of each group: 0 of those that the gang may be without.
std::vector<int> MinSizes(const capstan::scheduler::v1::JobSpec& spec);
// Whether a gang with so many Tasks of each group has those that it must have, and each part whole
// or not at all.
bool HasWholeParts(const capstan::scheduler::v1::JobSpec& spec, const std::vector<int>& sizes);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_OPTIONAL_PARTS_H_
