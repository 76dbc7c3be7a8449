#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_EVENT_RECORD_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_EVENT_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/recorder/recording.pb.h"
#include "services/scheduler/recorder/redaction.h"

namespace capstan::scheduler {

namespace recording = ::capstan::scheduler::recordings::v1;

// Into `out`, which is cleared, with everything that the core may look at. A new type of event does
// not compile until it is recorded.
void RecordEvent(const Event& event, const Redaction& redaction, recording::EventRecord* out);

// The event again. DATA_LOSS with reason RECORDING_DAMAGED if it is none that this program knows.
absl::StatusOr<Event> RecordedEvent(const recording::EventRecord& record);

// `CreateJob call 7 projects/p/jobs/train`: what happened, and to what, on one line.
std::string EventInWords(const recording::EventRecord& record);

// Nanoseconds, saturated: the largest and the least number are infinite.
int64_t ToNanoseconds(absl::Duration duration);
absl::Duration FromNanoseconds(int64_t ns);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_EVENT_RECORD_H_
