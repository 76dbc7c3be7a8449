#include "libs/store/sqlite_store.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/store/file_lock.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_maintenance.h"
#include "libs/store/sqlite_tables.h"
#include "libs/store/store.h"
#include "libs/store/testing/pumped_strand.h"

namespace capstan::store {
namespace {

class SqliteStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = absl::StrCat(testing::TempDir(), "/",
                         testing::UnitTest::GetInstance()->current_test_info()->name(), ".db");
  }

  absl::StatusOr<TxnResult> Txn(Store* store, TxnRequest request) {
    absl::StatusOr<TxnResult> result = absl::UnknownError("no answer");
    bool done = false;
    store->Txn(std::move(request), [&](absl::StatusOr<TxnResult> got) {
      result = std::move(got);
      done = true;
    });
    EXPECT_TRUE(strand_.RunUntil([&] { return done; }));
    return result;
  }

  void Execute(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  }

  int CountKeys() { return Count("SELECT count(*) FROM current"); }
  int Count(const char* sql) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open_v2(path_.c_str(), &db, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
    sqlite3_stmt* count = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db, sql, -1, &count, nullptr), SQLITE_OK);
    const int n = sqlite3_step(count) == SQLITE_ROW ? sqlite3_column_int(count, 0) : 0;
    sqlite3_finalize(count);
    sqlite3_close(db);
    return n;
  }

  PumpedStrand strand_;
  std::string path_;
};

TEST_F(SqliteStoreTest, OneProcessOwnsTheFileAndIsNamed) {
  auto first = SqliteStore::Open(path_, &strand_);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = SqliteStore::Open(path_, &strand_);
  EXPECT_EQ(status::Reason(second.status()), kReasonLocked);
  EXPECT_EQ(status::GetErrorInfo(second.status())->metadata["pid"], absl::StrCat(::getpid()));
  first->reset();
  EXPECT_TRUE(SqliteStore::Open(path_, &strand_).ok());
}

