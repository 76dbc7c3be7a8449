// The spans of a Job's life. Their ids follow from the Job's trace and uid, so that a span told
// again after a change of leader is the same span.
//
//   <the call that made the Job>
//   ├─ job.submit                decided to durable
//   └─ job                       created to final
//      ├─ job.await_data | job.queue | job.back_off
//      └─ job.generation         placed to ended; what carries its orders out are its children
//         ├─ job.place           decided to durable
//         └─ job.prepare | job.run | job.stop
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_SPANS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_SPANS_H_

#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// The span `job`; absl::nullopt if the Job belongs to no trace.
absl::optional<trace::Context> JobTrace(const JobEntry& job);
// The span `job.generation` of the generation that the Job is in.
absl::optional<trace::Context> GenerationTrace(const JobEntry& job);
// Whether anything is to be told of the Job.
bool IsTraced(const JobEntry& job);

// Two of them.
inline constexpr char kQueuePhase[] = "job.queue";
inline constexpr char kPreparePhase[] = "job.prepare";

// What the Job is at now, `job.queue` and so on; empty if it is final or not in any state yet.
std::string PhaseOf(const JobEntry& job);

// Each of them of a Job that IsTraced.
trace::Span SubmitSpan(const JobEntry& job, absl::Time begin);
trace::Span PlaceSpan(const JobEntry& job, absl::Time begin);
// Of what it is at until `end`.
trace::Span PhaseSpan(const JobEntry& job, absl::Time end);
// `why` is empty for a success.
trace::Span GenerationSpan(const JobEntry& job, absl::Time end, const std::string& why);
// Of a Job that is final.
trace::Span JobSpan(const JobEntry& job);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_JOB_SPANS_H_
