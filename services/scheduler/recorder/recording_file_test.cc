#include "services/scheduler/recorder/recording_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/segment_log/frame.h"
#include "libs/status/error.h"

namespace capstan::scheduler {
namespace {

recording::RecordingHeader Header() {
  recording::RecordingHeader header;
  header.set_format(kRecordingFormat);
  header.set_build_id("build");
  header.set_leader_epoch(7);
  return header;
}

std::string BlockOf(int n, const std::string& ended = "") {
  recording::Block block;
  recording::RecordRecord& record = *block.add_records();
  record.set_key(absl::StrCat("key", n));
  record.set_value(std::string(100, static_cast<char>('a' + n)));
  block.set_ended(ended);
  return block.SerializeAsString();
}

std::string ReadFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return ReadAll(fd.get(), 64 << 20, path).value();
}

std::unique_ptr<RecordingReader> Reading(std::string bytes) {
  auto reader = RecordingReader::From(
      [bytes = std::move(bytes), at = size_t{0}](char* to, size_t size) mutable {
        const size_t got = bytes.copy(to, std::min(size, size_t{1000}), at);
        at += got;
        return absl::StatusOr<size_t>(got);
      });
  return reader.ok() ? *std::move(reader) : nullptr;
}

// Blocks that can be read.
std::vector<std::string> AllOf(RecordingReader* reader) {
  std::vector<std::string> blocks;
  recording::Block block;
  while (reader->Next(&block)) blocks.push_back(block.SerializeAsString());
  return blocks;
}

class RecordingFileTest : public ::testing::Test {
 protected:
  // The file's bytes.
  std::string Write(const std::vector<std::string>& blocks) {
    auto writer = RecordingWriter::Create(path_, Header());
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const std::string& block : blocks) EXPECT_TRUE((*writer)->Append(block).ok());
    const std::string bytes = ReadFile(path_);
    EXPECT_EQ((*writer)->bytes(), static_cast<int64_t>(bytes.size()));
    return bytes;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/a.recording";
};

TEST_F(RecordingFileTest, GivesBackWhatWasWrittenAndHowItEnded) {
  const std::vector<std::string> blocks = {BlockOf(0), BlockOf(1), BlockOf(2, "the term is over")};
  Write(blocks);
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  auto reader = RecordingReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header().leader_epoch(), 7);
  EXPECT_EQ(AllOf(reader->get()), blocks);
  EXPECT_EQ((*reader)->end(), "the term is over");
  EXPECT_FALSE((*reader)->damaged());
}

TEST_F(RecordingFileTest, DoesNotWriteOverAFile) {
  Write({});
  EXPECT_FALSE(RecordingWriter::Create(path_, Header()).ok());
}

TEST_F(RecordingFileTest, ATornFileIsReadUpToTheTear) {
  const std::vector<std::string> blocks = {BlockOf(0), BlockOf(1), BlockOf(2)};
  const std::string bytes = Write(blocks);
  size_t most = 0;
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const auto reader = Reading(bytes.substr(0, cut));
    if (reader == nullptr) {
      EXPECT_EQ(most, 0u) << cut;
      continue;
    }
    const std::vector<std::string> read = AllOf(reader.get());
    EXPECT_GE(read.size(), most);
    most = read.size();
    EXPECT_TRUE(std::equal(read.begin(), read.end(), blocks.begin()));
    EXPECT_FALSE(reader->damaged());
    EXPECT_FALSE(reader->end().empty());
  }
  EXPECT_EQ(most, blocks.size());
}

TEST_F(RecordingFileTest, ADamagedFileIsReadUpToTheDamage) {
  const std::vector<std::string> blocks = {BlockOf(0), BlockOf(1), BlockOf(2)};
  const std::string bytes = Write(blocks);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    const auto reader = Reading(bad);
    if (reader == nullptr) continue;
    const std::vector<std::string> read = AllOf(reader.get());
    EXPECT_LT(read.size(), blocks.size()) << at;
    EXPECT_TRUE(std::equal(read.begin(), read.end(), blocks.begin()));
    EXPECT_FALSE(reader->end().empty());
  }
}

TEST_F(RecordingFileTest, WhatIsNoRecordingIsRefusedInWords) {
  const auto absent = RecordingReader::Open(folder_.path() + "/none");
  EXPECT_EQ(status::Reason(absent.status()), kReasonNotReadable);
  const auto folder = RecordingReader::Open(folder_.path());
  EXPECT_EQ(status::Reason(folder.status()), kReasonNotReadable) << folder.status();
  recording::RecordingHeader header = Header();
  header.set_format(kRecordingFormat + 1);
  ASSERT_TRUE(RecordingWriter::Create(path_, header).ok());
  const auto newer = RecordingReader::Open(path_);
  EXPECT_EQ(status::Reason(newer.status()), kReasonNotReadable);
  EXPECT_NE(newer.status().message().find("format 2"), absl::string_view::npos);
}

TEST_F(RecordingFileTest, ABlockThatGrowsBeyondBoundsIsDamage) {
  std::string bytes = Write({});
  const std::string zeros(64 << 20, '\0');
  std::string bomb(ZSTD_compressBound(zeros.size()), '\0');
  bomb.resize(ZSTD_compress(bomb.data(), bomb.size(), zeros.data(), zeros.size(), 3));
  segment_log::AppendFrame(segment_log::FrameKind::kRecord, bomb, &bytes);
  const auto reader = Reading(bytes);
  ASSERT_NE(reader, nullptr);
  EXPECT_TRUE(AllOf(reader.get()).empty());
  EXPECT_TRUE(reader->damaged());
}

TEST_F(RecordingFileTest, TheLargestBlockOfNoiseFits) {
  Random random(1);
  recording::Block block;
  std::string& noise = *block.add_records()->mutable_value();
  while (noise.size() < kMaxBlockBytes - 100) {
    const uint64_t next = random.Next();
    noise.append(reinterpret_cast<const char*>(&next), sizeof(next));
  }
  const std::vector<std::string> blocks = {BlockOf(0), block.SerializeAsString(), BlockOf(1)};
  const auto reader = Reading(Write(blocks));
  ASSERT_NE(reader, nullptr);
  EXPECT_TRUE(AllOf(reader.get()) == blocks) << reader->end();
}

}  // namespace
}  // namespace capstan::scheduler