// In whatever folder, and if an older version made it for all to read.
TEST_F(SqliteStoreTest, TheFilesAreTheirOwnersAlone) {
  const auto mode = [&](const std::string& beside) {
    struct stat info = {};
    return stat((path_ + beside).c_str(), &info) == 0 ? info.st_mode & 0777 : 0u;
  };
  {
    const auto made = SqliteStore::Open(path_, &strand_);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(mode(""), 0600u);
    EXPECT_EQ(mode("-wal"), 0600u);
  }
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  const auto opened = SqliteStore::Open(path_, &strand_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(mode(""), 0600u);
  EXPECT_EQ(mode("-wal"), 0600u);
}

TEST_F(SqliteStoreTest, RefusesANewerSchemaAndForeignFiles) {
  ASSERT_TRUE(SqliteStore::Open(path_, &strand_).ok());
  Execute("PRAGMA user_version = 2");
  EXPECT_EQ(status::Reason(SqliteStore::Open(path_, &strand_).status()), "SCHEMA_TOO_NEW");
  path_ += ".foreign";
  Execute("CREATE TABLE t(a)");
  EXPECT_EQ(status::Reason(SqliteStore::Open(path_, &strand_).status()), "NOT_A_STORE");
  path_ += ".text";
  FILE* text = std::fopen(path_.c_str(), "w");
  ASSERT_NE(text, nullptr);
  std::fputs(std::string(4096, 'x').c_str(), text);
  std::fclose(text);
  EXPECT_EQ(SqliteStore::Open(path_, &strand_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteStoreTest, APutBeyondTheQuotaGetsNoSpaceAndDeletionsGoOn) {
  auto store = SqliteStore::Open(path_, &strand_, {.quota_bytes = 1 << 20});
  ASSERT_TRUE(store.ok());
  absl::Status status;
  int stored = 0;
  while (status.ok() && stored < 100) {
    const auto result =
        Txn(store->get(), {.then = {Put{absl::StrCat("/", stored), std::string(100 << 10, 'x')}}});
    status = result.status();
    if (status.ok()) ++stored;
  }
  EXPECT_EQ(status::Reason(status), kReasonNoSpace);
  EXPECT_GE(stored, 9);
  EXPECT_LE(stored, 12);
  const auto gone = Txn(store->get(), {.then = {Delete{"/", PrefixEnd("/")}}});
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->deleted, stored);
  // Compaction gives the room back.
  bool compacted = false;
  (*store)->Compact(gone->revision, [&](absl::Status done) { compacted = done.ok(); });
  ASSERT_TRUE(strand_.RunUntil([&] { return compacted; }));
  for (int i = 0; i < 1000; ++i) {
    status = Txn(store->get(), {.then = {Put{"/again", "1"}}}).status();
    if (status.ok()) break;
  }
  EXPECT_TRUE(status.ok()) << status;
}

// A page costs what it holds, whatever else the range has, at an old revision as at the newest.
TEST_F(SqliteStoreTest, APageOfAnOldRevisionIsReadByItself) {
  constexpr int kKeys = 5000;
  {
    auto store = SqliteStore::Open(path_, &strand_);
    ASSERT_TRUE(store.ok()) << store.status();
    for (int first = 0; first < kKeys; first += 500) {
      TxnRequest request;
      for (int i = first; i < first + 500; ++i) {
        request.then.emplace_back(Put{absl::StrFormat("/%06d", i), "1"});
      }
      ASSERT_TRUE(Txn(store->get(), std::move(request)).ok());
    }
  }
  auto connection = SqliteConnection::Open(path_, /*writable=*/false, /*create=*/false);
  ASSERT_TRUE(connection.ok()) << connection.status();
  SqliteTables tables(connection->get());
  const auto newest = tables.Revision();
  ASSERT_TRUE(newest.ok());
  // In hundreds of the virtual machine's instructions.
  int work = 0;
  sqlite3_progress_handler((*connection)->raw(), 100,
                           [](void* counter) { return ++*static_cast<int*>(counter), 0; }, &work);
  const auto read = [&](absl::string_view from, int64_t revision) {
    work = 0;
    RangeRequest request;
    request.key = std::string(from);
    request.end = PrefixEnd("/");
    request.limit = 10;
    request.revision = revision;
    const auto page = tables.Range(request);
    EXPECT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->kvs.size(), 10u);
    return work;
  };
  for (const int64_t revision : {*newest, *newest - 1}) {
    EXPECT_LE(read("/000000", revision), 2 * read("/004400", revision) + 5);
  }
}

// After each compaction, however much was there before: of each key what is seen at its revision,
// and all that came later; and it looks at what has changed since the one before.
TEST_F(SqliteStoreTest, CompactionLeavesWhatIsSeenAndCostsWhatChanged) {
  constexpr int kKeys = 3000;
  std::map<std::string, int64_t> live;  // by key: the revision that changed it last
  std::map<int64_t, int> changes;       // by revision
  int64_t revision = 0;
  {
    auto store = SqliteStore::Open(path_, &strand_);
    ASSERT_TRUE(store.ok()) << store.status();
    Random random(1);
    const auto change = [&](int first, int end, bool may_delete) {
      TxnRequest request;
      std::vector<std::string> put;
      std::vector<std::string> gone;
      for (int i = first; i < end; ++i) {
        const std::string key = absl::StrFormat("/%06d", i);
        if (may_delete && random.Below(3) == 0 && live.count(key) > 0) {
          request.then.emplace_back(Delete{key, ""});
          gone.push_back(key);
        } else {
          request.then.emplace_back(Put{key, "1"});
          put.push_back(key);
        }
      }
      const auto done = Txn(store->get(), std::move(request));
      ASSERT_TRUE(done.ok()) << done.status();
      revision = done->revision;
      changes[revision] = static_cast<int>(put.size() + gone.size());
      for (const std::string& key : gone) live.erase(key);
      for (const std::string& key : put) live[key] = revision;
    };
    for (int first = 0; first < kKeys; first += 500) change(first, first + 500, false);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 20; ++i) {
        const int first = static_cast<int>(random.Below(kKeys - 10));
        change(first, first + 10, true);
      }
    }
  }
  const auto rows = [&] { return Count("SELECT count(*) FROM history"); };
  auto connection = SqliteConnection::Open(path_, /*writable=*/true, /*create=*/false);
  ASSERT_TRUE(connection.ok()) << connection.status();
  SqliteTables tables(connection->get());
  int work = 0;
  sqlite3_progress_handler((*connection)->raw(), 100,
                           [](void* counter) { return ++*static_cast<int*>(counter), 0; }, &work);
  const auto compact = [&](int64_t to) {
    work = 0;
    auto next = tables.FirstUnswept(to);
    ASSERT_TRUE(next.ok()) << next.status();
    while (*next != 0) {
      next = tables.CompactSome(to, *next, /*rows=*/7);
      ASSERT_TRUE(next.ok()) << next.status();
    }
  };
  compact(revision - 10);
  const int first_work = work;
  compact(revision);
  EXPECT_LT(work, first_work / 4);
  // What the last revision deleted is told of until the next one.
  int deleted_last = changes[revision];
  for (const auto& [key, at] : live) deleted_last -= at == revision ? 1 : 0;
  EXPECT_EQ(rows(), static_cast<int>(live.size()) + deleted_last);
  EXPECT_EQ(Count("SELECT count(*) FROM current"), static_cast<int>(live.size()));
  // There is nothing left to do, also for whoever opens it again.
  EXPECT_EQ(*tables.FirstUnswept(revision), 0);
}

