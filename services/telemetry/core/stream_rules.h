// What may be appended where. Pure.
#ifndef CAPSTAN_SERVICES_TELEMETRY_CORE_STREAM_RULES_H_
#define CAPSTAN_SERVICES_TELEMETRY_CORE_STREAM_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/auth/spiffe_id.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan::telemetry {

// The stream of audit records: not of a project, and never touched by retention.
inline constexpr char kAuditStream[] = "streams/audit";
inline constexpr char kGapKind[] = "gap";

// Bounds of a call and its records.
inline constexpr int64_t kMaxAppendBytes = 1 << 20;
inline constexpr int kMaxAppendRecords = 5000;
// Of a call of AppendToStreams. Every Stream of a call is held open until all are synced.
inline constexpr int kMaxAppends = 256;
inline constexpr int kMaxAttributes = 32;
inline constexpr int kMaxAttributeBytes = 256;

// `projects/{p}/jobs/{j}/streams/{log|events|metrics|usage}` or `streams/audit`. A name that passes
// is also a safe relative path.
bool IsStreamName(absl::string_view name);

// Whether `caller` may append to a Stream with a good name: a Node to the log, the metrics and the
// usage of a Job that was placed on it, a service to any. What a Job's events and the audit trail
// say is not a Node's.
bool MayAppend(const auth::SpiffeId& caller, absl::string_view stream);

// `projects/{p}/jobs/{j}` of a Job's Stream; empty for others.
std::string JobOf(absl::string_view stream);

// INVALID_ARGUMENT with everything that is wrong.
absl::Status CheckAppend(const v1::AppendRecordsRequest& request);
// What is wrong with the call as a whole; its appends are CheckAppend's.
absl::Status CheckAppendToStreams(const v1::AppendToStreamsRequest& request);
absl::Status CheckRead(const v1::ReadRecordsRequest& request);

// Whether the record carries all the attributes asked for. Gaps always pass.
bool Matches(const v1::Record& record, const v1::ReadRecordsRequest& request);

// The record that stands where retention has dropped some; `first_kept` is the offset after it.
v1::Record GapRecordBefore(int64_t first_kept, int64_t dropped_records, int64_t dropped_bytes);
// Whether it is such a record. A gap that a producer has reported is a record like others.
bool IsRetentionGap(const v1::Record& record);

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_CORE_STREAM_RULES_H_
