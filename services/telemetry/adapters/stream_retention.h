#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_STREAM_RETENTION_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_STREAM_RETENTION_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/telemetry/adapters/small_streams.h"

namespace capstan::telemetry {

// What is no longer to be kept of a Stream.
struct Retention {
  std::string stream;
  // The whole Stream is older than what is kept.
  bool whole = false;
};

struct RetentionRules {
  // Of one Stream.
  int64_t keep_bytes = 0;
  absl::Time keep_since;
  // Not whole, whatever their age.
  std::set<std::string> keep_newest;
};

// False ends the search.
using FoundRetention = absl::FunctionRef<bool(const Retention&)>;

// Segment logs below `root` with too much, by the size and the time of their files; never the audit
// stream.
void FindOldLogs(const std::string& root, const RetentionRules& rules, FoundRetention found);
// Small Streams to which nothing was appended for too long.
absl::Status FindSilentStreams(SmallStreams* small, const RetentionRules& rules,
                               FoundRetention found);

// When a segment of the log was last written; InfinitePast where there is none.
absl::Time NewestSegment(const std::string& folder);
// Removes a log's folder, and those above it, below `root`, that hold nothing else.
void RemoveLog(const std::string& root, const std::string& folder);

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_STREAM_RETENTION_H_
