#include "services/node_agent/adapters/content_fetch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/content/manifest.h"
#include "libs/content/publish.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "services/node_agent/ports/fake_loader_content.h"

namespace capstan::node_agent {
namespace {

class ContentFetchTest : public ::testing::Test {
 protected:
  ContentFetchTest() {
    root_.emplace(*SafeRoot::Open(folder_.path()));
    EXPECT_TRUE(root_->MakeDirectories("versions").ok());
    digest_ = loader_.Add({{"a", std::string(2500, 'a')},
                           {"d/empty", ""},
                           {"d/b", std::string(1700, 'b')},
                           {"e", "e"}});
    key_ = "versions/" + digest_.substr(7);
    content_.set_resource("projects/p/datasets/d/versions/v");
    content_.set_manifest_digest(digest_);
    options_.part_bytes = 500;
    options_.call_bytes = 1500;
  }

  absl::Status Fetch() {
    pauses_.clear();
    const auto pause = [this](absl::Duration pause) { pauses_.push_back(pause); };
    const auto progressed = [this](int64_t done, int64_t) { done_ = done; };
    return FetchContent(*root_, key_, content_, loader_, options_, Random(1),
                        FetchControl{&stop_, pause, progressed});
  }

  void ExpectWhole() {
    const auto manifest = content::HashFolder(*root_, key_, stop_);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(content::ManifestDigest(*manifest), digest_);
    EXPECT_EQ(content::ManifestDigest(*content::ReadManifest(*root_, key_)), digest_);
    EXPECT_FALSE(root_->Stat(StagingFolderOf(key_)).ok());
    EXPECT_EQ(root_->Stat(key_ + "/a")->st_mode & 07777, 0444u);
  }
  void ExpectNothing() { EXPECT_FALSE(root_->Stat(key_).ok()); }

