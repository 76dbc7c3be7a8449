#include "services/data_loader/adapters/staged_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"

namespace capstan::data_loader {
namespace {

class StagedFileTest : public ::testing::Test {
 protected:
  static absl::Status Read(const StagedFile& file, int64_t offset, int64_t size,
                           std::string& bytes) {
    return file.Read(offset, size, [&bytes](absl::string_view piece) {
      bytes.append(piece.data(), piece.size());
      return absl::OkStatus();
    });
  }

  const TemporaryFolder folder_;
  const SafeRoot root_ = SafeRoot::Open(folder_.path()).value();
};

TEST_F(StagedFileTest, PartsComeInAnyOrderAndAreReadBack) {
  std::string content((3 << 20) + 7, 'x');
  for (size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>(i / 1000);
  const absl::string_view whole = content;
  const auto file = StagedFile::Open(root_, "f");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write(1 << 20, whole.substr(1 << 20)).ok());
  file->BeginWriteOut(1 << 20, 0);
  ASSERT_TRUE(file->Write(0, whole.substr(0, 1 << 20)).ok());
  ASSERT_TRUE(file->Sync().ok());
  std::string bytes;
  ASSERT_TRUE(Read(*file, 0, static_cast<int64_t>(content.size()), bytes).ok());
  EXPECT_EQ(bytes, content);
  bytes.clear();
  ASSERT_TRUE(Read(*file, (1 << 20) - 3, 6, bytes).ok());
  EXPECT_EQ(bytes, content.substr((1 << 20) - 3, 6));
  bytes.clear();
  ASSERT_TRUE(Read(*file, 0, 0, bytes).ok());
  EXPECT_EQ(bytes, "");
}

TEST_F(StagedFileTest, WhatAnEarlierAttemptWroteIsKeptAndNobodyElseReadsIt) {
  ASSERT_TRUE(StagedFile::Open(root_, "f")->Write(0, "abc").ok());
  const auto again = StagedFile::Open(root_, "f");
  ASSERT_TRUE(again.ok()) << again.status();
  std::string bytes;
  ASSERT_TRUE(Read(*again, 0, 3, bytes).ok());
  EXPECT_EQ(bytes, "abc");
  EXPECT_EQ(root_.Stat("f")->st_mode & 07777, 0600);
}

TEST_F(StagedFileTest, AFileThatEndsTooEarlyIsNamed) {
  const auto file = StagedFile::Open(root_, "f");
  ASSERT_TRUE(file->Write(0, "abc").ok());
  std::string bytes;
  const absl::Status lost = Read(*file, 0, 4, bytes);
  EXPECT_EQ(status::Reason(lost), "STAGED_FILES_LOST") << lost;
  EXPECT_EQ(bytes, "abc");
}

TEST_F(StagedFileTest, AnErrorOfTheReaderEndsTheReading) {
  const auto file = StagedFile::Open(root_, "f");
  ASSERT_TRUE(file->Write(0, std::string(1 << 20, 'x')).ok());
  int calls = 0;
  EXPECT_EQ(file->Read(0, 1 << 20,
                       [&calls](absl::string_view) {
                         ++calls;
                         return absl::CancelledError("enough");
                       }),
            absl::CancelledError("enough"));
  EXPECT_EQ(calls, 1);
}

// A FIFO has nothing that could be made durable.
TEST_F(StagedFileTest, WhatCannotBeSyncedSaysSo) {
  ASSERT_EQ(::mkfifo((folder_.path() + "/fifo").c_str(), 0600), 0);
  const auto file = StagedFile::Open(root_, "fifo");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(file->Sync().ok());
}

}  // namespace
}  // namespace capstan::data_loader
