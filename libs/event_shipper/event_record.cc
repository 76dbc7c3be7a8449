#include "libs/event_shipper/event_record.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {

std::string OutboxPayload(const std::string& stream, telemetry::v1::Record record) {
  telemetry::v1::AppendRecordsRequest request;
  request.set_stream(stream);
  *request.add_records() = std::move(record);
  return request.SerializeAsString();
}

std::string OutboxPayload(const event::v1::JobEvent& event) {
  telemetry::v1::Record record;
  record.set_kind("job_event");
  record.set_key(event.job_uid());
  record.set_payload(event.SerializeAsString());
  *record.mutable_event_time() = event.event_time();
  return OutboxPayload(absl::StrCat(event.job(), "/streams/events"), std::move(record));
}

}  // namespace capstan
