// A SqliteStore whose disk refuses: what was acknowledged is there afterwards, what was not says
// why, and the store goes on once there is room, or is opened again. The disk is SQLite's own file
// system with calls that fail on command, and a real one that is full.
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_store.h"
#include "libs/store/store.h"
#include "libs/store/testing/pumped_strand.h"

namespace capstan::store {
namespace {

using Contents = std::map<std::string, std::string>;

// SQLite's file system for the whole process, in which calls of a kind fail from one on until it is
// mended. Any thread.
class FailingDisk {
 public:
  enum class File { kDatabase, kLog };
  enum class Call { kWrite, kSync };

  // From now on every file is opened through it.
  static void Install() {
    if (real_ != nullptr) return;
    real_ = sqlite3_vfs_find(nullptr);
    static sqlite3_vfs failing = *real_;
    failing.zName = "failing";
    failing.xOpen = Open;
    ASSERT_EQ(sqlite3_vfs_register(&failing, /*makeDflt=*/1), SQLITE_OK);
  }
  // `code`: SQLite's, which the call then gives. `left_alone`: calls before it that go well.
  static void Fail(File file, Call call, int code, int left_alone = 0) {
    left_alone_ = left_alone;
    failing_ = Number(file, call);
    code_ = code;
  }
  static void Mend() { code_ = SQLITE_OK; }
  // Since it was asked last.
  static bool HasFailed() { return failed_.exchange(false); }

 private:
  static int Number(File file, Call call) {
    return 2 * static_cast<int>(file) + static_cast<int>(call);
  }
  static int Open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
    const int rc = real_->xOpen(real_, name, file, flags, out);
    if (rc != SQLITE_OK || file->pMethods == nullptr) return rc;
    const bool is_database = (flags & SQLITE_OPEN_MAIN_DB) != 0;
    file->pMethods = is_database ? Failing<File::kDatabase>(file->pMethods)
                                 : Failing<File::kLog>(file->pMethods);
    return rc;
  }
  // One table of functions serves all files of a kind.
  template <File kFile>
  static const sqlite3_io_methods* Failing(const sqlite3_io_methods* real) {
    static const sqlite3_io_methods* const kReal = real;
    static const sqlite3_io_methods kFailing = [] {
      sqlite3_io_methods methods = *kReal;
      methods.xWrite = [](sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) {
        const int refused = Refused(kFile, Call::kWrite);
        return refused != SQLITE_OK ? refused : kReal->xWrite(file, bytes, size, at);
      };
      methods.xSync = [](sqlite3_file* file, int flags) {
        const int refused = Refused(kFile, Call::kSync);
        return refused != SQLITE_OK ? refused : kReal->xSync(file, flags);
      };
      return methods;
    }();
    EXPECT_EQ(real, kReal);
    return &kFailing;
  }
  static int Refused(File file, Call call) {
    const int code = code_;
    if (code == SQLITE_OK || failing_ != Number(file, call)) return SQLITE_OK;
    if (left_alone_.fetch_sub(1) > 0) return SQLITE_OK;
    failed_ = true;
    return code;
  }

  static sqlite3_vfs* real_;
  static std::atomic<int> code_;
  static std::atomic<int> failing_;
  static std::atomic<int> left_alone_;
  static std::atomic<bool> failed_;
};

sqlite3_vfs* FailingDisk::real_ = nullptr;
std::atomic<int> FailingDisk::code_{SQLITE_OK};
std::atomic<int> FailingDisk::failing_{0};
std::atomic<int> FailingDisk::left_alone_{0};
std::atomic<bool> FailingDisk::failed_{false};

class SqliteFullDiskTest : public testing::Test {
 protected:
  using File = FailingDisk::File;
  using Call = FailingDisk::Call;

  void SetUp() override { FailingDisk::Install(); }
  void TearDown() override { FailingDisk::Mend(); }

