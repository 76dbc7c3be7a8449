#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_EXPLAIN_MOVES_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_EXPLAIN_MOVES_H_

#include <vector>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// To an answer of ExplainJob that says that no GPU has a place for a MIG instance: whom one would
// have to move so that the Job fits, what that costs, and why nobody is (constraint
// `mig_repartition`). Nothing if that would not help. It names Jobs of the same Project; of others
// it says how many they are. `all_nodes` are by id; it is looked for on the 64 of them with most
// room, and among gangs that are nowhere else, so that a cheaper way or the only one may not be
// seen. O(Nodes + gangs) beside that, and for Jobs that wait for an instance alone.
void ExplainMoves(const Model& model, const NodeUsage& usage, const JobEntry& job,
                  const std::vector<NodeStanding>& all_nodes, const CoreConfig& config,
                  absl::Time now, capstan::scheduler::v1::ExplainJobResponse* response);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_EXPLAIN_MOVES_H_