TEST_F(SqliteStoreTest, HistoryIsCompactedByItself) {
  auto store = SqliteStore::Open(path_, &strand_, {.keep_revisions = 10});
  ASSERT_TRUE(store.ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Txn(store->get(), {.then = {Put{"/a", "1"}}}).ok());
  absl::Status old;
  bool done = false;
  (*store)->Range({.key = "/a", .revision = 5}, [&](absl::StatusOr<RangeResult> result) {
    old = result.status();
    done = true;
  });
  ASSERT_TRUE(strand_.RunUntil([&] { return done; }));
  EXPECT_EQ(status::Reason(old), kReasonCompacted);
}

TEST_F(SqliteStoreTest, ASlowWatcherIsEndedAndOthersAreNot) {
  auto store = SqliteStore::Open(path_, &strand_, {.watch_bound_bytes = 10000});
  ASSERT_TRUE(store.ok());
  absl::Status ended;
  bool greeted = false;
  auto watch = (*store)->StartWatch({.key = "/", .end = PrefixEnd("/")},
                                    [&](absl::StatusOr<WatchBatch> batch) {
                                      greeted = true;
                                      ended = batch.status();
                                    });
  ASSERT_TRUE(strand_.RunUntil([&] { return greeted; }));
  // Each commit is a group of its own, and nothing is taken from the strand meanwhile: that a
  // commit is done shows in a reader of its own.
  int answered = 0;
  for (int i = 0; i < 4; ++i) {
    (*store)->Txn({.then = {Put{absl::StrCat("/", i), std::string(20000, 'x')}}},
                  [&](absl::StatusOr<TxnResult>) { ++answered; });
    while (CountKeys() <= i) std::this_thread::yield();
  }
  ASSERT_TRUE(strand_.RunUntil([&] { return answered == 4 && !ended.ok(); }));
  EXPECT_EQ(ended.code(), absl::StatusCode::kAborted);
}

