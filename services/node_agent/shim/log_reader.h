#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_READER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

// Where a reader of a Task's log stands; the beginning by default. To be stored as it is.
struct LogCursor {
  // First sequence of the segment.
  int64_t segment = 0;
  // Byte in the segment at which the next frame begins.
  int64_t offset = 0;
  // Sequence expected next.
  int64_t next_sequence = 1;

  friend bool operator==(const LogCursor&, const LogCursor&) = default;
};

struct LogBatch {
  // In order. A jump in their sequences is a gap: the spill passed its bound, or a segment is
  // damaged.
  std::vector<capstan::nodeagent::v1::ShimLogRecord> records;
  // Where to go on.
  LogCursor next;
};

// Reads on from `cursor` in the segments below `folder`, at most about `max_bytes` of them, also
// while a shim writes: a frame that is not whole yet is read by a later call. A damaged frame ends
// its segment; reading goes on with the next one, if there is one. An empty batch is the end, for
// now.
absl::StatusOr<LogBatch> ReadLog(const std::string& folder, const LogCursor& cursor,
                                 int64_t max_bytes);

// Removes the segments that lie wholly before the cursor.
absl::Status RemoveShippedSegments(const std::string& folder, const LogCursor& cursor);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_READER_H_
