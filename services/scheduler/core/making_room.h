// Who makes room for a Job, and why each of them has to.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_MAKING_ROOM_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_MAKING_ROOM_H_

#include <string>

#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/round/need.h"

namespace capstan::scheduler {

rec::JobStateRecord::Need NeedRecordOf(const round::Need& need);

// Of two parts of one gang, of which either must go, what is said of both: if all of it stayed, no
// more Tasks would have room than if either did.
rec::JobStateRecord::Need StrongerOf(const rec::JobStateRecord::Need& a,
                                     const rec::JobStateRecord::Need& b);

// E.g. `otherwise at most 6 of its 8 Tasks would have room`; empty if it is not known. `beneficiary`
// is who needs the room.
std::string NeedInWords(const rec::JobStateRecord::Need& need, const JobEntry& beneficiary);

// Adds who makes room for the Job, if anybody does; of other Projects how many alone.
void ExplainVictims(const Model& model, const JobEntry& job,
                    capstan::scheduler::v1::ExplainJobResponse* response);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_MAKING_ROOM_H_