  void Open() {
    store_.reset();
    auto opened = SqliteStore::Open(path_, &strand_, options_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void Close() { store_.reset(); }

  // All of them at once, so that they may be committed together.
  std::vector<absl::StatusOr<TxnResult>> Txns(std::vector<TxnRequest> requests) {
    std::vector<absl::StatusOr<TxnResult>> results(requests.size(), absl::UnknownError("none"));
    size_t answered = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      store_->Txn(std::move(requests[i]), [&, i](absl::StatusOr<TxnResult> got) {
        results[i] = std::move(got);
        ++answered;
      });
    }
    EXPECT_TRUE(strand_.RunUntil([&] { return answered == results.size(); }));
    return results;
  }
  absl::StatusOr<TxnResult> Txn(TxnRequest request) {
    std::vector<TxnRequest> one;
    one.push_back(std::move(request));
    return Txns(std::move(one))[0];
  }
  // What is acknowledged is remembered.
  absl::Status Put(const std::string& key, const std::string& value) {
    const auto result = Txn({.then = {store::Put{key, value}}});
    if (!result.ok()) return result.status();
    EXPECT_EQ(result->revision, ++revision_);
    acknowledged_[key] = value;
    return absl::OkStatus();
  }
  absl::Status Delete(const std::string& key) {
    const auto result = Txn({.then = {store::Delete{key, ""}}});
    if (!result.ok()) return result.status();
    EXPECT_EQ(result->revision, ++revision_);
    acknowledged_.erase(key);
    return absl::OkStatus();
  }

  absl::StatusOr<RangeResult> ReadAll() {
    absl::StatusOr<RangeResult> result = absl::UnknownError("none");
    bool done = false;
    store_->Range({.key = "/", .end = PrefixEnd("/"), .limit = kMaxRangeLimit},
                  [&](absl::StatusOr<RangeResult> got) {
                    result = std::move(got);
                    done = true;
                  });
    EXPECT_TRUE(strand_.RunUntil([&] { return done; }));
    return result;
  }
  // Exactly what was acknowledged, at the last revision that was.
  void ExpectAcknowledged() {
    const auto all = ReadAll();
    ASSERT_TRUE(all.ok()) << all.status();
    Contents found;
    for (const KeyValue& kv : all->kvs) found[kv.key] = kv.value;
    EXPECT_EQ(found.size(), acknowledged_.size());
    EXPECT_TRUE(found == acknowledged_);
    EXPECT_EQ(all->revision, revision_);
  }
  static void ExpectNoSpace(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(status::Reason(status), kReasonNoSpace) << status;
  }
  static void ExpectBroken(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_EQ(status::Reason(status), "STORE_IO_ERROR") << status;
  }

  const TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/store.sqlite";
  PumpedStrand strand_;
  // Nothing in the background uses the disk.
  SqliteStore::Options options_ = {.keep_revisions = 0};
  std::unique_ptr<SqliteStore> store_;
  Contents acknowledged_;
  int64_t revision_ = 1;
};

TEST_F(SqliteFullDiskTest, WhatIsRefusedTakesNoEffectAndItGoesOnOnceThereIsRoom) {
  Open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put(absl::StrCat("/", i), "kept").ok());
  FailingDisk::Fail(File::kLog, Call::kWrite, SQLITE_FULL);
  ExpectNoSpace(Put("/0", "lost"));
  ExpectNoSpace(Put("/new", "lost"));
  // Each of those that are committed together.
  std::vector<TxnRequest> many;
  for (int i = 0; i < 20; ++i) {
    many.push_back({.then = {store::Put{absl::StrCat("/many/", i), "lost"}}});
  }
  for (const auto& result : Txns(std::move(many))) ExpectNoSpace(result.status());
  EXPECT_TRUE(FailingDisk::HasFailed());
  ExpectAcknowledged();
  FailingDisk::Mend();
  // Without being opened again.
  EXPECT_EQ(Put("/new", "kept"), absl::OkStatus());
  EXPECT_EQ(Delete("/0"), absl::OkStatus());
  ExpectAcknowledged();
  Open();
  ExpectAcknowledged();
  EXPECT_EQ(Put("/again", "kept"), absl::OkStatus());
}

// Wherever in a commit the room ends: some of its pages are in the log, or all but the last.
TEST_F(SqliteFullDiskTest, ItMayBeFullAtAnyWriteOfACommit) {
  Open();
  const std::string large(20'000, 'x');
  int refused = 0;
  for (int begin = 0;; ++begin) {
    ASSERT_LT(begin, 200);
    const std::string key = absl::StrCat("/", begin);
    ASSERT_EQ(Put(absl::StrCat("/before", begin), large), absl::OkStatus());
    FailingDisk::Fail(File::kLog, Call::kWrite, SQLITE_FULL, begin);
    const auto result = Txn({.then = {store::Put{key, large}, store::Put{key + "b", large}}});
    const bool failed = FailingDisk::HasFailed();
    FailingDisk::Mend();
    if (failed) {
      ++refused;
      ExpectNoSpace(result.status());
    } else {
      ASSERT_TRUE(result.ok()) << result.status();
      ++revision_;
      acknowledged_[key] = acknowledged_[key + "b"] = large;
    }
    ExpectAcknowledged();
    // What a reader of the file finds who was not there.
    Open();
    ExpectAcknowledged();
    if (!failed) break;
  }
  EXPECT_GT(refused, 10);
}

TEST_F(SqliteFullDiskTest, AfterAFailedWriteTheStoreIsOpenedAgain) {
  Open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put(absl::StrCat("/", i), "kept").ok());
  FailingDisk::Fail(File::kLog, Call::kWrite, SQLITE_IOERR_WRITE);
  ExpectBroken(Put("/0", "lost"));
  FailingDisk::Mend();
  // What is on disk is in doubt, though it would take more.
  const absl::Status later = Put("/1", "lost");
  ExpectBroken(later);
  EXPECT_TRUE(absl::StrContains(later.message(), "the store must be opened again")) << later;
  ExpectBroken(Delete("/1"));
  ExpectBroken(ReadAll().status());
  Open();
  ExpectAcknowledged();
  EXPECT_EQ(Put("/1", "kept"), absl::OkStatus());
  ExpectAcknowledged();
}

// A sync that failed says nothing of what is on disk, and the next one, which goes well, neither.
TEST_F(SqliteFullDiskTest, AfterAFailedSyncNothingIsAcknowledgedUntilItIsOpenedAgain) {
  Open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put(absl::StrCat("/", i), "kept").ok());
  FailingDisk::Fail(File::kLog, Call::kSync, SQLITE_IOERR_FSYNC);
  ExpectBroken(Put("/doubtful", "either"));
  EXPECT_TRUE(FailingDisk::HasFailed());
  FailingDisk::Mend();
  ExpectBroken(Put("/1", "lost"));
  ExpectBroken(ReadAll().status());
  Open();
  // It was written, and may be there, whole; nothing of what came after it.
  auto all = ReadAll();
  ASSERT_TRUE(all.ok()) << all.status();
  if (all->revision == revision_ + 1) {
    ++revision_;
    acknowledged_["/doubtful"] = "either";
  }
  ExpectAcknowledged();
  EXPECT_EQ(Put("/1", "kept"), absl::OkStatus());
  ExpectAcknowledged();
}