TEST_F(SqliteStoreTest, ABackupIsCheckedAndRestoredUnderAHigherIncarnation) {
  auto store = SqliteStore::Open(path_, &strand_);
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE(Txn(store->get(), {.then = {Put{"/a", "1"}, Put{"/b", "1"}}}).ok());
  ASSERT_TRUE(Txn(store->get(), {.then = {Delete{"/b", ""}}}).ok());
  const std::string copy = path_ + ".backup";
  absl::Status copied = absl::UnknownError("");
  bool done = false;
  (*store)->Backup(copy, [&](absl::Status status) {
    copied = std::move(status);
    done = true;
  });
  ASSERT_TRUE(strand_.RunUntil([&] { return done; }));
  ASSERT_TRUE(copied.ok()) << copied;
  ASSERT_TRUE(Txn(store->get(), {.then = {Put{"/after", "1"}}}).ok());

  EXPECT_EQ(status::Reason(CheckSqliteStore(path_).status()), kReasonLocked);
  const auto state = CheckSqliteStore(copy);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->keys, 1);
  EXPECT_EQ(state->revision, 3);
  EXPECT_EQ(state->incarnation, (*store)->incarnation());

  const absl::Time now = absl::FromUnixSeconds((*store)->incarnation() + 1000);
  EXPECT_EQ(RestoreSqliteStore(copy, path_, now).code(), absl::StatusCode::kFailedPrecondition);
  const int64_t before = (*store)->incarnation();
  store->reset();
  EXPECT_EQ(RestoreSqliteStore(copy, path_, now).code(), absl::StatusCode::kAlreadyExists);
  const std::string restored_path = path_ + ".restored";
  ASSERT_TRUE(RestoreSqliteStore(copy, restored_path, now).ok());
  auto restored = SqliteStore::Open(restored_path, &strand_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored)->incarnation(), before + 1000);
  const auto read =
      Txn(restored->get(), {.then = {RangeRequest{.key = "/", .end = PrefixEnd("/")}}});
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->ranges[0].kvs.size(), 1u);
  EXPECT_EQ(read->ranges[0].kvs[0].key, "/a");
  // A clock that went back does not bring an old incarnation back.
  const std::string again = path_ + ".again";
  ASSERT_TRUE(RestoreSqliteStore(copy, again, absl::UnixEpoch()).ok());
  EXPECT_EQ(CheckSqliteStore(again)->incarnation, before + 1);
}

TEST_F(SqliteStoreTest, TheCheckFindsWhatWasTamperedWith) {
  {
    auto store = SqliteStore::Open(path_, &strand_);
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(Txn(store->get(), {.then = {Put{"/a", "1"}}}).ok());
  }
  ASSERT_TRUE(CheckSqliteStore(path_).ok());
  Execute("DELETE FROM current");
  EXPECT_EQ(CheckSqliteStore(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteStoreTest, TheLogBeginsAnewWhileItIsWritten) {
  SqliteStore::Options options;
  options.checkpoint_pages = 16;
  options.keep_revisions = 100;
  auto store = SqliteStore::Open(path_, &strand_, options);
  ASSERT_TRUE(store.ok()) << store.status();
  // In the log's header: how often it has begun anew (https://sqlite.org/fileformat2.html#walformat).
  const auto begun = [this] {
    std::ifstream log(path_ + "-wal", std::ios::binary);
    unsigned char header[16] = {};
    log.read(reinterpret_cast<char*>(header), sizeof(header));
    return (header[12] << 24) | (header[13] << 16) | (header[14] << 8) | header[15];
  };
  ASSERT_TRUE(Txn(store->get(), {.then = {Put{"/first", "1"}}}).ok());
  const int before = begun();
  int written = 0;
  for (; written < 20'000 && begun() < before + 5; ++written) {
    const std::string key = absl::StrCat("/k", written % 50);
    ASSERT_TRUE(Txn(store->get(), {.then = {Put{key, std::string(3000, 'x')}}}).ok());
  }
  EXPECT_GE(begun(), before + 5) << "after " << written << " transactions";
  // What a process that dies now leaves is whole.
  const std::string copy = path_ + ".copy";
  std::filesystem::copy_file(path_ + "-wal", copy + "-wal");
  std::filesystem::copy_file(path_, copy);
  auto left = CheckSqliteStore(copy);
  EXPECT_TRUE(left.ok()) << left.status();
}

}  // namespace
}  // namespace capstan::store
