// What UpdateJob can change of a Job.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_CHANGE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_CHANGE_H_

#include <string>

#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/job_entry.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::scheduler {

// Adds everything that is wrong with the mask, and with the fields of the Job that it names.
void ValidateUpdateJob(const capstan::scheduler::v1::UpdateJobRequest& request,
                       status::FieldErrors* errors);

// What a request that is valid asks for.
rec::JobChange JobChangeOf(const capstan::scheduler::v1::UpdateJobRequest& request);

// Whether the Job's spec is another with it, and whether it is held otherwise.
bool ChangesSpec(const rec::JobChange& change, const JobEntry& job);
bool ChangesHold(const rec::JobChange& change, const JobEntry& job);

// Makes the Job's records say so; what follows from it is the core's to do.
void ApplyChange(const rec::JobChange& change, JobEntry* job);

// What becomes of the Job by it, which is not so yet: `priority is 5, and was 0; it is held`.
std::string ChangeInWords(const rec::JobChange& change, const JobEntry& job);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_CHANGE_H_
