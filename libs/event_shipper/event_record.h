// Events as they wait in a store's outbox.
#ifndef CAPSTAN_LIBS_EVENT_SHIPPER_EVENT_RECORD_H_
#define CAPSTAN_LIBS_EVENT_SHIPPER_EVENT_RECORD_H_

#include <string>

#include "proto/capstan/event/v1/job_event.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan {

// Payload of an OutboxRecord that EventShipper sends as `record` to `stream`. Producer and sequence
// are the shipper's to set.
std::string OutboxPayload(const std::string& stream, telemetry::v1::Record record);

// The same for a change of a Job: kind `job_event`, to `<job>/streams/events`, keyed by the Job's
// uid.
std::string OutboxPayload(const event::v1::JobEvent& event);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_EVENT_SHIPPER_EVENT_RECORD_H_
