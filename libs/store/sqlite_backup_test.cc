#include "libs/store/sqlite_backup.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/store/backup.h"
#include "libs/store/backup_conformance.h"
#include "libs/store/blocking_store.h"
#include "libs/store/file_lock.h"
#include "libs/store/sqlite_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::store {
namespace {

class SqliteBench final : public BackupBench {
 public:
  SqliteBench() {
    static int made = 0;
    path_ = absl::StrCat(testing::TempDir(), "/bench-", getpid(), "-", made++, ".sqlite");
  }
  ~SqliteBench() override { Close(); }

  absl::Status Open() override {
    strand_ = std::make_unique<ThreadStrand>("bench", &clock_);
    auto opened = SqliteStore::Open(path_, strand_.get());
    if (!opened.ok()) return opened.status();
    store_ = *std::move(opened);
    return absl::OkStatus();
  }
  void Close() override {
    if (strand_ != nullptr) strand_->Stop();
    store_.reset();
    strand_.reset();
  }
  Store* store() override { return store_.get(); }
  int64_t incarnation() override { return store_->incarnation(); }
  std::unique_ptr<BackupSource> Source() override {
    auto source = SqliteBackupSource::Open(path_);
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  std::unique_ptr<RestoreTarget> Target() override {
    auto target = SqliteRestoreTarget::Open(path_);
    EXPECT_TRUE(target.ok()) << target.status();
    return *std::move(target);
  }
  const std::string& path() const { return path_; }

 private:
  SystemClock clock_;
  std::string path_;
  std::unique_ptr<ThreadStrand> strand_;
  std::unique_ptr<SqliteStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, BackupConformanceTest,
                         testing::Values([] { return std::make_unique<SqliteBench>(); }));

class SqliteBackupTest : public testing::Test {
 protected:
  void Put(SqliteBench* bench, const std::string& key, const std::string& value) {
    ASSERT_TRUE(BlockingStore(bench->store())
                    .Txn({.then = {store::Put{absl::StrCat("/capstan/thing/v1/", key), value}}})
                    .ok());
  }
  std::string Get(SqliteBench* bench, const std::string& key) {
    const auto found =
        BlockingStore(bench->store()).Range({.key = absl::StrCat("/capstan/thing/v1/", key)});
    EXPECT_TRUE(found.ok()) << found.status();
    return found->kvs.empty() ? "" : found->kvs[0].value;
  }
  std::string MakeBackup(SqliteBench* bench) {
    const std::string file = bench->path() + ".backup";
    const auto header = WriteBackup(bench->Source().get(), {.service = "thing", .path = file});
    EXPECT_TRUE(header.ok()) << header.status();
    return file;
  }

  SqliteBench bench_;
};

// A real process is killed at one record after another of the same restore; the store is the old
// one, or none, never half a new one, and the next restore goes through.
TEST_F(SqliteBackupTest, ARestoreThatIsKilledIsNeverTakenForAStore) {
  ASSERT_TRUE(bench_.Open().ok());
  for (int i = 0; i < 400; ++i) Put(&bench_, absl::StrCat("k", i), "old");
  const std::string file = MakeBackup(&bench_);
  Put(&bench_, "k1", "made after the backup");
  bench_.Close();
  for (const int64_t record : {1, 99, 100, 101, 250, 400}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto target = SqliteRestoreTarget::Open(bench_.path());
      if (!target.ok()) _exit(3);
      RestoreOptions options{.path = file, .service = "thing", .force = true};
      options.progress = [&](int64_t records, int64_t) {
        if (records == record) kill(getpid(), SIGKILL);
      };
      (void)RestoreBackup(target->get(), options);
      _exit(4);
    }
    int wait_status = 0;
    ASSERT_EQ(waitpid(child, &wait_status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(wait_status)) << record;
    EXPECT_EQ(status::Reason(bench_.Open()), kReasonRestoreUnfinished) << record;
    bench_.Close();
    EXPECT_EQ(status::Reason(SqliteBackupSource::Open(bench_.path()).status()),
              kReasonRestoreUnfinished);
  }
  // Who changes their mind has the old store, whole.
  ASSERT_EQ(unlink((bench_.path() + ".restoring").c_str()), 0);
  ASSERT_TRUE(bench_.Open().ok());
  EXPECT_EQ(Get(&bench_, "k1"), "made after the backup");
  bench_.Close();

  // Killed when the old store had been set aside already.
  ASSERT_EQ(rename(bench_.path().c_str(), (bench_.path() + ".replaced").c_str()), 0);
  {
    std::ofstream(bench_.path() + ".restoring") << "half";
  }
  EXPECT_EQ(status::Reason(bench_.Open()), kReasonRestoreUnfinished);
  bench_.Close();
  const auto restored = RestoreBackup(bench_.Target().get(), {.path = file, .service = "thing"});
  ASSERT_TRUE(restored.ok()) << restored.status();
  ASSERT_TRUE(bench_.Open().ok());
  EXPECT_EQ(Get(&bench_, "k1"), "old");
}

TEST_F(SqliteBackupTest, WhatADeadProcessHadCommittedIsNotLostWithItsLog) {
  // The WAL of a killed process holds what is committed: the old store that is kept has it.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!bench_.Open().ok()) _exit(3);
    Put(&bench_, "k", "only in the log");
    kill(getpid(), SIGKILL);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(wait_status));
  ASSERT_EQ(access((bench_.path() + "-wal").c_str(), F_OK), 0);

  SqliteBench other;
  ASSERT_TRUE(other.Open().ok());
  Put(&other, "k", "restored");
  const std::string file = MakeBackup(&other);
  ASSERT_TRUE(
      RestoreBackup(bench_.Target().get(), {.path = file, .service = "thing", .force = true}).ok());
  ASSERT_TRUE(bench_.Open().ok());
  EXPECT_EQ(Get(&bench_, "k"), "restored");
  bench_.Close();
  for (const char* suffix : {"", "-wal"}) {
    (void)rename((bench_.path() + ".replaced" + suffix).c_str(), (bench_.path() + suffix).c_str());
  }
  ASSERT_TRUE(bench_.Open().ok());
  EXPECT_EQ(Get(&bench_, "k"), "only in the log");
}

TEST_F(SqliteBackupTest, ASnapshotIsCheckedWhileTheServiceWrites) {
  ASSERT_TRUE(bench_.Open().ok());
  for (int i = 0; i < 50; ++i) Put(&bench_, absl::StrCat("k", i), "v");
  const auto source = SqliteBackupSource::Open(bench_.path());
  ASSERT_TRUE(source.ok()) << source.status();
  Put(&bench_, "later", "v");
  const auto state = (*source)->Check();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->keys, 50);
  EXPECT_EQ(state->incarnation, bench_.incarnation());
}

TEST_F(SqliteBackupTest, ARunningStoreIsNotRestored) {
  ASSERT_TRUE(bench_.Open().ok());
  EXPECT_EQ(status::Reason(SqliteRestoreTarget::Open(bench_.path()).status()), kReasonLocked);
}

}  // namespace
}  // namespace capstan::store
