#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_FRAME_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

// Longest piece of a line in one record.
inline constexpr size_t kLogLineLimit = 64 << 10;
// Longest payload that a reader takes for one: a line and the record's other fields.
inline constexpr size_t kLogPayloadLimit = kLogLineLimit + 256;
// Length and checksum before each payload.
inline constexpr size_t kLogFrameHeader = 8;

// Appends a record's frame: little-endian u32 length, u32 CRC-32C of the payload, payload.
void AppendLogFrame(const capstan::nodeagent::v1::ShimLogRecord& record, std::string* out);

enum class LogFrame {
  // `record` and `size` are set.
  kWhole,
  // The bytes may be the beginning of a frame.
  kIncomplete,
  // They are not.
  kCorrupt,
};

// Reads the frame at the beginning of `bytes`; `size` is its length.
LogFrame ParseLogFrame(absl::string_view bytes, capstan::nodeagent::v1::ShimLogRecord* record,
                       size_t* size);

// `<20 digits>.log`, so that names sort as the sequence of their first record does.
std::string LogSegmentName(int64_t first_sequence);
// The sequence in a segment's name, or -1 if it is none.
int64_t ParseLogSegmentName(absl::string_view name);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_LOG_FRAME_H_
