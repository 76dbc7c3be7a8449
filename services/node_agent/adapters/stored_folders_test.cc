// A Node's folders as an agent leaves them for the next one, perhaps of another version: Tasks that
// run on, and the data cache.
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/log/testing_sink.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/adapters/node_cache.h"
#include "services/node_agent/adapters/task_folder.h"
#include "services/node_agent/ports/fake_loader_content.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {
namespace {

constexpr char kPackage[] = "services/node_agent/adapters";

TEST(StoredTaskFolderTest, IsWhereItWas) {
  const golden::Format format(kPackage, "task_folder", "folder");
  capstan::type::v1::TaskKey key;
  key.set_job_uid("0193d5a0-7e21-7abc-8def-0123456789ab");
  key.set_generation(12);
  key.set_group("w");
  key.set_index(3);
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    golden::RestoreFolder(version.bytes, folder.path());
    const auto found = ListTaskFolders(folder.path() + "/tasks");
    ASSERT_EQ(found.size(), 1u) << golden::kMustRead;
    EXPECT_EQ(found[0].SerializeAsString(), key.SerializeAsString());
    const auto status = ReadShimStatus(TaskFolder(folder.path() + "/tasks", key));
    ASSERT_TRUE(status.has_value()) << golden::kMustRead;
    EXPECT_EQ(status->shim_pid(), 77);
  }
  const TemporaryFolder folder;
  const std::string tasks = folder.path() + "/tasks";
  ASSERT_TRUE(MakeTaskFolder(tasks, key, /*unix_uid=*/0).ok());
  // What agent and shim leave for each other in it (nodeagent/v1/shim.proto).
  for (const char* name : {kSpecFile, kControlFile, kLockFile, kKilledFile}) {
    ASSERT_TRUE(
        WriteFileAtomically(absl::StrCat(TaskFolder(tasks, key), "/", name), "", 0600).ok());
  }
  capstan::nodeagent::v1::ShimStatus status;
  status.set_shim_pid(77);
  ASSERT_TRUE(WriteFileAtomically(absl::StrCat(TaskFolder(tasks, key), "/", kStatusFile),
                                  status.SerializeAsString(), 0600)
                  .ok());
  format.ExpectWritten(golden::DumpFolder(folder.path()));
}

class StoredCacheTest : public ::testing::Test {
 protected:
  StoredCacheTest() : logger_("node_agent", &clock_, &sink_), strand_("cache", &clock_) {}
  ~StoredCacheTest() override {
    Close();
    strand_.Stop();
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
  void Open(const std::string& folder) {
    NodeCacheOptions options;
    options.folder = folder;
    OnStrand([&] {
      auto opened = NodeCache::Open(options, &loader_, &strand_, Random(1), &logger_, nullptr);
      ASSERT_TRUE(opened.ok()) << opened.status() << golden::kMustRead;
      cache_ = *std::move(opened);
    });
  }
  void Close() {
    OnStrand([this] { cache_.reset(); });
  }
  absl::StatusOr<std::string> Bring(const std::string& digest) {
    WantedContent wanted;
    wanted.collection = "versions";
    wanted.content.set_resource("projects/p/datasets/d/versions/v");
    wanted.content.set_manifest_digest(digest);
    wanted.content.set_holder("uid/1");
    wanted.total_bytes = 3;
    return Await([&](auto done) { cache_->Bring(wanted, std::move(done)); });
  }
  absl::StatusOr<std::string> OpenOutgoing() {
    return Await([&](auto done) { cache_->OpenOutgoing("uid/1", std::move(done)); });
  }

  SimulatedClock clock_;
  log::TestingSink sink_;
  log::Logger logger_;
  ThreadStrand strand_;
  FakeLoaderContent loader_;
  std::unique_ptr<NodeCache> cache_;

 private:
  template <typename Call>
  absl::StatusOr<std::string> Await(Call call) {
    absl::StatusOr<std::string> result;
    absl::Notification done;
    strand_.Post([&] {
      call([&](absl::StatusOr<std::string> answer) {
        result = std::move(answer);
        done.Notify();
      });
    });
    done.WaitForNotification();
    return result;
  }
};

TEST_F(StoredCacheTest, WhatItHoldsIsHeldOn) {
  const golden::Format format(kPackage, "node_cache", "folder");
  const std::string digest = loader_.Add({{"a", "abc"}});
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    golden::RestoreFolder(version.bytes, folder.path());
    Open(folder.path() + "/cache");
    const auto brought = Bring(digest);
    ASSERT_TRUE(brought.ok()) << brought.status() << golden::kMustRead;
    EXPECT_EQ(*brought, absl::StrCat(folder.path(), "/cache/versions/", digest.substr(7)));
    EXPECT_EQ(loader_.sent_bytes(), 0) << "it is fetched again. " << golden::kMustRead;
    Close();
  }
  const TemporaryFolder folder;
  Open(folder.path() + "/cache");
  ASSERT_TRUE(Bring(digest).ok());
  ASSERT_TRUE(OpenOutgoing().ok());
  Close();
  format.ExpectWritten(golden::DumpFolder(folder.path()));
}

}  // namespace
}  // namespace capstan::node_agent
