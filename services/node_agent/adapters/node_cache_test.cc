#include "services/node_agent/adapters/node_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "services/node_agent/ports/fake_loader_content.h"

namespace capstan::node_agent {
namespace {

namespace fs = std::filesystem;

class NodeCacheTest : public ::testing::Test {
 protected:
  NodeCacheTest() : logger_("node_agent", &clock_, &sink_), strand_("test", &clock_) {
    options_.folder = folder_.path() + "/cache";
    options_.fetch.part_bytes = 1000;
    options_.fetch.first_pause = absl::Milliseconds(1);
    options_.fetch.last_pause = absl::Milliseconds(2);
    Open();
  }
  ~NodeCacheTest() override {
    Close();
    strand_.Stop();
  }

  void Open() {
    OnStrand([this] {
      auto cache =
          NodeCache::Open(options_, &loader_, &strand_, Random(++seed_), &logger_, nullptr);
      ASSERT_TRUE(cache.ok()) << cache.status();
      cache_ = *std::move(cache);
    });
  }
  void Close() {
    OnStrand([this] { cache_.reset(); });
  }

  template <typename Work>
  void OnStrand(Work work) {
    absl::Notification done;
    strand_.Post([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }

  // Calls on the strand and waits for the answer.
  template <typename T, typename Call>
  T Await(Call call) {
    auto result = std::make_shared<absl::optional<T>>();
    auto done = std::make_shared<absl::Notification>();
    strand_.Post([call, result, done] {
      call([result, done](T answer) {
        *result = std::move(answer);
        done->Notify();
      });
    });
    done->WaitForNotification();
    return **result;
  }

  WantedContent Wanted(const std::string& digest, int64_t bytes, const std::string& holder) {
    WantedContent wanted;
    wanted.collection = "versions";
    wanted.content.set_resource("projects/p/datasets/d/versions/v");
    wanted.content.set_manifest_digest(digest);
    wanted.content.set_holder(holder);
    wanted.total_bytes = bytes;
    return wanted;
  }
  absl::StatusOr<std::string> Bring(const std::string& digest, int64_t bytes,
                                    const std::string& holder) {
    return Await<absl::StatusOr<std::string>>(
        [this, wanted = Wanted(digest, bytes, holder)](auto done) {
          cache_->Bring(wanted, std::move(done));
        });
  }
  absl::Status Release(const std::string& holder) {
    return Await<absl::Status>(
        [this, holder](auto done) { cache_->Release(holder, std::move(done)); });
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  log::TestingSink sink_;
  log::Logger logger_;
  ThreadStrand strand_;
  FakeLoaderContent loader_;
  NodeCacheOptions options_;
  uint64_t seed_ = 0;
  std::unique_ptr<NodeCache> cache_;
};

TEST_F(NodeCacheTest, BringsOnceForAllAndKeepsItOverARestart) {
  const std::string digest = loader_.Add({{"a", std::string(5000, 'a')}, {"b/c", "c"}});
  const absl::StatusOr<std::string> directory = Bring(digest, 5001, "j/1");
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(*directory, options_.folder + "/versions/" + digest.substr(7));
  EXPECT_EQ(Read(*directory + "/b/c"), "c");
  EXPECT_EQ(*Bring(digest, 5001, "k/1"), *directory);
  Close();
  Open();
  EXPECT_EQ(*Bring(digest, 5001, "k/1"), *directory);
  EXPECT_EQ(loader_.sent_bytes(), 5001);
}

TEST_F(NodeCacheTest, SaysHowFarItIsAndGoesOnAfterTheAgentWasGone) {
  options_.patience = absl::Milliseconds(10);
  Close();
  Open();
  const std::string digest = loader_.Add({{"a", std::string(50'000, 'a')}});
  absl::Notification middle;
  absl::Notification go_on;
  loader_.on_piece = [&](int64_t offset, std::string&) {
    if (offset == 20'000) {
      middle.Notify();
      go_on.WaitForNotification();
    }
    return absl::OkStatus();
  };
  absl::StatusOr<std::string> told = Bring(digest, 50'000, "j/1");
  EXPECT_EQ(status::Reason(told.status()), "DATA_ON_ITS_WAY") << told.status();
  middle.WaitForNotification();
  told = Bring(digest, 50'000, "j/1");
  EXPECT_TRUE(absl::StrContains(told.status().message(), "40 %")) << told.status();
  // The cache goes in the middle of a fetch, and the next one takes it up.
  strand_.Post([&go_on] { go_on.Notify(); });
  Close();
  loader_.on_piece = nullptr;
  const int64_t before = loader_.sent_bytes();
  ASSERT_LT(before, 50'000);
  options_.patience = absl::Minutes(1);
  Open();
  ASSERT_TRUE(Bring(digest, 50'000, "j/1").ok());
  EXPECT_LE(loader_.sent_bytes(), 50'000 + 1000 + 100);
}

TEST_F(NodeCacheTest, WhatIsHeldStaysAlsoOverARestartAndTheRestLeaves) {
  options_.limit_bytes = 10'000;
  Close();
  Open();
  const std::string a = loader_.Add({{"a", std::string(4000, 'a')}});
  const std::string b = loader_.Add({{"b", std::string(4000, 'b')}});
  const std::string c = loader_.Add({{"c", std::string(4000, 'c')}});
  const std::string in_a = *Bring(a, 4000, "job-a/1");
  const std::string in_b = *Bring(b, 4000, "job-b/1");
  const absl::Status full = Bring(c, 4000, "job-c/1").status();
  EXPECT_EQ(status::Reason(full), "SITE_FULL");
  EXPECT_TRUE(absl::StrContains(full.message(), "Jobs job-a, job-b")) << full;
  EXPECT_TRUE(Release("job-a/1").ok());
  Close();
  Open();
  const absl::StatusOr<std::string> in_c = Bring(c, 4000, "job-c/1");
  ASSERT_TRUE(in_c.ok()) << in_c.status();
  EXPECT_FALSE(fs::exists(in_a));
  EXPECT_FALSE(fs::exists(in_a + ".manifest"));
  EXPECT_EQ(Read(in_b + "/b"), std::string(4000, 'b'));
  EXPECT_EQ(status::Reason(Bring(a, 20'000, "job-d/1").status()), "CONTENT_TOO_LARGE");
  EXPECT_TRUE(fs::is_empty(options_.folder + "/staging"));
}

TEST_F(NodeCacheTest, AnErrorIsToldToAllWhoWaitAndTheNextOneTriesAgain) {
  const std::string digest = loader_.Add({{"a", "a"}});
  loader_.on_manifest = [] { return absl::PermissionDeniedError("no"); };
  EXPECT_TRUE(absl::IsPermissionDenied(Bring(digest, 1, "j/1").status()));
  loader_.on_manifest = nullptr;
  EXPECT_TRUE(Bring(digest, 1, "j/1").ok());
}

TEST_F(NodeCacheTest, ACrashLeavesNothingThatCounts) {
  const std::string a = loader_.Add({{"a", "aa"}});
  const std::string in_a = *Bring(a, 2, "j/1");
  Close();
  fs::create_directories(options_.folder + "/staging/versions-unknown/files");
  fs::create_directories(options_.folder + "/staging/leaving-1");
  fs::create_directories(options_.folder + "/versions/half");
  std::ofstream(options_.folder + "/versions/gone.manifest") << "x";
  Open();
  EXPECT_TRUE(fs::is_empty(options_.folder + "/staging"));
  EXPECT_FALSE(fs::exists(options_.folder + "/versions/half"));
  EXPECT_FALSE(fs::exists(options_.folder + "/versions/gone.manifest"));
  EXPECT_TRUE(fs::exists(in_a));
  // Without a record nobody could know what is held.
  Close();
  std::ofstream(options_.folder + "/cache.binpb") << "\xff\xff\xff";
  OnStrand([this] {
    const auto cache = NodeCache::Open(options_, &loader_, &strand_, Random(1), &logger_, nullptr);
    EXPECT_EQ(status::Reason(cache.status()), "CACHE_RECORD_CORRUPT");
  });
}

TEST_F(NodeCacheTest, SendsACopyOfWhatATaskHasWritten) {
  const auto outgoing = [this](const std::string& holder) {
    return *Await<absl::StatusOr<std::string>>(
        [this, holder](auto done) { cache_->OpenOutgoing(holder, std::move(done)); });
  };
  const auto send = [this](const std::string& directory) {
    capstan::dataloader::v1::CommitOutputRequest commit;
    commit.set_generation(2);
    return Await<absl::StatusOr<std::string>>([this, commit, directory](auto done) {
      cache_->SendOutput(commit, directory, std::move(done));
    });
  };
  const std::string old = outgoing("j/1");
  const std::string folder = outgoing("j/2");
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(folder, options_.folder + "/outgoing/j/2");
  fs::create_directories(folder + "/w-0");
  std::ofstream(folder + "/w-0/weights") << "w1";
  const absl::StatusOr<std::string> digest = send(folder + "/w-0");
  ASSERT_TRUE(digest.ok()) << digest.status();
  ASSERT_EQ(loader_.commits().size(), 1u);
  EXPECT_EQ(loader_.commits()[0].generation(), 2);
  // What was committed can be brought again, e.g. by the next generation.
  EXPECT_EQ(Read(*Bring(*digest, 2, "j/3") + "/weights"), "w1");
  EXPECT_TRUE(fs::is_empty(options_.folder + "/staging"));
  fs::create_symlink("/etc/passwd", folder + "/w-0/link");
  EXPECT_EQ(status::Reason(send(folder + "/w-0").status()), "NOT_A_REGULAR_FILE");
  EXPECT_FALSE(send("/etc").ok());
  EXPECT_FALSE(send(options_.folder + "/versions").ok());
  EXPECT_TRUE(Release("j/2").ok());
  EXPECT_FALSE(fs::exists(options_.folder + "/outgoing/j"));
}

}  // namespace
}  // namespace capstan::node_agent
