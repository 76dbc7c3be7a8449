#include "services/data_loader/adapters/part_syncer.h"

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/content/part_journal.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "services/data_loader/adapters/staged_file.h"

namespace capstan::data_loader {
namespace {

using content::PartJournal;

class PartSyncerTest : public ::testing::Test {
 protected:
  std::shared_ptr<const StagedFile> File(const std::string& name) {
    return std::make_shared<const StagedFile>(StagedFile::Open(root_, name).value());
  }
  // What whoever takes the load up finds.
  std::set<PartJournal::PartKey> Noted() { return PartJournal::Open(root_, "journal")->found(); }

  const TemporaryFolder folder_;
  const SafeRoot root_ = SafeRoot::Open(folder_.path()).value();
  PartJournal journal_ = PartJournal::Open(root_, "journal").value();
};

TEST_F(PartSyncerTest, EverythingIsNotedOnceItHasFinished) {
  int64_t bytes = 0;
  PartSyncer syncer(&journal_, {}, [&bytes](int64_t noted) { bytes += noted; });
  const auto a = File("a");
  const auto b = File("b");
  ASSERT_TRUE(a->Write(0, "abcdef").ok());
  for (int i = 0; i < 3; ++i) syncer.Add({.key = {0, i}, .size = 2, .file = a});
  syncer.Add({.key = {1, 0}, .size = 0, .file = b});
  ASSERT_TRUE(syncer.Finish().ok());
  EXPECT_EQ(bytes, 6);
  EXPECT_EQ(Noted(), (std::set<PartJournal::PartKey>{{0, 0}, {0, 1}, {0, 2}, {1, 0}}));
}

TEST_F(PartSyncerTest, WhatComesWhileAGroupIsSyncedIsTheNext) {
  std::vector<int64_t> groups;
  absl::Notification first;
  absl::Notification go_on;
  PartSyncer syncer(&journal_, {}, [&](int64_t bytes) {
    groups.push_back(bytes);
    if (groups.size() > 1) return;
    first.Notify();
    go_on.WaitForNotification();
  });
  const auto file = File("a");
  // Alone, it is not kept waiting for others.
  syncer.Add({.key = {0, 0}, .size = 1, .file = file});
  first.WaitForNotification();
  EXPECT_EQ(Noted().size(), 1);
  for (int i = 1; i < 5; ++i) syncer.Add({.key = {0, i}, .size = 10, .file = file});
  EXPECT_EQ(Noted().size(), 1);
  go_on.Notify();
  ASSERT_TRUE(syncer.Finish().ok());
  EXPECT_EQ(groups, (std::vector<int64_t>{1, 40}));
  EXPECT_EQ(Noted().size(), 5);
}

TEST_F(PartSyncerTest, NoPartBeginsBeyondTheLimits) {
  for (const PartSyncer::Limits limits :
       {PartSyncer::Limits{.unsynced_bytes = 100, .unsynced_parts = 1000},
        PartSyncer::Limits{.unsynced_bytes = 1000, .unsynced_parts = 1}}) {
    int64_t noted = 0;
    PartSyncer syncer(&journal_, limits, [&noted](int64_t bytes) { noted += bytes; });
    const auto file = File("a");
    ASSERT_TRUE(syncer.AwaitRoom().ok());
    for (int i = 1; i <= 20; ++i) {
      syncer.Add({.key = {0, i}, .size = 100, .file = file});
      // There is room only once that is noted.
      ASSERT_TRUE(syncer.AwaitRoom().ok());
      EXPECT_EQ(noted, i * 100);
    }
  }
}

// A FIFO cannot be synced.
TEST_F(PartSyncerTest, WhatIsNotDurableIsNotNotedAndNothingAfterIt) {
  ASSERT_EQ(::mkfifo((folder_.path() + "/fifo").c_str(), 0600), 0);
  PartSyncer syncer(&journal_, {.unsynced_bytes = 1, .unsynced_parts = 1000},
                    [](int64_t) { ADD_FAILURE() << "noted"; });
  syncer.Add({.key = {0, 0}, .size = 1, .file = File("fifo")});
  const absl::Status refused = syncer.AwaitRoom();
  EXPECT_FALSE(refused.ok());
  syncer.Add({.key = {1, 0}, .size = 1, .file = File("a")});
  EXPECT_EQ(syncer.Finish(), refused);
  EXPECT_TRUE(Noted().empty());
}

}  // namespace
}  // namespace capstan::data_loader
