#include "libs/content/chunk_digests.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "libs/content/content_reader.h"
#include "libs/digest/sha256.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::content {
namespace {

class ChunkDigestsTest : public ::testing::Test {
 protected:
  ChunkDigestsTest() {
    Add("a", std::string(700'000, 'a'));
    Add("b", std::string(1'000'000, 'b'));
    Add("c", std::string(500'000, 'c'));
  }
  void Add(const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(folder_.path() + "/" + path, bytes, 0600).ok());
    capstan::dataloader::v1::Manifest::File& file = *manifest_.add_files();
    file.set_path(path);
    file.set_size_bytes(static_cast<int64_t>(bytes.size()));
    content_ += bytes;
  }
  ContentReader Reader() { return ContentReader(*SafeRoot::Open(folder_.path()), manifest_); }
  std::string Expected(int64_t chunk) {
    return Sha256::Of(content_.substr(static_cast<size_t>(chunk * kChunkBytes), kChunkBytes));
  }

  TemporaryFolder folder_;
  capstan::dataloader::v1::Manifest manifest_;
  std::string content_;
};

TEST_F(ChunkDigestsTest, ChunksSpanFilesAndTheLastIsWhatIsLeft) {
  ASSERT_EQ(ChunkCount(2'200'000), 3);
  EXPECT_EQ(ChunkCount(0), 0);
  EXPECT_EQ(ChunkCount(kChunkBytes), 1);
  EXPECT_EQ(ChunkSize(2, 2'200'000), 2'200'000 - 2 * kChunkBytes);
  ChunkDigests digests;
  ContentReader reader = Reader();
  for (int64_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(*digests.Of("d", reader, chunk), Expected(chunk));
  }
  EXPECT_TRUE(absl::IsOutOfRange(digests.Of("d", reader, 3).status()));
  EXPECT_TRUE(absl::IsOutOfRange(digests.Of("d", reader, -1).status()));
}

TEST_F(ChunkDigestsTest, WhatIsKeptIsNotReadAgainAndTheBoundHolds) {
  ChunkDigests digests(4);
  ContentReader reader = Reader();
  for (int64_t chunk = 0; chunk < 3; ++chunk) ASSERT_TRUE(digests.Of("d", reader, chunk).ok());
  // The disk has other bytes now: what is kept shows.
  ASSERT_TRUE(WriteFileAtomically(folder_.path() + "/a", std::string(700'000, 'x'), 0600).ok());
  ContentReader again = Reader();
  EXPECT_EQ(*digests.Of("d", again, 0), Expected(0));
  // Two more of another content: the first leaves.
  ASSERT_TRUE(digests.Of("e", again, 0).ok());
  ASSERT_TRUE(digests.Of("e", again, 1).ok());
  EXPECT_NE(*digests.Of("d", again, 0), Expected(0));
}

}  // namespace
}  // namespace capstan::content
