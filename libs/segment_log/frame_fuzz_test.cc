// Any bytes: the parser neither crashes nor loops, and what it accepts is what AppendFrame writes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/segment_log/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::segment_log::AppendFrame;
  using capstan::segment_log::Frame;
  using capstan::segment_log::ParseFrame;
  absl::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const Frame frame = ParseFrame(rest);
    if (frame.outcome != Frame::Outcome::kFrame) {
      rest.remove_prefix(1);
      continue;
    }
    std::string again;
    AppendFrame(frame.kind, frame.payload, &again);
    if (frame.bytes > rest.size() || again != rest.substr(0, frame.bytes)) std::abort();
    rest.remove_prefix(frame.bytes);
  }
  // And what is written is read back.
  std::string written;
  AppendFrame(capstan::segment_log::FrameKind::kRecord,
              absl::string_view(reinterpret_cast<const char*>(data), size), &written);
  const Frame frame = ParseFrame(written);
  if (size <= capstan::segment_log::kMaxFramePayload &&
      (frame.outcome != Frame::Outcome::kFrame || frame.bytes != written.size())) {
    std::abort();
  }
  return 0;
}