  static constexpr int64_t kTotal = 2500 + 1700 + 1;
  TemporaryFolder folder_;
  std::optional<SafeRoot> root_;
  FakeLoaderContent loader_;
  std::string digest_;
  std::string key_;
  capstan::dataloader::v1::ContentRef content_;
  FetchOptions options_;
  std::atomic<bool> stop_ = false;
  std::vector<absl::Duration> pauses_;
  int64_t done_ = 0;
};

TEST_F(ContentFetchTest, PublishesTheWholeContentReadOnly) {
  const absl::Status fetched = Fetch();
  ASSERT_TRUE(fetched.ok()) << fetched;
  ExpectWhole();
  EXPECT_EQ(loader_.sent_bytes(), kTotal);
  EXPECT_EQ(done_, kTotal);
}

TEST_F(ContentFetchTest, StoppedAnywhereItGoesOnFromTheLastPart) {
  for (int64_t cut = 0; cut < kTotal; cut += 100) {
    ASSERT_TRUE(root_->RemoveTree(key_).ok());
    ASSERT_TRUE(root_->RemoveTree("staging").ok());
    const int64_t before = loader_.sent_bytes();
    loader_.on_piece = [this, cut](int64_t offset, std::string&) {
      if (offset >= cut) stop_ = true;
      return absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsCancelled(Fetch())) << cut;
    ExpectNothing();
    stop_ = false;
    loader_.on_piece = nullptr;
    ASSERT_TRUE(Fetch().ok());
    ExpectWhole();
    // At most the part that was not journalled, and what was on the wire, came twice.
    EXPECT_LE(loader_.sent_bytes() - before, kTotal + options_.part_bytes + 100) << cut;
  }
}

TEST_F(ContentFetchTest, OutagesOfTheLoaderAreWaitedFor) {
  int outages = 0;
  loader_.on_manifest = [&outages] {
    return ++outages <= 2 ? absl::UnavailableError("down") : absl::OkStatus();
  };
  int pieces = 0;
  loader_.on_piece = [&pieces](int64_t, std::string&) {
    return ++pieces % 3 == 0 ? absl::UnavailableError("down") : absl::OkStatus();
  };
  ASSERT_TRUE(Fetch().ok());
  ExpectWhole();
  EXPECT_EQ(loader_.sent_bytes(), kTotal) << "nothing came twice";
  EXPECT_GE(pauses_.size(), 10u);
}

TEST_F(ContentFetchTest, ALoaderThatStaysAwayEndsTheFetchAfterItsAttempts) {
  loader_.on_piece = [](int64_t offset, std::string&) {
    return offset >= 1000 ? absl::UnavailableError("down") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsUnavailable(Fetch()));
  // One for each attempt but the last, and growing.
  ASSERT_EQ(static_cast<int>(pauses_.size()), options_.attempts - 1);
  EXPECT_LE(pauses_[0], options_.first_pause);
  EXPECT_GT(pauses_.back(), options_.first_pause * 8);
  ExpectNothing();
  // What had come is kept.
  const int64_t before = loader_.sent_bytes();
  loader_.on_piece = nullptr;
  ASSERT_TRUE(Fetch().ok());
  EXPECT_EQ(loader_.sent_bytes() - before, kTotal - 1000);
}

TEST_F(ContentFetchTest, WhatIsNotThereIsNotTriedAgain) {
  loader_.Remove(digest_);
  EXPECT_TRUE(absl::IsNotFound(Fetch()));
  EXPECT_TRUE(pauses_.empty());
}

TEST_F(ContentFetchTest, AFlippedByteIsFetchedAgainAndNeverPublished) {
  int flips = 1;
  loader_.on_piece = [&flips](int64_t offset, std::string& piece) {
    if (offset == 3000 && flips-- > 0) piece[5] ^= 1;
    return absl::OkStatus();
  };
  const absl::Status mended = Fetch();
  ASSERT_TRUE(mended.ok()) << mended;
  ExpectWhole();
  // One file only came twice.
  EXPECT_LE(loader_.sent_bytes(), kTotal + 1700 + 100);
  ASSERT_TRUE(root_->RemoveTree(key_).ok());
  flips = 1000;
  const absl::Status wrong = Fetch();
  EXPECT_EQ(status::Reason(wrong), "CONTENT_MISMATCH") << wrong;
  EXPECT_TRUE(absl::StrContains(wrong.message(), "'d/b'")) << wrong;
  ExpectNothing();
}

TEST_F(ContentFetchTest, AStreamThatEndsEarlyGoesOn) {
  // The fake gives what it has, which is less than asked for; the port's errors are the adapter's.
  loader_.on_piece = [ended = std::set<int64_t>()](int64_t offset, std::string&) mutable {
    if (offset % 700 == 0 && ended.insert(offset).second) {
      return absl::UnavailableError("the stream of content ended early");
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(Fetch().ok());
  ExpectWhole();
}

TEST_F(ContentFetchTest, AManifestOfAnotherDigestIsRefused) {
  const std::string other = loader_.Add({{"evil", "x"}});
  content_.set_manifest_digest(other);
  // The key and the reference do not agree, as if the loader had answered with another manifest.
  loader_.Remove(other);
  EXPECT_FALSE(Fetch().ok());
  content_.set_manifest_digest(digest_);
  ASSERT_TRUE(Fetch().ok());
  ExpectWhole();
}

TEST_F(ContentFetchTest, DamageToWhatIsStagedIsFoundWhenTheFetchGoesOn) {
  loader_.on_piece = [this](int64_t offset, std::string&) {
    if (offset >= 3500) stop_ = true;
    return absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsCancelled(Fetch()));
  stop_ = false;
  loader_.on_piece = nullptr;
  const std::string staged = folder_.path() + "/" + StagingFolderOf(key_);
  {
    UniqueFd fd(::open((staged + "/files/a").c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(fd.get(), "x", 1, 17), 1);
  }
  ASSERT_TRUE(Fetch().ok());
  ExpectWhole();
}

TEST_F(ContentFetchTest, AFullDiskIsSaidAtOnceAndResumedWhenThereIsRoom) {
  loader_.on_piece = [](int64_t offset, std::string&) {
    return offset >= 2000 ? ErrnoStatus(ENOSPC, "write", "a") : absl::OkStatus();
  };
  EXPECT_EQ(status::Reason(Fetch()), "DISK_FULL");
  EXPECT_TRUE(pauses_.empty());
  ExpectNothing();
  loader_.on_piece = nullptr;
  const int64_t before = loader_.sent_bytes();
  ASSERT_TRUE(Fetch().ok());
  EXPECT_EQ(loader_.sent_bytes() - before, kTotal - 2000);
}

}  // namespace
}  // namespace capstan::node_agent
