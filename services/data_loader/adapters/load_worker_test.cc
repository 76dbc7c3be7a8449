#include "services/data_loader/adapters/load_worker.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"

namespace capstan::data_loader {
namespace {

class LoadWorkerTest : public ::testing::Test {
 protected:
  LoadWorkerTest() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/load.XXXXXX");
    base_ = ::mkdtemp(pattern.data());
    for (const char* folder : {"site", "bucket", "bucket/d", "bucket/d/sub", "secret"}) {
      EXPECT_EQ(::mkdir(absl::StrCat(base_, "/", folder).c_str(), 0755), 0);
    }
    auto site = SafeRoot::Open(base_ + "/site");
    EXPECT_TRUE(site.ok());
    site_.emplace(*std::move(site));
    for (const char* folder : {"versions", "staging/loads"}) {
      EXPECT_TRUE(site_->MakeDirectories(folder).ok());
    }
    options_.allowed_source_roots = {base_ + "/bucket"};
    options_.part_bytes = 1000;
    // Each part is noted before the next begins, where one is copied at once.
    options_.copy.limits.unsynced_bytes = 1;
    load_.load = "projects/p/dataLoads/l1";
    load_.source_uri = "file://" + base_ + "/bucket/d/";
  }

  void Write(const std::string& path, const std::string& content) {
    UniqueFd fd(::open(absl::StrCat(base_, "/", path).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
    ASSERT_TRUE(WriteAll(fd.get(), content, path).ok());
  }

  std::string Read(const std::string& path) {
    UniqueFd fd(::open(absl::StrCat(base_, "/", path).c_str(), O_RDONLY));
    return *ReadAll(fd.get(), 1 << 20, path);
  }

  // `on_part` runs after each part with the bytes loaded so far.
  absl::StatusOr<Published> Run(std::function<void(int64_t)> on_part = [](int64_t) {}) {
    const auto planned = [this](int64_t) { return admitted_; };
    const auto progressed = [&](int64_t loaded, int64_t) { on_part(loaded); };
    const auto publishing = [] {};
    return RunLoad(*site_, load_, options_, LoadListener{planned, progressed, publishing}, stop_);
  }

  std::string base_;
  std::optional<SafeRoot> site_;
  LoadOptions options_;
  StartLoad load_;
  std::atomic<bool> stop_ = false;
  // Answered when the load asks whether there is room.
  absl::Status admitted_;
};

TEST_F(LoadWorkerTest, PublishesTheWholeVersionReadOnly) {
  Write("bucket/d/a", std::string(2500, 'a'));
  Write("bucket/d/sub/b", "b");
  Write("bucket/d/empty", "");
  const absl::StatusOr<Published> done = Run();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->file_count, 3);
  EXPECT_EQ(done->total_bytes, 2501);
  EXPECT_EQ(done->source_bytes_read, 2501);
  const std::string version = "site/versions/" + done->manifest_digest.substr(7);
  EXPECT_EQ(Read(version + "/a"), std::string(2500, 'a'));
  EXPECT_EQ(Read(version + "/sub/b"), "b");
  struct ::stat st{};
  ASSERT_EQ(::stat((base_ + "/" + version + "/a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0444u);
  // The same content is the same version, loaded by whomever.
  load_.load = "projects/q/dataLoads/l2";
  EXPECT_EQ(Run()->manifest_digest, done->manifest_digest);
}

TEST_F(LoadWorkerTest, WhatThereIsNoRoomForIsNotReadAndLeavesNothing) {
  Write("bucket/d/a", std::string(2500, 'a'));
  admitted_ = status::Error(absl::StatusCode::kResourceExhausted, "SITE_FULL", "no room");
  EXPECT_EQ(status::Reason(Run([](int64_t) { ADD_FAILURE() << "it was read"; }).status()),
            "SITE_FULL");
  EXPECT_FALSE(site_->Stat("staging/loads/l1").ok());
}

TEST_F(LoadWorkerTest, MissingObjectIsNamedAndNothingStays) {
  Write("bucket/d/a", "a");
  load_.objects = {"a", "train-7.npz"};
  const absl::Status failed = Run().status();
  EXPECT_EQ(status::Reason(failed), "OBJECT_NOT_FOUND");
  EXPECT_TRUE(absl::StrContains(std::string(failed.message()), "/bucket/d/train-7.npz")) << failed;
  EXPECT_FALSE(site_->Stat("staging/loads/l1").ok());
  EXPECT_TRUE(site_->ListFiles("versions")->empty());
}

TEST_F(LoadWorkerTest, SourceChangedMidLoadIsRefused) {
  Write("bucket/d/a", std::string(5000, 'a'));
  options_.copy.parallel_parts = 1;
  const absl::Status changed = Run([this](int64_t loaded) {
                                 if (loaded == 2000) Write("bucket/d/a", std::string(5000, 'b'));
                               }).status();
  EXPECT_EQ(status::Reason(changed), "SOURCE_CHANGED") << changed;
  EXPECT_TRUE(site_->ListFiles("versions")->empty());
}

TEST_F(LoadWorkerTest, SourceReplacedAfterItsLastByteIsRefused) {
  Write("bucket/d/a", std::string(1500, 'a'));
  Write("bucket/d/b", "b");
  options_.copy.parallel_parts = 1;
  const absl::Status changed =
      Run([this](int64_t loaded) {
        if (loaded != 1501) return;
        Write("bucket/new", std::string(1500, 'a'));
        ASSERT_EQ(::rename((base_ + "/bucket/new").c_str(), (base_ + "/bucket/d/a").c_str()), 0);
      }).status();
  EXPECT_EQ(status::Reason(changed), "SOURCE_CHANGED") << changed;
}

TEST_F(LoadWorkerTest, ResumedLoadReadsOnlyWhatIsMissing) {
  Write("bucket/d/a", std::string(10'000, 'a'));
  options_.copy.parallel_parts = 1;
  EXPECT_TRUE(absl::IsCancelled(Run([this](int64_t loaded) {
                                  if (loaded == 6000) stop_ = true;
                                }).status()));
  stop_ = false;
  int64_t first = -1;
  const absl::StatusOr<Published> done = Run([&first](int64_t loaded) {
    if (first < 0) first = loaded;
  });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(first, 6000);
  EXPECT_EQ(done->source_bytes_read, 10'000);
}

TEST_F(LoadWorkerTest, TornJournalTailIsCutOff) {
  Write("bucket/d/a", std::string(10'000, 'a'));
  options_.copy.parallel_parts = 1;
  Run([this](int64_t loaded) {
    if (loaded == 6000) stop_ = true;
  })
      .status()
      .IgnoreError();
  stop_ = false;
  const std::string journal = base_ + "/site/staging/loads/l1/parts.journal";
  ASSERT_EQ(::truncate(journal.c_str(), 5 * 16 + 7), 0);
  int64_t first = -1;
  ASSERT_TRUE(Run([&first](int64_t loaded) {
                if (first < 0) first = loaded;
              }).ok());
  EXPECT_EQ(first, 5000);
}

TEST_F(LoadWorkerTest, ManyFilesInGroupsArePublishedWholeAlsoWhenTakenUpAgain) {
  options_.copy.limits = {.unsynced_bytes = 5000, .unsynced_parts = 7};
  int64_t total = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string bytes(static_cast<size_t>(i * 97), static_cast<char>('a' + i % 26));
    total += static_cast<int64_t>(bytes.size());
    Write(absl::StrCat("bucket/d/", i), bytes);
  }
  absl::StatusOr<Published> done = absl::UnknownError("not run");
  for (int64_t until = total / 4; until < total; until += total / 4) {
    stop_ = false;
    done = Run([&](int64_t loaded) { stop_ = stop_ || loaded >= until; });
    if (done.ok()) break;
    ASSERT_TRUE(absl::IsCancelled(done.status())) << done.status();
  }
  stop_ = false;
  if (!done.ok()) done = Run();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->file_count, 60);
  // Nothing was read twice.
  EXPECT_EQ(done->source_bytes_read, total);
  const std::string version = "site/versions/" + done->manifest_digest.substr(7);
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(Read(absl::StrCat(version, "/", i)), Read(absl::StrCat("bucket/d/", i)));
  }
}

TEST_F(LoadWorkerTest, StagedFilesThatNobodyPlannedOrThatAreTooLongAreRefused) {
  for (const std::string& name : {std::string("a"), std::string("b")}) {
    Write("bucket/d/a", std::string(3000, 'a'));
    options_.copy.parallel_parts = 1;
    stop_ = false;
    const absl::Status failed =
        Run([&](int64_t loaded) {
          if (loaded < 3000) return;
          Write("site/staging/loads/l1/files/" + name, std::string(3001, 'a'));
        }).status();
    EXPECT_EQ(status::Reason(failed), "STAGED_FILES_LOST") << name << failed;
    EXPECT_TRUE(site_->ListFiles("versions")->empty());
    EXPECT_FALSE(site_->Stat("staging/loads/l1").ok());
  }
}

TEST_F(LoadWorkerTest, SourcesOutsideTheAllowedFoldersAreRefused) {
  Write("secret/key", "k");
  for (const std::string& path : {base_ + "/secret/", std::string("/etc/"), base_ + "/bucketeer/",
                                  base_ + "/bucket/../secret/"}) {
    load_.source_uri = "file://" + path;
    EXPECT_FALSE(Run().ok()) << path;
  }
  ASSERT_EQ(::symlink((base_ + "/secret").c_str(), (base_ + "/bucket/link").c_str()), 0);
  load_.source_uri = "file://" + base_ + "/bucket/link/";
  EXPECT_EQ(status::Reason(Run().status()), "UNSAFE_PATH");
  ASSERT_EQ(::symlink((base_ + "/secret/key").c_str(), (base_ + "/bucket/d/key").c_str()), 0);
  load_.source_uri = "file://" + base_ + "/bucket/d/";
  EXPECT_EQ(status::Reason(Run().status()), "NOT_A_REGULAR_FILE");
  load_.objects = {"key"};
  EXPECT_FALSE(Run().ok());
}

TEST_F(LoadWorkerTest, CaseTwinsAreRefused) {
  Write("bucket/d/Readme", "1");
  Write("bucket/d/README", "2");
  EXPECT_EQ(status::Reason(Run().status()), "UNSAFE_PATH");
}

TEST_F(LoadWorkerTest, KilledBetweenPublishingAndReportFindsItsVersion) {
  Write("bucket/d/a", "abc");
  const absl::StatusOr<Published> done = Run();
  ASSERT_TRUE(done.ok());
  // The report is lost with the process; by then the source has other content.
  Write("bucket/d/a", "abcdef");
  load_.source_bytes_read = done->source_bytes_read;
  const absl::StatusOr<Published> again =
      Run([](int64_t) { ADD_FAILURE() << "it was read again"; });
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->manifest_digest, done->manifest_digest);
  EXPECT_EQ(again->source_bytes_read, 3);
  // Unless it has had to leave.
  ASSERT_TRUE(site_->RemoveTree("versions/" + done->manifest_digest.substr(7)).ok());
  const absl::StatusOr<Published> anew = Run();
  ASSERT_TRUE(anew.ok()) << anew.status();
  EXPECT_NE(anew->manifest_digest, done->manifest_digest);
  EXPECT_EQ(anew->source_bytes_read, 9);
}

}  // namespace
}  // namespace capstan::data_loader
