// What telemetry keeps, backed up and put back as an operator's commands do, in the eyes of the
// service that opens it.
#include "services/telemetry/stored_files.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_copy.h"
#include "libs/time/proto_time.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/telemetry/adapters/sqlite_job_archive.h"
#include "services/telemetry/adapters/sqlite_subscription_store.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::telemetry {
namespace {

class StoredFilesTest : public testing::Test {
 protected:
  std::unique_ptr<SqliteJobArchive> OpenArchive(const std::string& path) {
    SqliteJobArchive::Options options;
    options.path = path;
    auto opened = SqliteJobArchive::Open(options, &clock_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  std::unique_ptr<SqliteSubscriptionStore> OpenSubscriptions(const std::string& path) {
    auto opened = SqliteSubscriptionStore::Open(path, &clock_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  void Put(SqliteJobArchive* archive, const std::string& uid) {
    scheduler::v1::Job job;
    job.set_uid(uid);
    job.set_name("projects/p/jobs/" + uid);
    *job.mutable_end_time() = ToProto(clock_.Read().wall);
    (*job.mutable_spec()->mutable_labels())["team"] = "vision";
    absl::Notification done;
    archive->Put({job}, [&](const absl::Status& put) {
      EXPECT_EQ(put, absl::OkStatus());
      done.Notify();
    });
    done.WaitForNotification();
  }
  static bool Has(SqliteJobArchive* archive, const std::string& uid) {
    bool found = false;
    absl::Notification done;
    archive->Get("projects/p/jobs/" + uid, uid, [&](const auto& got) {
      found = got.ok();
      done.Notify();
    });
    done.WaitForNotification();
    return found;
  }
  static void Put(SqliteSubscriptionStore* store, const std::string& name, int64_t cursor) {
    core::SubscriptionRecord record;
    record.set_name(name);
    record.set_acknowledged_offset(cursor);
    record.set_reader_generation(3);
    absl::Notification done;
    store->Put(record, [&](const absl::Status& put) {
      EXPECT_EQ(put, absl::OkStatus());
      done.Notify();
    });
    done.WaitForNotification();
  }

  SystemClock clock_;
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/file.sqlite";
  const std::string copy_ = folder_.path() + "/copy.sqlite";
  const store::SqliteFileKind archive_kind_ = StoredFiles().at(0);
  const store::SqliteFileKind subscriptions_kind_ = StoredFiles().at(1);
};

TEST_F(StoredFilesTest, AnArchiveInUseIsCopiedAndComesBackWithAKeyOfItsOwn) {
  auto archive = OpenArchive(path_);
  Put(archive.get(), "one");
  const std::string key = archive->page_token_key();
  EXPECT_EQ(store::CopySqliteFile(archive_kind_, path_, copy_).value_or(-1), 1);
  Put(archive.get(), "two");
  EXPECT_EQ(store::CheckSqliteFile(archive_kind_, path_).value_or(-1), 2);
  archive.reset();
  EXPECT_EQ(store::PutSqliteFileBack(archive_kind_, copy_, path_).value_or(-1), 1);
  archive = OpenArchive(path_);
  EXPECT_TRUE(Has(archive.get(), "one"));
  EXPECT_FALSE(Has(archive.get(), "two"));
  EXPECT_EQ(archive->page_token_key().size(), 32u);
  EXPECT_NE(archive->page_token_key(), key);
  Put(archive.get(), "three");
  EXPECT_TRUE(Has(archive.get(), "three"));
}

TEST_F(StoredFilesTest, AnArchivedJobThatIsNotItsRowIsNamed) {
  Put(OpenArchive(path_).get(), "one");
  {
    auto db = store::SqliteConnection::Open(path_, true, false);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Execute("UPDATE jobs SET uid = 'other'").ok());
  }
  const absl::Status wrong = store::CheckSqliteFile(archive_kind_, path_).status();
  EXPECT_EQ(status::Reason(wrong), "ARCHIVE_DAMAGED");
  EXPECT_NE(wrong.message().find("other"), absl::string_view::npos);
}

TEST_F(StoredFilesTest, ARestoredSubscriptionHasItsCursorAndNoReaderFromBefore) {
  auto subscriptions = OpenSubscriptions(path_);
  Put(subscriptions.get(), "projects/p/subscriptions/s", 7);
  EXPECT_EQ(store::CopySqliteFile(subscriptions_kind_, path_, copy_).value_or(-1), 1);
  Put(subscriptions.get(), "projects/p/subscriptions/s", 9);
  subscriptions.reset();
  EXPECT_EQ(store::PutSqliteFileBack(subscriptions_kind_, copy_, path_).value_or(-1), 1);
  const auto loaded = OpenSubscriptions(path_)->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 1u);
  EXPECT_EQ(loaded->front().acknowledged_offset(), 7);
  EXPECT_EQ(loaded->front().reader_generation(), 1'000'003);
}

TEST_F(StoredFilesTest, ServicesDoNotOpenWhatIsHalfRestored) {
  Put(OpenSubscriptions(path_).get(), "projects/p/subscriptions/s", 7);
  ASSERT_TRUE(store::CopySqliteFile(subscriptions_kind_, path_, copy_).ok());
  {
    auto half = store::SqliteConnection::Open(path_ + ".restoring", true, true);
    ASSERT_TRUE(half.ok());
    ASSERT_TRUE((*half)->Execute("CREATE TABLE half(a)").ok());
  }
  EXPECT_EQ(status::Reason(SqliteSubscriptionStore::Open(path_, &clock_).status()),
            "RESTORE_UNFINISHED");
  SqliteJobArchive::Options options;
  options.path = path_;
  EXPECT_EQ(status::Reason(SqliteJobArchive::Open(options, &clock_).status()),
            "RESTORE_UNFINISHED");
  EXPECT_TRUE(store::PutSqliteFileBack(subscriptions_kind_, copy_, path_).ok());
  EXPECT_EQ(OpenSubscriptions(path_)->Load()->size(), 1u);
}

}  // namespace
}  // namespace capstan::telemetry
