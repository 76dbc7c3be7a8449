#include "services/node_agent/shim/log_frame.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "libs/crc32c/crc32c.h"

namespace capstan::node_agent {
namespace {

constexpr absl::string_view kSuffix = ".log";
constexpr size_t kDigits = 20;

void AppendU32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t ReadU32(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = (value << 8) | static_cast<uint8_t>(bytes[i]);
  return value;
}

}  // namespace

void AppendLogFrame(const capstan::nodeagent::v1::ShimLogRecord& record, std::string* out) {
  const std::string payload = record.SerializeAsString();
  AppendU32(static_cast<uint32_t>(payload.size()), out);
  AppendU32(Crc32c(payload), out);
  out->append(payload);
}

LogFrame ParseLogFrame(absl::string_view bytes, capstan::nodeagent::v1::ShimLogRecord* record,
                       size_t* size) {
  if (bytes.size() < kLogFrameHeader) return LogFrame::kIncomplete;
  const uint32_t length = ReadU32(bytes);
  // An empty record is never written; a file's zero-filled tail must not pass for one.
  if (length == 0 || length > kLogPayloadLimit) return LogFrame::kCorrupt;
  if (bytes.size() - kLogFrameHeader < length) return LogFrame::kIncomplete;
  const absl::string_view payload = bytes.substr(kLogFrameHeader, length);
  if (Crc32c(payload) != ReadU32(bytes.substr(4)) ||
      !record->ParseFromArray(payload.data(), static_cast<int>(payload.size())) ||
      // Sequences begin at 1, and no shim counts that far.
      record->sequence() < 1 || record->sequence() == std::numeric_limits<int64_t>::max()) {
    return LogFrame::kCorrupt;
  }
  *size = kLogFrameHeader + length;
  return LogFrame::kWhole;
}

std::string LogSegmentName(int64_t first_sequence) {
  return absl::StrFormat("%020d%s", first_sequence, kSuffix);
}

int64_t ParseLogSegmentName(absl::string_view name) {
  int64_t sequence = 0;
  if (name.size() != kDigits + kSuffix.size() || !absl::EndsWith(name, kSuffix) ||
      !absl::SimpleAtoi(name.substr(0, kDigits), &sequence) || sequence < 0) {
    return -1;
  }
  return sequence;
}

}  // namespace capstan::node_agent
