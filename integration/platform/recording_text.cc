#include "integration/platform/recording_text.h"

#include <zstd.h>

#include <cstddef>
#include <memory>

#include "absl/strings/match.h"
#include "libs/segment_log/frame.h"

namespace capstan::integration {
namespace {

using segment_log::Frame;
using segment_log::FrameKind;

constexpr absl::string_view kZstd = "\x28\xb5\x2f\xfd";

}  // namespace

absl::optional<std::string> RecordingText(absl::string_view file) {
  Frame frame = segment_log::ParseFrame(file);
  if (frame.outcome != Frame::Outcome::kFrame || frame.kind != FrameKind::kHeader) {
    return absl::nullopt;
  }
  std::string text(frame.payload);
  std::string stream;
  while (true) {
    file.remove_prefix(frame.bytes);
    frame = segment_log::ParseFrame(file);
    if (frame.outcome != Frame::Outcome::kFrame) break;
    stream.append(frame.payload.data(), frame.payload.size());
  }
  // A Stream's segments have the same frames, and plain records.
  if (!absl::StartsWith(stream, kZstd)) return absl::nullopt;
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd(ZSTD_createDCtx(), ZSTD_freeDCtx);
  ZSTD_inBuffer in = {stream.data(), stream.size(), 0};
  std::string piece(ZSTD_DStreamOutSize(), '\0');
  while (true) {
    ZSTD_outBuffer out = {piece.data(), piece.size(), 0};
    const size_t before = in.pos;
    const size_t left = ZSTD_decompressStream(zstd.get(), &out, &in);
    text.append(piece, 0, out.pos);
    if (ZSTD_isError(left) != 0 || (out.pos == 0 && in.pos == before)) return text;
  }
}

}  // namespace capstan::integration
