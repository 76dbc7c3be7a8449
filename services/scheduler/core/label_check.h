// An independent judge of where Tasks stand by the labels of Nodes: written from the meaning of the
// words (NodeRequirement), sharing no code with what places. For tests.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_LABEL_CHECK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_LABEL_CHECK_H_

#include <vector>

#include "absl/status/status.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// All that the Job and the TaskGroup of the rank require.
std::vector<capstan::scheduler::v1::NodeRequirement> RequirementsOf(const JobEntry& job, int rank);

// FAILED_PRECONDITION naming the first of them that the Node's labels do not meet.
absl::Status CheckLabels(const std::vector<capstan::scheduler::v1::NodeRequirement>& requirements,
                         const capstan::type::v1::NodeObservation& node);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_LABEL_CHECK_H_
