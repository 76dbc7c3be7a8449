// A recording that an operator was sent is read by the version that they have (`admin scheduler
// replay`).
#include <fcntl.h>

#include <fstream>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/segment_log/frame.h"
#include "services/scheduler/recorder/recording_file.h"

namespace capstan::scheduler {
namespace {

using segment_log::Frame;
using segment_log::FrameKind;

recording::RecordingHeader Header() {
  recording::RecordingHeader header;
  header.set_format(kRecordingFormat);
  header.set_build_id("build");
  header.set_leader_epoch(7);
  return header;
}

std::string BlockOf(const std::string& key, const std::string& ended) {
  recording::Block block;
  recording::RecordRecord& record = *block.add_records();
  record.set_key(key);
  record.set_value("value");
  block.set_ended(ended);
  return block.SerializeAsString();
}

// The frames' kinds, and the header's own bytes. How zstd packs the rest is its own affair.
std::string ShapeOf(absl::string_view bytes) {
  std::string shape;
  while (!bytes.empty()) {
    const Frame frame = segment_log::ParseFrame(bytes);
    if (frame.outcome != Frame::Outcome::kFrame) return shape + "?";
    if (frame.kind == FrameKind::kHeader) shape += std::string(bytes.substr(0, frame.bytes));
    shape += frame.kind == FrameKind::kHeader ? " header\n" : "block\n";
    bytes.remove_prefix(frame.bytes);
  }
  return shape;
}

TEST(StoredRecordingTest, ReleasedRecordingsAreRead) {
  const golden::Format format("services/scheduler/recorder", "recording", "hex");
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a.recording";
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const std::string released = folder.path() + "/released.recording";
    std::ofstream(released, std::ios::binary) << version.bytes;
    const auto reader = RecordingReader::Open(released);
    ASSERT_TRUE(reader.ok()) << reader.status() << golden::kMustRead;
    EXPECT_EQ((*reader)->header().leader_epoch(), 7);
    recording::Block block;
    for (const std::string key : {"one", "two"}) {
      ASSERT_TRUE((*reader)->Next(&block)) << (*reader)->end() << golden::kMustRead;
      ASSERT_EQ(block.records_size(), 1);
      EXPECT_EQ(block.records(0).key(), key);
    }
    EXPECT_FALSE((*reader)->Next(&block));
    EXPECT_EQ((*reader)->end(), "the term is over");
    EXPECT_FALSE((*reader)->damaged());
  }
  {
    const auto writer = RecordingWriter::Create(path, Header());
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append(BlockOf("one", "")).ok());
    ASSERT_TRUE((*writer)->Append(BlockOf("two", "the term is over")).ok());
  }
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string written = ReadAll(fd.get(), 1 << 20, path).value();
  if (!format.versions().empty() && ShapeOf(written) == ShapeOf(format.versions().back().bytes)) {
    return;
  }
  format.ExpectWritten(written);
}

}  // namespace
}  // namespace capstan::scheduler
