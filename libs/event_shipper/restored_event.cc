#include "libs/event_shipper/restored_event.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan {

void RestoredEvents::Prepare(std::string* key, std::string* value) {
  const std::string prefix = absl::StrCat("/capstan/", service_, "/v1/outbox/");
  if (!absl::StartsWith(*key, prefix)) return;
  uint64_t sequence = 0;
  telemetry::v1::AppendRecordsRequest request;
  // What the shipper would give up is left to it.
  if (absl::SimpleHexAtoi(absl::string_view(*key).substr(prefix.size()), &sequence) &&
      request.ParseFromString(*value) && request.records_size() == 1 &&
      request.records(0).producer().empty()) {
    request.mutable_records(0)->set_producer(absl::StrCat(service_, "@", incarnation_));
    request.mutable_records(0)->set_producer_sequence(static_cast<int64_t>(sequence));
    *value = request.SerializeAsString();
  }
  *key = absl::StrCat(prefix, absl::Hex(++events_, absl::kZeroPad16));
}

}  // namespace capstan