// What is copied from the log into the file lies in the log for as long as the file has not taken
// it: nobody who puts notices.
TEST_F(SqliteFullDiskTest, ACheckpointThatFailsLosesNothing) {
  options_.checkpoint_pages = 1;
  for (const auto& [call, code] :
       std::vector<std::pair<Call, int>>{{Call::kWrite, SQLITE_FULL},
                                         {Call::kWrite, SQLITE_IOERR_WRITE},
                                         {Call::kSync, SQLITE_IOERR_FSYNC}}) {
    SCOPED_TRACE(code);
    Open();
    FailingDisk::Fail(File::kDatabase, call, code, /*left_alone=*/1);
    int puts = 0;
    // A thread of its own copies, when it comes to it.
    for (bool failed = false; !failed && puts < 2000; ++puts) {
      const auto value = static_cast<char>('a' + puts % 20);
      ASSERT_EQ(Put(absl::StrCat("/", puts % 5), std::string(9000, value)), absl::OkStatus());
      failed = FailingDisk::HasFailed();
    }
    EXPECT_LT(puts, 2000) << "nothing was copied";
    ASSERT_EQ(Put("/last", "kept"), absl::OkStatus());
    ExpectAcknowledged();
    // It is tried once more when the file is closed.
    Close();
    FailingDisk::Mend();
    Open();
    ExpectAcknowledged();
  }
}

