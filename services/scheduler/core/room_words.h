// What is said of the Nodes of a fleet that has no room for a gang.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROOM_WORDS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROOM_WORDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/partial_fit.h"
#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// Adds that so many of `total` Nodes do, which `one` says of one and `many` of several; nothing of
// none.
void AddCount(absl::string_view type, int count, int total, absl::string_view one,
              absl::string_view many, const std::vector<NodeId>& which,
              capstan::scheduler::v1::ExplainJobResponse* response);

// Adds of what, and how much, the Nodes lack that are left for the next Task; what most of them
// lack comes first. `task_count`: of how many Tasks some were put down.
void AddLacking(const GangRequest& gang, const PartialFit& fit, const std::string& task_count,
                capstan::scheduler::v1::ExplainJobResponse* response);

// Adds that slices are whole in no domain.
void AddSlice(const GangRequest& gang, const PartialFit& fit, const std::string& task_count,
              capstan::scheduler::v1::ExplainJobResponse* response);

// What must be in one domain of those around the group, the widest first; of no group if it is -1.
std::vector<std::string> WithinWords(const JobEntry& job, const GangRequest& gang, int group);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROOM_WORDS_H_
