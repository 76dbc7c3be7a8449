// Arrays: one submission that makes many Jobs. The array is itself a Job, which never runs and is
// over once its elements are; each element is a Job of its own.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ARRAYS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ARRAYS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

bool IsArray(const JobEntry& job);
bool IsElement(const JobEntry& job);

// `projects/p/jobs/sweep-3`.
std::string ElementName(absl::string_view array, int index);
// A UUID4 that follows from the array's uid, so that an element is made once, whoever makes it.
std::string ElementUid(absl::string_view array_uid, int index);

// The element as it is submitted: names itself, and of each array that it corresponds to the
// element of its own index. Elements come after their array in the order of submission, by index.
rec::JobSpecRecord ElementSpec(const JobEntry& array, int index);

// What the array knows of an element: whether it has ended, and how.
bool HasEnded(const JobEntry& array, int index);
bool HasSucceeded(const JobEntry& array, int index);
// Tells it.
void SetEnded(int index, bool succeeded, JobEntry* array);

capstan::scheduler::v1::ArrayProgress ProgressOf(const JobEntry& array);

// `3 of its 10 elements have ended, 2 of them with success; waits for projects/p/jobs/a-3 (RUNNING,
// STARTED), …`.
std::string ElementsInWords(const JobEntry& array, const Model& model);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ARRAYS_H_