TEST_F(SqliteFullDiskTest, AStoreThatCannotBeMadeOrOpenedSaysSoAndIsUnharmed) {
  FailingDisk::Fail(File::kDatabase, Call::kWrite, SQLITE_FULL);
  ExpectNoSpace(SqliteStore::Open(path_, &strand_, options_).status());
  FailingDisk::Mend();
  Open();
  ASSERT_EQ(Put("/a", "kept"), absl::OkStatus());
  Close();
  FailingDisk::Fail(File::kLog, Call::kWrite, SQLITE_FULL);
  {
    auto opened = SqliteStore::Open(path_, &strand_, options_);
    if (!opened.ok()) ExpectNoSpace(opened.status());
  }
  FailingDisk::Mend();
  Open();
  ExpectAcknowledged();
}

// A file system of its own, of six MiB.
class SqliteSmallDiskTest : public SqliteFullDiskTest {
 protected:
  void SetUp() override {
    disk_ = folder_.path() + "/disk";
    ASSERT_EQ(mkdir(disk_.c_str(), 0700), 0);
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=6m") != 0) {
      GTEST_SKIP() << "no file system can be mounted here; needs root";
    }
    mounted_ = true;
    path_ = disk_ + "/store.sqlite";
  }
  void TearDown() override {
    Close();
    if (mounted_) {
      EXPECT_EQ(umount(disk_.c_str()), 0);
    }
  }
  // Takes all room that is left.
  void Fill() {
    const UniqueFd fd(open(Filler().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd.valid());
    const std::string page(4096, 'x');
    while (write(fd.get(), page.data(), page.size()) > 0) {
    }
  }
  std::string Filler() const { return disk_ + "/filler"; }

  std::string disk_;
  bool mounted_ = false;
};

TEST_F(SqliteSmallDiskTest, AFullFileSystemRefusesAndGoesOnOnceThereIsRoom) {
  Open();
  // Until what somebody else left is used up.
  {
    const UniqueFd filler(open(Filler().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(posix_fallocate(filler.get(), 0, 4 << 20), 0);
  }
  const std::string value(30'000, 'x');
  absl::Status refused;
  int stored = 0;
  for (; stored < 1000; ++stored) {
    refused = Put(absl::StrCat("/", stored), value);
    if (!refused.ok()) break;
  }
  ExpectNoSpace(refused);
  EXPECT_GT(stored, 10);
  ExpectAcknowledged();
  Fill();
  for (int i = 0; i < 5; ++i) ExpectNoSpace(Put(absl::StrCat("/more/", i), value));
  // A deletion fits, or is refused as clearly.
  const absl::Status gone = Delete("/0");
  if (!gone.ok()) ExpectNoSpace(gone);
  ExpectAcknowledged();
  ASSERT_EQ(unlink(Filler().c_str()), 0);
  for (int i = 1; i < stored; ++i) {
    const absl::Status deleted = Delete(absl::StrCat("/", i));
    ASSERT_TRUE(deleted.ok()) << deleted;
  }
  EXPECT_EQ(Put("/after", "kept"), absl::OkStatus());
  ExpectAcknowledged();
  Open();
  ExpectAcknowledged();
}

TEST_F(SqliteSmallDiskTest, OpenedOnAFullFileSystemItSaysSoOrServesWhatIsThere) {
  Open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put(absl::StrCat("/", i), "kept").ok());
  Close();
  Fill();
  auto opened = SqliteStore::Open(path_, &strand_, options_);
  if (opened.ok()) {
    store_ = *std::move(opened);
    ExpectAcknowledged();
    const absl::Status put = Put("/more", std::string(30'000, 'x'));
    if (!put.ok()) ExpectNoSpace(put);
    Close();
  } else {
    EXPECT_TRUE(absl::StrContains(opened.status().message(), "full") ||
                absl::StrContains(opened.status().message(), "I/O"))
        << opened.status();
  }
  ASSERT_EQ(unlink(Filler().c_str()), 0);
  Open();
  ExpectAcknowledged();
  EXPECT_EQ(Put("/after", "kept"), absl::OkStatus());
}

}  // namespace
}  // namespace capstan::store
