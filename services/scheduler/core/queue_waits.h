// That it is not for want of room, or not only, that a Job waits.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_WAITS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_WAITS_H_

#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/queue_sight.h"

namespace capstan::scheduler {

// Adds to an answer of ExplainJob which Queue, limit, rate or other Job holds a QUEUED Job back, by
// the reason that it has, with the amounts of now; and what limits would have to be for it to be
// tried. `sight` may be null: then without amounts. O(depth of the Queues).
void ExplainQueueWaits(const Model& model, const JobEntry& job, const QueueSight* sight,
                       capstan::scheduler::v1::ExplainJobResponse* response);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUEUE_WAITS_H_
