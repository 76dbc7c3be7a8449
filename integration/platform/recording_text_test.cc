#include "integration/platform/recording_text.h"

#include <zstd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/segment_log/frame.h"

namespace capstan::integration {
namespace {

using segment_log::AppendFrame;
using segment_log::FrameKind;

// As a recorder writes it: a header, and a flush of one stream for each block.
std::string Recording(const std::vector<std::string>& blocks) {
  std::string file;
  AppendFrame(FrameKind::kHeader, "header", &file);
  ZSTD_CCtx* const zstd = ZSTD_createCCtx();
  for (const std::string& block : blocks) {
    std::string compressed(2 * ZSTD_compressBound(block.size()), '\0');
    ZSTD_inBuffer in = {block.data(), block.size(), 0};
    ZSTD_outBuffer out = {compressed.data(), compressed.size(), 0};
    EXPECT_EQ(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_flush), 0u);
    AppendFrame(FrameKind::kRecord, absl::string_view(compressed.data(), out.pos), &file);
  }
  ZSTD_freeCCtx(zstd);
  return file;
}

TEST(RecordingTextTest, WhatIsCompressedIsRead) {
  // Of few letters, so that no piece of it is stored as it is.
  std::string secret;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&secret, i % 7, i % 3);
  const std::string file = Recording({std::string(5000, 'a'), secret, std::string(9, 'b')});
  ASSERT_FALSE(absl::StrContains(file, secret.substr(0, 50)));
  EXPECT_EQ(RecordingText(file),
            absl::StrCat("header", std::string(5000, 'a'), secret, std::string(9, 'b')));
}

TEST(RecordingTextTest, WhatWasCutOffIsReadUpToThere) {
  const std::string file = Recording({"first", "second"});
  EXPECT_EQ(RecordingText(absl::string_view(file).substr(0, file.size() - 1)), "headerfirst");
}

TEST(RecordingTextTest, OtherFilesAreNone) {
  std::string segment;
  AppendFrame(FrameKind::kHeader, "header", &segment);
  AppendFrame(FrameKind::kRecord, "a plain record", &segment);
  for (const std::string& other : {std::string(), std::string("text"), segment}) {
    EXPECT_EQ(RecordingText(other), absl::nullopt);
  }
}

}  // namespace
}  // namespace capstan::integration
