#include "libs/segment_log/frame.h"

#include "libs/crc32c/crc32c.h"

namespace capstan::segment_log {
namespace {

void PutU32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t GetU32(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

void AppendFrame(FrameKind kind, absl::string_view payload, std::string* out) {
  const size_t begin = out->size();
  PutU32(static_cast<uint32_t>(payload.size() + 1), out);
  PutU32(0, out);
  out->push_back(static_cast<char>(kind));
  out->append(payload.data(), payload.size());
  const absl::string_view written(*out);
  uint32_t crc = Crc32c(written.substr(begin, 4));
  crc = Crc32c(written.substr(begin + kFramePrefix), crc);
  std::string crc_bytes;
  PutU32(crc, &crc_bytes);
  out->replace(begin + 4, 4, crc_bytes);
}

Frame ParseFrame(absl::string_view bytes) {
  Frame frame;
  if (bytes.size() < kFramePrefix) {
    frame.outcome = Frame::Outcome::kTruncated;
    return frame;
  }
  const size_t length = GetU32(bytes);
  if (length == 0 || length > kMaxFramePayload + 1) return frame;
  if (bytes.size() < kFramePrefix + length) {
    frame.outcome = Frame::Outcome::kTruncated;
    return frame;
  }
  const uint32_t crc = Crc32c(bytes.substr(kFramePrefix, length), Crc32c(bytes.substr(0, 4)));
  if (crc != GetU32(bytes.substr(4))) return frame;
  const auto kind = static_cast<FrameKind>(bytes[kFramePrefix]);
  if (kind != FrameKind::kRecord && kind != FrameKind::kHeader) return frame;
  frame.outcome = Frame::Outcome::kFrame;
  frame.kind = kind;
  frame.payload = bytes.substr(kFramePrefix + 1, length - 1);
  frame.bytes = kFramePrefix + length;
  return frame;
}

}  // namespace capstan::segment_log
