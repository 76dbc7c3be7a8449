#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_DEMAND_CLASS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_DEMAND_CLASS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// Priorities in one class.
inline constexpr int kPriorityBand = 100;

// What a Job needs of Nodes, without what differs in a class of demand.
struct DemandNeed {
  // By shape; most Jobs have one.
  using TaskCounts = absl::InlinedVector<int64_t, 1>;

  // Equal for Jobs of one class.
  std::string key;
  // Groups whose Tasks need the same are one shape, whatever their order and names: the first of
  // each in the Job's spec, which must outlive this.
  std::vector<const capstan::scheduler::v1::TaskGroup*> shapes;
  // Tasks of each shape, at least.
  TaskCounts tasks;
  // Clusters that it may run in, ascending; empty: any.
  std::vector<std::string> clusters;
  // Lowest priority of its band.
  int min_priority = 0;

  static DemandNeed Of(const JobEntry& job);
};

// As it is shown: 16 hex digits.
std::string DemandClassId(absl::string_view key);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_DEMAND_CLASS_H_
