#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/golden/sqlite_dump.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/store/backup_file.h"
#include "libs/store/blocking_store.h"
#include "libs/store/commit_queue.h"
#include "libs/store/memory_store.h"
#include "libs/store/outbox.h"
#include "libs/store/sqlite_maintenance.h"
#include "libs/store/sqlite_store.h"
#include "libs/store/store.h"
#include "libs/store/store_backup.h"
#include "libs/strand/simulated_strand.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan::store {
namespace {

constexpr char kPackage[] = "libs/store";

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A store that is open.
class OpenStore {
 public:
  explicit OpenStore(const std::string& path) : strand_("stored_format", &clock_) {
    auto opened = SqliteStore::Open(path, &strand_);
    EXPECT_TRUE(opened.ok()) << opened.status() << golden::kMustRead;
    if (opened.ok()) store_ = *std::move(opened);
  }
  ~OpenStore() { strand_.Stop(); }

  bool ok() const { return store_ != nullptr; }
  SqliteStore& operator*() { return *store_; }
  void Txn(TxnRequest request) {
    const auto done = BlockingStore(store_.get()).Txn(std::move(request));
    EXPECT_TRUE(done.ok()) << done.status();
  }
  RangeResult Range(RangeRequest request) {
    auto found = BlockingStore(store_.get()).Range(std::move(request));
    EXPECT_TRUE(found.ok()) << found.status() << golden::kMustRead;
    return found.ok() ? *std::move(found) : RangeResult();
  }

 private:
  SystemClock clock_;
  ThreadStrand strand_;
  std::unique_ptr<SqliteStore> store_;
};

TEST(StoredFormatTest, ReleasedStoresAreOpenedAndRead) {
  const golden::Format format(kPackage, "sqlite_store", "sql");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/store";
    golden::RestoreSqlite(version.bytes, path);
    {
      OpenStore store(path);
      ASSERT_TRUE(store.ok());
      EXPECT_EQ((*store).incarnation(), 1234567);
      const RangeResult now = store.Range({.key = "a", .end = "z"});
      EXPECT_EQ(now.revision, 4);
      ASSERT_EQ(now.kvs.size(), 1u);
      EXPECT_EQ(now.kvs[0].key, "b");
      EXPECT_EQ(now.kvs[0].value, std::string("two\0", 4));
      EXPECT_EQ(now.kvs[0].create_revision, 2);
      EXPECT_EQ(now.kvs[0].mod_revision, 3);
      EXPECT_EQ(now.kvs[0].version, 2);
      // As it was once.
      const RangeResult then = store.Range({.key = "a", .end = "z", .revision = 2});
      ASSERT_EQ(then.kvs.size(), 2u);
      EXPECT_EQ(then.kvs[0].key, "a");
      EXPECT_EQ(then.kvs[1].value, "one");
      store.Txn({.then = {Put{"c", "goes on"}}});
    }
    const auto checked = CheckSqliteStore(path);
    ASSERT_TRUE(checked.ok()) << checked.status() << golden::kMustRead;
    EXPECT_EQ(checked->keys, 2);
  }

  const TemporaryFolder folder;
  const std::string path = folder.path() + "/store";
  {
    OpenStore store(path);
    ASSERT_TRUE(store.ok());
    store.Txn({.then = {Put{"a", ""}, Put{"b", "one"}}});
    store.Txn({.then = {Put{"b", std::string("two\0", 4)}}});
    store.Txn({.then = {Delete{"a", ""}}});
  }
  // It is the time at which the store was made.
  golden::RestoreSqlite("UPDATE meta SET number = 1234567 WHERE name = 'incarnation'", path);
  format.ExpectWritten(golden::DumpSqlite(path));
}

TEST(StoredFormatTest, ReleasedBackupsAreRead) {
  const golden::Format format(kPackage, "backup", "hex");
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/backup";
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const std::string released = absl::StrCat(path, "-released");
    std::ofstream(released, std::ios::binary) << version.bytes;
    std::string records;
    const auto header = ReadBackupFile(
        released, [](const backup::v1::BackupHeader&) { return absl::OkStatus(); },
        [&](const backup::v1::BackupRecord& record) {
          absl::StrAppend(&records, record.key(), "=", record.value(), ";");
          return absl::OkStatus();
        });
    ASSERT_TRUE(header.ok()) << header.status() << golden::kMustRead;
    EXPECT_EQ(header->service(), "thing");
    EXPECT_EQ(header->store_incarnation(), 77);
    EXPECT_EQ(header->revision(), 5);
    EXPECT_EQ(records, "/capstan/thing/v1/a=one;/capstan/thing/v1/b=;");
  }
  backup::v1::BackupHeader header;
  header.set_format(kBackupFormat);
  header.set_service("thing");
  header.set_schema(1);
  header.set_store_incarnation(77);
  header.set_revision(5);
  header.mutable_create_time()->set_seconds(1'700'000'000);
  const auto writer = BackupFileWriter::Create(path, header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Add("/capstan/thing/v1/a", "one").ok());
  ASSERT_TRUE((*writer)->Add("/capstan/thing/v1/b", "").ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  format.ExpectWritten(ReadFile(path));
}

// Where the next term, perhaps another version's, looks for events that have not left yet, and
// what fences those who opened an etcd before a restore.
TEST(StoredFormatTest, KeysOfAllServicesAreWhereTheyWere) {
  const golden::Format format(kPackage, "keys", "txt");
  SimulatedClock clock;
  SimulatedStrand strand(&clock);
  MemoryStore store(&strand);
  CommitQueue queue(&store, &strand, absl::nullopt);
  Outbox outbox(&store, &strand, &queue, /*loaded_revision=*/12,
                {.prefix = "/capstan/thing/v1/outbox/"},
                [](const std::vector<OutboxRecord>&, DoneCallback) {});
  const std::string first = outbox.Add("first").key;
  const std::string second = outbox.Add("second").key;
  format.ExpectWritten(absl::StrCat(first, "\n", second, "\n", IncarnationKey("thing"), "\n",
                                    RestoreMarkKey("thing"), "\n"));
}

}  // namespace
}  // namespace capstan::store
