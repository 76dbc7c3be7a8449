#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_DECISION_RECORD_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_DECISION_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/recorder/recording.pb.h"
#include "services/scheduler/recorder/redaction.h"

namespace capstan::scheduler {

namespace recording = ::capstan::scheduler::recordings::v1;

// All of what was decided, redacted, into `out`, which is cleared. A new type of effect does not
// compile until it is recorded.
void RecordDecision(const Step& step, const Redaction& redaction, recording::Decision* out);

// Equal decisions give equal bytes, whatever the process.
void SerializeDecision(const recording::Decision& decision, std::string* out);
uint64_t DigestOf(absl::string_view bytes);

// A new field of CoreConfig does not compile until it is recorded.
recording::ConfigRecord RecordConfig(const CoreConfig& config);
CoreConfig RecordedConfig(const recording::ConfigRecord& record);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_DECISION_RECORD_H_
