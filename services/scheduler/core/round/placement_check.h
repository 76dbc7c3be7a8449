// An independent judge of placements: written from the meaning of the words, sharing no code with
// what places.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_PLACEMENT_CHECK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_PLACEMENT_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/scheduler/core/round/fleet.h"

namespace capstan::scheduler::round {

// Free amounts by node, to be reduced by what is placed.
class FreeLedger {
 public:
  explicit FreeLedger(const Snapshot& snapshot);

  // FAILED_PRECONDITION naming the first rule that the runs break: whole, on nodes that admit them,
  // each group and each slice in one domain of its level, within what is free, with MIG instances
  // that are asked for and can stand together. Otherwise takes what they take.
  absl::Status Place(const GangShape& shape, absl::Span<const TaskRun> runs);
  // Adds to what a gang of this shape already has.
  absl::Status Grow(const GangShape& shape, absl::Span<const TaskRun> has,
                    absl::Span<const TaskRun> more);
  // Gives back what a gang holds.
  void Release(const GangShape& shape, absl::Span<const TaskRun> runs);

  const std::vector<ResourceVector>& free() const { return free_; }

 private:
  absl::Status CheckCounts(const GangShape& shape, absl::Span<const TaskRun> runs) const;
  absl::Status CheckAdmission(const GangShape& shape, absl::Span<const TaskRun> runs) const;
  absl::Status CheckTopology(const GangShape& shape, absl::Span<const TaskRun> runs) const;
  absl::Status CheckSlices(const GangShape& shape, absl::Span<const TaskRun> runs) const;
  // Empty if the node is in none.
  std::string DomainOf(NodeIndex node, int level) const;
  absl::Status TakeRoom(const GangShape& shape, absl::Span<const TaskRun> runs);

  // Whether what stands on the GPU could, if it was made one after the other.
  absl::Status CheckGpu(NodeIndex node, size_t gpu) const;

  const Snapshot& snapshot_;
  std::vector<ResourceVector> free_;
  // By node and GPU in MIG mode: positions at which instances stand, each as often as it is held.
  std::vector<std::vector<std::vector<int>>> instances_;
};

// Whether `group` is `ancestor` or lies below it.
bool IsWithin(const GangShape& shape, int group, int ancestor);

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_PLACEMENT_CHECK_H_
