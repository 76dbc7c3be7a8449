#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/store/backup.h"
#include "libs/store/backup_conformance.h"
#include "libs/store/blocking_store.h"
#include "libs/store/memory_store.h"
#include "libs/store/store_backup.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::store {
namespace {

// The fake with its incarnation in a key, as etcd keeps it, and refused while the mark is there.
class MemoryBench final : public BackupBench {
 public:
  MemoryBench() { image_->incarnation = 7; }
  ~MemoryBench() override { Close(); }

  absl::Status Open() override {
    Connect();
    const auto mark = BlockingStore(store_.get()).Range({.key = RestoreMarkKey("thing")});
    if (mark->kvs.empty()) return absl::OkStatus();
    Close();
    return status::Error(absl::StatusCode::kFailedPrecondition, kReasonRestoreUnfinished, "half");
  }
  void Close() override {
    if (store_ == nullptr) return;
    absl::Notification closed;
    strand_.Post([&] {
      store_.reset();
      closed.Notify();
    });
    closed.WaitForNotification();
  }
  Store* store() override { return store_.get(); }
  int64_t incarnation() override {
    const auto state = StoreRestoreTarget(store_.get(), "thing").Inspect();
    EXPECT_TRUE(state.ok()) << state.status();
    return state->incarnation;
  }
  std::unique_ptr<BackupSource> Source() override {
    return std::make_unique<StoreBackupSource>(store_.get());
  }
  std::unique_ptr<RestoreTarget> Target() override {
    Connect();
    return std::make_unique<StoreRestoreTarget>(store_.get(), "thing");
  }

 private:
  void Connect() {
    Close();
    store_ = std::make_unique<MemoryStore>(&strand_, image_);
    TxnRequest first;
    first.compares.push_back(Compare{.key = IncarnationKey("thing"), .number = 0});
    first.then.push_back(Put{IncarnationKey("thing"), "7 cafe"});
    EXPECT_TRUE(BlockingStore(store_.get()).Txn(std::move(first)).ok());
  }

  SystemClock clock_;
  ThreadStrand strand_{"bench", &clock_};
  const std::shared_ptr<MemoryImage> image_ = std::make_shared<MemoryImage>();
  std::unique_ptr<MemoryStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Memory, BackupConformanceTest,
                         testing::Values([] { return std::make_unique<MemoryBench>(); }));

class StoreBackupTest : public testing::Test {
 protected:
  StoreBackupTest() { EXPECT_TRUE(bench_.Open().ok()); }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(
        BlockingStore(bench_.store()).Txn({.then = {store::Put{key, value}}}).status().ok());
  }
  std::string File(const char* name) const {
    return absl::StrCat(testing::TempDir(), "/store-backup-", name);
  }

  MemoryBench bench_;
};

TEST_F(StoreBackupTest, BeginsAgainWhenItsRevisionIsCompactedAway) {
  for (int i = 0; i < 100; ++i) Put(absl::StrCat("/capstan/thing/v1/", 1000 + i), "v");
  bool compacted = false;
  BackupOptions options{.service = "thing", .path = File("compacted")};
  options.progress = [&](int64_t records, int64_t) {
    if (compacted || records < 20) return;
    compacted = true;
    Put("/capstan/thing/v1/1099", "newer");
    absl::Notification done;
    bench_.store()->Compact(BlockingStore(bench_.store()).Range({.key = "x"})->revision,
                            [&](const absl::Status& status) {
                              EXPECT_TRUE(status.ok()) << status;
                              done.Notify();
                            });
    done.WaitForNotification();
  };
  StoreBackupSource source(bench_.store());
  const auto header = WriteBackup(&source, options);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_TRUE(compacted);
  EXPECT_EQ(header->record_count(), 100);
}

TEST_F(StoreBackupTest, AStoreWithKeysOfAnotherSchemaIsNotBackedUpInPart) {
  Put("/capstan/thing/v1/a", "1");
  Put("/capstan/thing/v2/a", "2");
  StoreBackupSource source(bench_.store());
  const auto header = WriteBackup(&source, {.service = "thing", .path = File("schema")});
  EXPECT_EQ(status::Reason(header.status()), "SCHEMA_TOO_NEW");
}

TEST_F(StoreBackupTest, NoRestoreWhileSomeoneLeads) {
  Put("/capstan/thing/v1/a", "1");
  StoreBackupSource source(bench_.store());
  ASSERT_TRUE(WriteBackup(&source, {.service = "thing", .path = File("leader")}).ok());
  Put("/capstan/thing/v1/leader", "127.0.0.1:1");
  StoreRestoreTarget target(bench_.store(), "thing");
  const auto restored =
      RestoreBackup(&target, {.path = File("leader"), .service = "thing", .force = true});
  EXPECT_EQ(status::Reason(restored.status()), "STORE_IN_USE");
  EXPECT_FALSE(target.Inspect()->unfinished);
}

TEST_F(StoreBackupTest, RecordsMayBeRewrittenOnTheirWay) {
  Put("/capstan/thing/v1/a", "1");
  StoreBackupSource source(bench_.store());
  ASSERT_TRUE(WriteBackup(&source, {.service = "thing", .path = File("rewritten")}).ok());
  MemoryBench other;
  const auto target = other.Target();
  RestoreOptions options{.path = File("rewritten"), .service = "thing"};
  options.rewrite = [](const backup::v1::BackupHeader& header, std::string* key,
                       std::string* value) {
    *key += "b";
    *value = absl::StrCat(header.store_incarnation());
  };
  ASSERT_TRUE(RestoreBackup(target.get(), options).ok());
  const auto found = BlockingStore(other.store()).Range({.key = "/capstan/thing/v1/ab"});
  ASSERT_EQ(found->kvs.size(), 1u);
}

}  // namespace
}  // namespace capstan::store
