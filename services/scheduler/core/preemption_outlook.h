// Who might end for a Job that waits for room, and when it would fit without that.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PREEMPTION_OUTLOOK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PREEMPTION_OUTLOOK_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/queue_sight.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

struct PreemptionOutlook {
  // Uids of those that would end so that it fits, and whether they only give up Tasks; empty if
  // nobody's end helps, or nobody needs to end.
  std::map<std::string, bool> victims;
  // Why they are not ended now; none: the next round may end them.
  std::vector<capstan::scheduler::v1::ExplainJobResponse::Hindrance> hindrances;
  // Only that hinders it which is over then.
  absl::optional<absl::Time> from;
  // In how long it would fit by itself if nobody came before it; absent if nobody can say.
  absl::optional<StartEstimate> alone;
};

// Looks for them as a round does, on these Nodes alone, which are sorted: first who may end now,
// then who may once that is not too early for anybody any more, then whoever it may be but those
// that are never ended for others. `request` is the Job's, with its least alone.
PreemptionOutlook LookForVictims(const Model& model, const NodeUsage& usage, const JobEntry& job,
                                 const GangRequest& request,
                                 const std::vector<const NodeStanding*>& nodes,
                                 const QueueSight& sight, const CoreConfig& config, absl::Time now);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PREEMPTION_OUTLOOK_H_
