#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/segment_log/segment_log.h"

namespace capstan::segment_log {
namespace {

class StoredFormatTest : public ::testing::Test {
 protected:
  void Open(const std::string& folder) {
    log_.reset();
    headers_.clear();
    auto opened = SegmentLog::Open(
        folder, {.segment_bytes = 40},
        [this](absl::string_view header) { headers_.emplace_back(header); },
        [](int64_t, absl::string_view) {}, &repair_);
    ASSERT_TRUE(opened.ok()) << opened.status() << golden::kMustRead;
    log_ = *std::move(opened);
  }
  void Append(const std::vector<std::string>& payloads) {
    ASSERT_TRUE(log_->Append(payloads, [] { return std::string("header"); }).ok());
    ASSERT_TRUE(log_->Sync().ok());
  }

  std::unique_ptr<SegmentLog> log_;
  SegmentLog::Repair repair_;
  std::vector<std::string> headers_;
};

TEST_F(StoredFormatTest, ReleasedLogsAreReadAndWhatIsWrittenIsTheNewest) {
  const golden::Format format("libs/segment_log", "log", "folder");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    golden::RestoreFolder(version.bytes, folder.path());
    Open(folder.path());
    EXPECT_EQ(repair_.torn_bytes + repair_.damaged_records, 0) << golden::kMustRead;
    EXPECT_EQ(headers_, std::vector<std::string>({"header"}));
    EXPECT_EQ(log_->first_offset(), 3);
    EXPECT_EQ(log_->next_offset(), 6);
    EXPECT_EQ(log_->dropped().records, 2);
    const auto entries = log_->Read(3, 1 << 20);
    ASSERT_TRUE(entries.ok()) << entries.status();
    std::vector<std::string> payloads;
    for (const SegmentLog::Entry& entry : *entries) payloads.push_back(entry.payload);
    EXPECT_EQ(payloads, (std::vector<std::string>{"third", "", std::string("\0\xff", 2)}));
  }

  const TemporaryFolder folder;
  Open(folder.path());
  Append({"first", "the second record, with which the segment is full"});
  Append({"third"});
  Append({"", std::string("\0\xff", 2)});
  ASSERT_TRUE(log_->Drop(/*keep_bytes=*/0, absl::InfinitePast()).ok());
  log_.reset();
  format.ExpectWritten(golden::DumpFolder(folder.path()));
}

}  // namespace
}  // namespace capstan::segment_log
