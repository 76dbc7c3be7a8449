#include "libs/content/content_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "libs/content/content_reader.h"
#include "libs/content/manifest.h"
#include "libs/content/publish.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"

namespace capstan::content {
namespace {

using ::capstan::dataloader::v1::Manifest;

// Files of several sizes, empty ones at every place, and their content.
class ContentWriterTest : public ::testing::Test {
 protected:
  ContentWriterTest() {
    auto root = SafeRoot::Open(folder_.path());
    EXPECT_TRUE(root.ok());
    root_.emplace(*std::move(root));
    EXPECT_TRUE(root_->MakeDirectories("files").ok());
    files_.emplace(*root_->Descend("files"));
    for (const auto& [path, size] : std::vector<std::pair<std::string, int>>{
             {"a", 0}, {"b", 10}, {"c/d", 0}, {"c/e", 1}, {"f", 7}, {"g", 0}}) {
      const std::string bytes(static_cast<size_t>(size), path.back());
      Manifest::File& file = *manifest_.add_files();
      file.set_path(path);
      file.set_size_bytes(size);
      file.set_sha256(Sha256::Of(bytes));
      content_ += bytes;
    }
  }

  std::unique_ptr<ContentWriter> Open(int64_t offset) {
    auto writer = ContentWriter::Open(&*files_, &manifest_, offset, stop_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  void ExpectWhole() {
    EXPECT_EQ(ManifestDigest(*HashFolder(*root_, "files", stop_)), ManifestDigest(manifest_));
  }

  TemporaryFolder folder_;
  std::optional<SafeRoot> root_;
  std::optional<SafeRoot> files_;
  Manifest manifest_;
  std::string content_;
  std::atomic<bool> stop_ = false;
};

TEST_F(ContentWriterTest, WritesAndReadsInPiecesOfEverySize) {
  for (size_t piece = 1; piece <= content_.size(); ++piece) {
    ASSERT_TRUE(root_->RemoveTree("files").ok());
    ASSERT_TRUE(root_->MakeDirectories("files").ok());
    files_.emplace(*root_->Descend("files"));
    const auto writer = Open(0);
    for (size_t at = 0; at < content_.size(); at += piece) {
      EXPECT_FALSE(writer->complete());
      ASSERT_TRUE(writer->Write(absl::string_view(content_).substr(at, piece)).ok());
    }
    EXPECT_TRUE(writer->complete());
    ASSERT_TRUE(writer->Sync().ok());
    ExpectWhole();
    ContentReader reader(*root_->Descend("files"), manifest_);
    std::string read;
    while (read.size() < content_.size()) {
      const auto bytes = reader.Read(static_cast<int64_t>(read.size()), piece);
      ASSERT_TRUE(bytes.ok() && !bytes->empty()) << bytes.status();
      read += *bytes;
    }
    EXPECT_EQ(read, content_);
    EXPECT_EQ(*reader.Read(static_cast<int64_t>(read.size()), piece), "");
  }
}

TEST_F(ContentWriterTest, TakesUpAtEveryOffsetAndReadsNothingTwice) {
  for (size_t cut = 0; cut <= content_.size(); ++cut) {
    ASSERT_TRUE(root_->RemoveTree("files").ok());
    ASSERT_TRUE(root_->MakeDirectories("files").ok());
    files_.emplace(*root_->Descend("files"));
    ASSERT_TRUE(Open(0)->Write(content_.substr(0, cut)).ok());
    const auto writer = Open(static_cast<int64_t>(cut));
    EXPECT_EQ(writer->offset(), static_cast<int64_t>(cut));
    ASSERT_TRUE(writer->Write(content_.substr(cut)).ok());
    EXPECT_TRUE(writer->complete());
    ExpectWhole();
  }
}

TEST_F(ContentWriterTest, DoesNotTrustWhatLiesThere) {
  ASSERT_TRUE(Open(0)->Write(content_).ok());
  // A flipped byte in the first file that has bytes: all from there on is taken again.
  {
    const auto fd = files_->OpenFile("b", O_WRONLY);
    ASSERT_EQ(::pwrite(fd->get(), "x", 1, 3), 1);
  }
  EXPECT_EQ(Open(18)->offset(), 0);
  ASSERT_TRUE(Open(0)->Write(content_).ok());
  ASSERT_EQ(::truncate((folder_.path() + "/files/f").c_str(), 3), 0);
  EXPECT_EQ(Open(18)->offset(), 11);
  ASSERT_TRUE(files_->Remove("c/e").ok());
  EXPECT_EQ(Open(18)->offset(), 10);
  // A wrong beginning shows when its end has come.
  {
    const auto fd = files_->OpenFile("b", O_WRONLY);
    ASSERT_EQ(::pwrite(fd->get(), "x", 1, 3), 1);
  }
  const auto writer = Open(5);
  EXPECT_EQ(writer->offset(), 5);
  EXPECT_EQ(status::Reason(writer->Write(content_.substr(5))), "CONTENT_MISMATCH");
  EXPECT_EQ(writer->offset(), 0);
  ASSERT_TRUE(writer->Write(content_).ok());
  ExpectWhole();
}

TEST_F(ContentWriterTest, RefusesWrongAndSuperfluousBytes) {
  const auto writer = Open(0);
  ASSERT_TRUE(writer->Write(content_.substr(0, 10)).ok());
  const absl::Status wrong = writer->Write("!rest");
  EXPECT_EQ(status::Reason(wrong), "CONTENT_MISMATCH");
  EXPECT_EQ(writer->path(), "c/e");
  EXPECT_EQ(writer->offset(), 10);
  ASSERT_TRUE(writer->Write(content_.substr(10)).ok());
  EXPECT_EQ(status::Reason(writer->Write("x")), "CONTENT_TOO_LONG");
}

TEST_F(ContentWriterTest, AnEmptyFileWithTheDigestOfAnotherIsRefused) {
  manifest_.mutable_files(0)->set_sha256(Sha256::Of("x"));
  const auto writer = ContentWriter::Open(&*files_, &manifest_, 0, stop_);
  EXPECT_EQ(status::Reason(writer.status()), "INVALID_MANIFEST");
}

TEST_F(ContentWriterTest, AReaderNamesTheFileThatIsShort) {
  ASSERT_TRUE(Open(0)->Write(content_).ok());
  ASSERT_EQ(::truncate((folder_.path() + "/files/f").c_str(), 3), 0);
  ContentReader reader(*root_->Descend("files"), manifest_);
  EXPECT_EQ(status::Reason(reader.Read(0, 100).status()), "CONTENT_DAMAGED");
}

}  // namespace
}  // namespace capstan::content
