#ifndef CAPSTAN_LIBS_SEGMENT_LOG_FRAME_H_
#define CAPSTAN_LIBS_SEGMENT_LOG_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace capstan::segment_log {

// The unit on disk:
//
//   length   u32, little-endian: bytes of kind and payload, 1 … kMaxFramePayload + 1
//   crc      u32, little-endian: CRC-32C of length, kind and payload
//   kind     u8
//   payload
enum class FrameKind : uint8_t {
  // A record; takes one offset.
  kRecord = 1,
  // First in a segment: what its owner needs to go on without reading the segments before.
  kHeader = 2,
};

inline constexpr size_t kFramePrefix = 8;
inline constexpr size_t kMaxFramePayload = 4 << 20;

void AppendFrame(FrameKind kind, absl::string_view payload, std::string* out);

struct Frame {
  enum class Outcome {
    kFrame,
    // The bytes end before the frame does.
    kTruncated,
    // No frame begins here: a wrong checksum, an impossible length or kind.
    kDamaged,
  };
  Outcome outcome = Outcome::kDamaged;
  // For kFrame.
  FrameKind kind = FrameKind::kRecord;
  absl::string_view payload;
  // Of the whole frame.
  size_t bytes = 0;
};

// Reads the frame at the beginning of `bytes`, which may be any bytes at all.
Frame ParseFrame(absl::string_view bytes);

}  // namespace capstan::segment_log

#endif  // CAPSTAN_LIBS_SEGMENT_LOG_FRAME_H_
