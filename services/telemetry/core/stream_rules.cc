#include "services/telemetry/core/stream_rules.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "libs/resource/name.h"
#include "libs/status/error.h"
#include "proto/capstan/event/v1/job_event.pb.h"

namespace capstan::telemetry {
namespace {

constexpr char kStreamExpected[] =
    "expected `projects/{p}/jobs/{j}/streams/{log|events|metrics|usage}` or `streams/audit`";

// A caller that gets one wrong usually gets all wrong.
constexpr size_t kMaxViolations = 20;

void CheckText(const std::string& text, size_t max, const std::string& field,
               status::FieldErrors* errors) {
  if (text.empty() || text.size() > max) {
    errors->Add(field, absl::StrCat("has ", text.size(), " bytes, expected 1 to ", max));
  }
}

}  // namespace

bool IsStreamName(absl::string_view name) {
  if (name == kAuditStream) return true;
  const auto parsed = resource::JobStreamName::Parse(name);
  return parsed.ok() && (parsed->stream == "log" || parsed->stream == "events" ||
                         parsed->stream == "metrics" || parsed->stream == "usage");
}

bool MayAppend(const auth::SpiffeId& caller, absl::string_view stream) {
  if (caller.kind == auth::SpiffeId::Kind::kService) return true;
  if (caller.kind != auth::SpiffeId::Kind::kNode) return false;
  const auto parsed = resource::JobStreamName::Parse(stream);
  return parsed.ok() &&
         (parsed->stream == "log" || parsed->stream == "metrics" || parsed->stream == "usage");
}

std::string JobOf(absl::string_view stream) {
  const auto parsed = resource::JobStreamName::Parse(stream);
  if (!parsed.ok()) return "";
  return resource::JobName{parsed->project, parsed->job}.ToString();
}

absl::Status CheckAppend(const v1::AppendRecordsRequest& request) {
  status::FieldErrors errors;
  if (!IsStreamName(request.stream())) errors.Add("stream", kStreamExpected);
  if (request.records_size() > kMaxAppendRecords) {
    errors.Add("records", absl::StrCat("has ", request.records_size(), " records, at most ",
                                       kMaxAppendRecords));
  }
  const auto bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (bytes > kMaxAppendBytes) {
    errors.Add("records", absl::StrCat("has ", bytes, " bytes, at most ", kMaxAppendBytes));
  }
  for (int i = 0; i < request.records_size(); ++i) {
    const v1::Record& record = request.records(i);
    const std::string at = absl::StrCat("records[", i, "].");
    CheckText(record.kind(), 64, absl::StrCat(at, "kind"), &errors);
    CheckText(record.producer(), 512, absl::StrCat(at, "producer"), &errors);
    if (record.key().size() > 512) errors.Add(absl::StrCat(at, "key"), "has more than 512 bytes");
    if (record.producer_sequence() < 1) {
      errors.Add(absl::StrCat(at, "producer_sequence"), "expected 1 or more");
    }
    if (record.attributes_size() > kMaxAttributes) {
      errors.Add(
          absl::StrCat(at, "attributes"),
          absl::StrCat("has ", record.attributes_size(), " entries, at most ", kMaxAttributes));
    }
    for (const auto& [name, value] : record.attributes()) {
      if (name.size() > kMaxAttributeBytes || value.size() > kMaxAttributeBytes) {
        errors.Add(absl::StrCat(at, "attributes"),
                   absl::StrCat("names and values have at most ", kMaxAttributeBytes, " bytes"));
      }
    }
    if (errors.violations().size() >= kMaxViolations) break;
  }
  return errors.ToStatus();
}

absl::Status CheckAppendToStreams(const v1::AppendToStreamsRequest& request) {
  status::FieldErrors errors;
  if (request.appends_size() > kMaxAppends) {
    errors.Add("appends",
               absl::StrCat("has ", request.appends_size(), " entries, at most ", kMaxAppends));
    return errors.ToStatus();
  }
  const auto bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (bytes > kMaxAppendBytes) {
    errors.Add("appends", absl::StrCat("has ", bytes, " bytes, at most ", kMaxAppendBytes));
  }
  std::set<absl::string_view> streams;
  for (int i = 0; i < request.appends_size(); ++i) {
    if (!streams.insert(request.appends(i).stream()).second) {
      errors.Add(absl::StrCat("appends[", i, "].stream"),
                 "is named by an append before, expected each Stream once");
    }
    if (errors.violations().size() >= kMaxViolations) break;
  }
  return errors.ToStatus();
}

absl::Status CheckRead(const v1::ReadRecordsRequest& request) {
  status::FieldErrors errors;
  if (!IsStreamName(request.stream())) errors.Add("stream", kStreamExpected);
  if (request.start_offset() < 0) errors.Add("start_offset", "is negative; expected 0 or more");
  if (request.tail() < 0) errors.Add("tail", "is negative; expected 0 or more");
  if (request.tail() > 0 && request.start_offset() > 0) {
    errors.Add("tail", "can't be combined with start_offset; expected one of them");
  }
  if (request.attributes_size() > kMaxAttributes) errors.Add("attributes", "has too many entries");
  return errors.ToStatus();
}

bool Matches(const v1::Record& record, const v1::ReadRecordsRequest& request) {
  if (record.kind() == kGapKind) return true;
  for (const auto& [name, value] : request.attributes()) {
    const auto it = record.attributes().find(name);
    if (it == record.attributes().end() || it->second != value) return false;
  }
  return true;
}

v1::Record GapRecordBefore(int64_t first_kept, int64_t dropped_records, int64_t dropped_bytes) {
  event::v1::GapRecord gap;
  gap.set_dropped_records(dropped_records);
  gap.set_dropped_bytes(dropped_bytes);
  gap.set_reason("RETENTION");
  v1::Record record;
  record.set_offset(first_kept - 1);
  record.set_kind(kGapKind);
  record.set_payload(gap.SerializeAsString());
  return record;
}

bool IsRetentionGap(const v1::Record& record) {
  // What was appended has a producer.
  return record.kind() == kGapKind && record.producer().empty();
}

}  // namespace capstan::telemetry
