// An independent judge of where gangs are put in time, beside Nodes that take nothing for a while:
// written from the meaning of the words (docs/scheduling.md, "Maintenance"), sharing no code with
// what places. For tests.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CLOSURE_CHECK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CLOSURE_CHECK_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/maintenance.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// How long a Job holds its Nodes at most, from when it is placed: a minute for PREPARE, its time
// limit and its grace; infinite if it declares no limit.
absl::Duration LongestStay(const capstan::scheduler::v1::JobSpec& spec);

// Whether the window, which is of the Node's Cluster, is of the Node by its name, labels or all.
bool IsOf(const capstan::scheduler::v1::MaintenanceWindow& window, const NodeId& id,
          const rec::NodeRecord& node);

// When the windows, by Cluster and id, close the Node: one for each of them that is not over at
// `now`, as they come; they may overlap.
std::vector<Closure> ClosuresBy(
    const std::map<std::pair<std::string, std::string>, rec::MaintenanceWindowRecord>& windows,
    const NodeId& id, const rec::NodeRecord& node, absl::Time now);

// FAILED_PRECONDITION if what comes to the Node `start` from now, and may stay so long, begins in
// one of the closures, or would run into one. It may end just as one begins, and begin just as one
// is over.
absl::Status CheckStay(absl::Span<const Closure> closures, absl::Duration start,
                       absl::Duration stay);

// The same of all Tasks of a gang, `placed` by rank as positions in `nodes`; names the Node.
absl::Status CheckStays(absl::Span<const NodeCapacity> nodes, absl::Span<const int> placed,
                        absl::Duration start, absl::Duration stay);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CLOSURE_CHECK_H_
