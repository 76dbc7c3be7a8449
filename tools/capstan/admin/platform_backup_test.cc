#include "tools/capstan/admin/platform_backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/store/blocking_store.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_copy.h"
#include "libs/store/sqlite_schema.h"
#include "libs/store/sqlite_store.h"
#include "libs/store/store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/telemetry/stored_files.h"
#include "tools/capstan/admin/stored_services.h"
#include "tools/capstan/dev/data_folder.h"

namespace capstan::admin {
namespace {

namespace fs = ::std::filesystem;
using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

void WriteFile(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// A folder that looks like a stopped platform's: a store of credentials with one person, and a key.
class PlatformBackupTest : public testing::Test {
 protected:
  PlatformBackupTest() {
    root_ = absl::StrCat("/tmp/capstan-backup-test-", getpid());
    fs::remove_all(root_);
    fs::create_directories(root_);
    invocation_.clock = &clock_;
    invocation_.out = &out_;
    invocation_.err = &err_;
    Use("first");
    credentials::v1::PersonRecord person;
    person.set_schema(1);
    person.set_uid("/person/1");
    Put("credentials", "person/1", person.SerializeAsString());
    WriteFile(invocation_.data_dir + "/credentials/key_keeper.key", std::string(32, 'k'));
    backup_ = root_ + "/backup";
  }
  ~PlatformBackupTest() override { fs::remove_all(root_); }

  void Use(const std::string& name) {
    invocation_.data_dir = absl::StrCat(root_, "/", name);
    fs::create_directories(invocation_.data_dir);
  }
  // Opens the service's store, puts a record, and closes it again; its incarnation.
  int64_t Put(const std::string& service, const std::string& key, const std::string& value) {
    const std::string file = StoreFile(invocation_.data_dir, service);
    fs::create_directories(fs::path(file).parent_path());
    ThreadStrand strand("test", &clock_);
    auto opened = store::SqliteStore::Open(file, &strand);
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return 0;
    if (!key.empty()) {
      const std::string whole = absl::StrCat("/capstan/", service, "/v1/", key);
      EXPECT_TRUE(
          store::BlockingStore(opened->get()).Txn({.then = {store::Put{whole, value}}}).ok());
    }
    const int64_t incarnation = (*opened)->incarnation();
    strand.Stop();
    return incarnation;
  }
  // Puts an ended Job into the archive, as telemetry does.
  void Archive(const std::string& uid) {
    scheduler::v1::Job job;
    job.set_uid(uid);
    job.set_name("projects/p/jobs/" + uid);
    const std::string bytes = job.SerializeAsString();
    Database(0, [&](store::SqliteConnection* db) {
      return db->Query("INSERT INTO jobs VALUES (?, 'projects/p', ?, 0, '', 0, 0, 0, ?)")
          .BindText(uid)
          .BindText(job.name())
          .BindBlob(bytes)
          .Run();
    });
  }
  int64_t Archived() {
    int64_t count = -1;
    Database(0, [&](store::SqliteConnection* db) {
      count = db->Number("SELECT count(*) FROM jobs").value_or(-1);
      return absl::OkStatus();
    });
    return count;
  }
  // The archive is the first, the subscriptions are the second.
  std::string DatabaseFile(size_t which) {
    return absl::StrCat(invocation_.data_dir, "/telemetry/",
                        telemetry::StoredFiles().at(which).name);
  }
  void Database(size_t which, absl::FunctionRef<absl::Status(store::SqliteConnection*)> use) {
    fs::create_directories(invocation_.data_dir + "/telemetry");
    auto db = store::SqliteConnection::Open(DatabaseFile(which), true, true);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Execute("PRAGMA journal_mode = WAL").ok());
    ASSERT_EQ(store::PrepareSqliteSchema(db->get(), telemetry::StoredFiles().at(which).schema),
              absl::OkStatus());
    EXPECT_EQ(use(db->get()), absl::OkStatus());
  }
  std::string Reason(const absl::Status& status) { return status::Reason(status); }

  SystemClock clock_;
  std::ostringstream out_;
  std::ostringstream err_;
  std::string root_;
  std::string backup_;
  cli::Invocation invocation_;
};

TEST_F(PlatformBackupTest, ABackupIsPrivateWholeAndRestoresElsewhere) {
  const int64_t incarnation = Put("credentials", "", "");
  ASSERT_TRUE(BackupPlatform({.out = backup_}, invocation_).ok()) << err_.str();
  struct stat info = {};
  ASSERT_EQ(stat(backup_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const char* file : {"backup.json", "stores/credentials.backup", "files/key_keeper.key"}) {
    ASSERT_EQ(stat(absl::StrCat(backup_, "/", file).c_str(), &info), 0) << file;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << file;
  }
  EXPECT_FALSE(fs::exists(backup_ + ".partial"));
  EXPECT_EQ(Reason(BackupPlatform({.out = backup_}, invocation_)), "BACKUP_EXISTS");
  EXPECT_TRUE(CheckPlatform({.from = backup_}, invocation_).ok()) << out_.str();

  Use("second");
  const absl::Status restored = RestorePlatform({.from = backup_}, invocation_);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(ReadFile(invocation_.data_dir + "/credentials/key_keeper.key"), std::string(32, 'k'));
  EXPECT_FALSE(fs::exists(dev::UnfinishedRestoreFile(invocation_.data_dir)));
  EXPECT_GT(Put("credentials", "", ""), incarnation);
  EXPECT_TRUE(CheckPlatform({}, invocation_).ok()) << out_.str();
  EXPECT_THAT(out_.str(), HasSubstr("credentials: sound, 1 records"));
  // What it holds now is not replaced without force.
  EXPECT_EQ(Reason(RestorePlatform({.from = backup_}, invocation_)), "STORE_NOT_EMPTY");
  EXPECT_TRUE(RestorePlatform({.from = backup_, .force = true}, invocation_).ok());
}

TEST_F(PlatformBackupTest, TheKeyMayBeLeftOutAndMustThenBeThere) {
  ASSERT_TRUE(BackupPlatform({.out = backup_, .without_key = true}, invocation_).ok());
  EXPECT_FALSE(fs::exists(backup_ + "/files/key_keeper.key"));
  Use("second");
  EXPECT_EQ(Reason(RestorePlatform({.from = backup_}, invocation_)), "NO_KEY");
  WriteFile(invocation_.data_dir + "/credentials/key_keeper.key", std::string(32, 'k'));
  EXPECT_TRUE(RestorePlatform({.from = backup_}, invocation_).ok());
}

TEST_F(PlatformBackupTest, AnotherKeyIsReplacedOnlyByForce) {
  ASSERT_TRUE(BackupPlatform({.out = backup_}, invocation_).ok());
  Use("second");
  const std::string key = invocation_.data_dir + "/credentials/key_keeper.key";
  WriteFile(key, std::string(32, 'o'));
  EXPECT_EQ(Reason(RestorePlatform({.from = backup_}, invocation_)), "OTHER_KEY");
  EXPECT_FALSE(fs::exists(dev::UnfinishedRestoreFile(invocation_.data_dir)));
  EXPECT_TRUE(RestorePlatform({.from = backup_, .force = true}, invocation_).ok());
  EXPECT_EQ(ReadFile(key + ".replaced"), std::string(32, 'o'));
}

TEST_F(PlatformBackupTest, WhatIsAlteredOrDoesNotBelongIsRefusedBeforeAnythingIsTouched) {
  ASSERT_TRUE(BackupPlatform({.out = backup_}, invocation_).ok());
  const auto refused = [&](const std::string& file, const std::string& bytes) {
    const std::string path = absl::StrCat(backup_, "/", file);
    const std::string before = ReadFile(path);
    WriteFile(path, bytes);
    Use("second");
    const absl::Status status = RestorePlatform({.from = backup_, .force = true}, invocation_);
    EXPECT_FALSE(fs::exists(StoreFile(invocation_.data_dir, "credentials"))) << file;
    EXPECT_FALSE(fs::exists(dev::UnfinishedRestoreFile(invocation_.data_dir))) << file;
    WriteFile(path, before);
    return Reason(status);
  };
  const std::string manifest = ReadFile(backup_ + "/backup.json");
  EXPECT_EQ(refused("files/key_keeper.key", std::string(32, 'x')), "BACKUP_CORRUPT");
  EXPECT_EQ(refused("stores/credentials.backup", "torn"), "BACKUP_CORRUPT");
  EXPECT_EQ(refused("backup.json", "{"), "NOT_A_BACKUP");
  EXPECT_EQ(refused("backup.json",
                    absl::StrReplaceAll(manifest, {{"credentials/key_keeper.key", "run/evil"}})),
            "NOT_A_BACKUP");
  EXPECT_EQ(refused("backup.json",
                    absl::StrReplaceAll(manifest, {{"stores/credentials.backup", "../x"}})),
            "UNSAFE_PATH");
  EXPECT_EQ(
      refused("backup.json", absl::StrReplaceAll(manifest, {{"\"service\": \"credentials\"",
                                                             "\"service\": \"node_agent\""}})),
      "FOREIGN_BACKUP");
}

TEST_F(PlatformBackupTest, TheArchiveAndSubscriptionsComeBackWhereThereAreNone) {
  Archive("one");
  Archive("two");
  ASSERT_TRUE(BackupPlatform({.out = backup_}, invocation_).ok()) << err_.str();
  EXPECT_THAT(err_.str(), HasSubstr("telemetry: 2 archived Jobs"));
  EXPECT_THAT(err_.str(), HasSubstr("so the backup holds no subscriptions"));
  struct stat info = {};
  ASSERT_EQ(stat((backup_ + "/databases/archive.sqlite").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_TRUE(CheckPlatform({.from = backup_}, invocation_).ok()) << out_.str();
  EXPECT_TRUE(CheckPlatform({}, invocation_).ok()) << out_.str();
  EXPECT_THAT(out_.str(), HasSubstr("telemetry/archive.sqlite: sound, 2 records"));

  Use("second");
  ASSERT_EQ(RestorePlatform({.from = backup_}, invocation_), absl::OkStatus());
  EXPECT_EQ(Archived(), 2);
  EXPECT_THAT(err_.str(), HasSubstr("the backup holds no subscriptions, and there are none"));

  // What is there is newer, and stays.
  Archive("three");
  ASSERT_EQ(RestorePlatform({.from = backup_, .force = true}, invocation_), absl::OkStatus());
  EXPECT_EQ(Archived(), 3);
  EXPECT_THAT(err_.str(), HasSubstr("kept the 3 archived Jobs that are there; to have"));

  // Unless it can't be read, and then not without being told to.
  const std::string file = DatabaseFile(0);
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(file + suffix);
  WriteFile(file, std::string(8192, 'x'));
  EXPECT_EQ(Reason(CheckPlatform({}, invocation_)), "ENDED_BADLY");
  EXPECT_EQ(Reason(BackupPlatform({.out = backup_ + "2"}, invocation_)), "STORE_CORRUPT");
  const absl::Status refused = RestorePlatform({.from = backup_}, invocation_);
  EXPECT_EQ(Reason(refused), "STORE_NOT_EMPTY");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("telemetry/archive.sqlite"));
  ASSERT_EQ(RestorePlatform({.from = backup_, .force = true}, invocation_), absl::OkStatus());
  EXPECT_EQ(Archived(), 2);
  EXPECT_EQ(ReadFile(file + ".replaced"), std::string(8192, 'x'));
}

TEST_F(PlatformBackupTest, ADatabaseThatIsAlteredOrUnknownIsRefused) {
  Archive("one");
  ASSERT_TRUE(BackupPlatform({.out = backup_}, invocation_).ok()) << err_.str();
  const auto refused = [&](const std::string& file, const std::string& bytes) {
    const std::string path = absl::StrCat(backup_, "/", file);
    const std::string before = ReadFile(path);
    WriteFile(path, bytes);
    EXPECT_FALSE(CheckPlatform({.from = backup_}, invocation_).ok()) << file;
    Use("second");
    const absl::Status status = RestorePlatform({.from = backup_, .force = true}, invocation_);
    EXPECT_FALSE(fs::exists(StoreFile(invocation_.data_dir, "credentials"))) << file;
    EXPECT_FALSE(fs::exists(DatabaseFile(0))) << file;
    WriteFile(path, before);
    return Reason(status);
  };
  EXPECT_EQ(refused("databases/archive.sqlite", "torn"), "BACKUP_CORRUPT");
  const std::string manifest = ReadFile(backup_ + "/backup.json");
  const auto altered = [&](const std::string& from, const std::string& to) {
    return absl::StrReplaceAll(manifest, {{from, to}});
  };
  EXPECT_EQ(refused("backup.json", altered("telemetry/archive.sqlite", "run/evil")),
            "FOREIGN_BACKUP");
  EXPECT_EQ(refused("backup.json", altered("databases/archive.sqlite", "../x")), "UNSAFE_PATH");
  fs::remove(backup_ + "/databases/archive.sqlite");
  EXPECT_EQ(Reason(RestorePlatform({.from = backup_}, invocation_)), "BACKUP_CORRUPT");
}

TEST_F(PlatformBackupTest, WhatWasCutOffIsFinishedByTheNextRestore) {
  ASSERT_TRUE(BackupPlatform({.out = backup_}, invocation_).ok());
  WriteFile(dev::UnfinishedRestoreFile(invocation_.data_dir), "x");
  EXPECT_EQ(Reason(BackupPlatform({.out = backup_ + "2"}, invocation_)), "RESTORE_UNFINISHED");
  EXPECT_TRUE(RestorePlatform({.from = backup_}, invocation_).ok()) << "without force";
  EXPECT_TRUE(BackupPlatform({.out = backup_ + "2"}, invocation_).ok());
}

TEST_F(PlatformBackupTest, TheCheckNamesRecordsThatAreNotWhatTheirKeysSay) {
  Put("credentials", "person/2", "\x0f no person");
  Put("credentials", "nonsense/3", "");
  EXPECT_EQ(Reason(CheckPlatform({}, invocation_)), "ENDED_BADLY");
  EXPECT_THAT(out_.str(), HasSubstr("person/2"));
  EXPECT_THAT(out_.str(), HasSubstr("nonsense/3"));
}

}  // namespace
}  // namespace capstan::admin
