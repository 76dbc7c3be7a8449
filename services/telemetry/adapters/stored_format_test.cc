#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/golden/sqlite_dump.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/store/sqlite_copy.h"
#include "libs/time/clock.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "services/telemetry/adapters/archive_file.h"
#include "services/telemetry/adapters/sqlite_job_archive.h"
#include "services/telemetry/adapters/sqlite_subscription_store.h"
#include "services/telemetry/adapters/subscriptions_file.h"

namespace capstan::telemetry {
namespace {

using scheduler::v1::Job;

constexpr char kPackage[] = "services/telemetry/adapters";
constexpr char kUid[] = "0193d5a0-7e21-7abc-8def-0123456789ab";

const absl::Time kEnd = absl::FromUnixSeconds(1'700'000'000);

Job Ended() {
  Job job;
  job.set_name("projects/p/jobs/j");
  job.set_uid(kUid);
  job.set_state(Job::STATE_SUCCEEDED);
  job.mutable_spec()->set_queue("queues/default");
  (*job.mutable_spec()->mutable_labels())["team"] = "a'b";
  *job.mutable_create_time() = ToProto(kEnd - absl::Hours(1));
  *job.mutable_end_time() = ToProto(kEnd);
  return job;
}

core::SubscriptionRecord Subscription() {
  core::SubscriptionRecord record;
  record.set_name("projects/p/subscriptions/s");
  record.set_stream("projects/p/jobs/j/streams/log");
  *record.mutable_create_time() = ToProto(kEnd);
  record.set_acknowledged_offset(27);
  record.set_reader_generation(3);
  return record;
}

class StoredFormatTest : public ::testing::Test {
 protected:
  std::unique_ptr<SqliteJobArchive> OpenArchive(const std::string& path) {
    SqliteJobArchive::Options options;
    options.path = path;
    auto opened = SqliteJobArchive::Open(options, &clock_);
    EXPECT_TRUE(opened.ok()) << opened.status() << golden::kMustRead;
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  std::unique_ptr<SqliteSubscriptionStore> OpenSubscriptions(const std::string& path) {
    auto opened = SqliteSubscriptionStore::Open(path, &clock_);
    EXPECT_TRUE(opened.ok()) << opened.status() << golden::kMustRead;
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  template <typename Call>
  static absl::Status Await(Call call) {
    absl::Status result;
    absl::Notification done;
    call([&](absl::Status status) {
      result = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  SimulatedClock clock_{Now{kEnd + absl::Minutes(1), BootTime()}};
  const TemporaryFolder folder_;
};

TEST_F(StoredFormatTest, ReleasedArchivesAreReadAndGoOn) {
  const golden::Format format(kPackage, "archive", "sql");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/archive.sqlite";
    golden::RestoreSqlite(version.bytes, path);
    const auto checked = store::CheckSqliteFile(ArchiveFile(), path);
    ASSERT_TRUE(checked.ok()) << checked.status() << golden::kMustRead;
    EXPECT_EQ(*checked, 1);
    const auto archive = OpenArchive(path);
    ASSERT_NE(archive, nullptr);
    EXPECT_EQ(archive->page_token_key(), std::string(32, '\0'));
    // By each index.
    for (const char* filter : {"", "labels.team=a'b", "job=j", "state=SUCCEEDED"}) {
      const auto terms = ParseArchiveFilter(filter);
      ASSERT_TRUE(terms.ok()) << terms.status();
      EXPECT_TRUE(Await([&](auto done) {
                    archive->List("projects/p", *terms, {}, 10,
                                  [done](absl::StatusOr<SqliteJobArchive::Page> page) mutable {
                                    EXPECT_EQ(page.ok() ? page->jobs.size() : 0, 1u);
                                    done(page.status());
                                  });
                  }).ok())
          << filter << golden::kMustRead;
    }
    EXPECT_TRUE(Await([&](auto done) {
                  archive->Get(
                      "projects/p/jobs/j", "", [done](absl::StatusOr<v1::ArchivedJob> got) mutable {
                        if (got.ok()) {
                          EXPECT_EQ(got->job().SerializeAsString(), Ended().SerializeAsString());
                        }
                        done(got.status());
                      });
                }).ok())
        << golden::kMustRead;
    Job next = Ended();
    next.set_uid("another");
    EXPECT_TRUE(Await([&](auto done) { archive->Put({next}, done); }).ok());
  }
  const std::string path = folder_.path() + "/archive.sqlite";
  {
    const auto archive = OpenArchive(path);
    ASSERT_NE(archive, nullptr);
    ASSERT_TRUE(Await([&](auto done) { archive->Put({Ended()}, done); }).ok());
  }
  // The key is another one in each file.
  golden::RestoreSqlite("UPDATE secret SET page_token_key = zeroblob(32)", path);
  format.ExpectWritten(golden::DumpSqlite(path));
}

TEST_F(StoredFormatTest, ReleasedSubscriptionsAreReadAndGoOn) {
  const golden::Format format(kPackage, "subscriptions", "sql");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/subscriptions.sqlite";
    golden::RestoreSqlite(version.bytes, path);
    const auto checked = store::CheckSqliteFile(SubscriptionsFile(), path);
    ASSERT_TRUE(checked.ok()) << checked.status() << golden::kMustRead;
    const auto subscriptions = OpenSubscriptions(path);
    ASSERT_NE(subscriptions, nullptr);
    const auto all = subscriptions->Load();
    ASSERT_TRUE(all.ok()) << all.status() << golden::kMustRead;
    ASSERT_EQ(all->size(), 1u);
    EXPECT_EQ(all->front().SerializeAsString(), Subscription().SerializeAsString());
    core::SubscriptionRecord next = Subscription();
    next.set_acknowledged_offset(28);
    EXPECT_TRUE(Await([&](auto done) { subscriptions->Put(next, done); }).ok());
  }
  const std::string path = folder_.path() + "/subscriptions.sqlite";
  {
    const auto subscriptions = OpenSubscriptions(path);
    ASSERT_NE(subscriptions, nullptr);
    ASSERT_TRUE(Await([&](auto done) { subscriptions->Put(Subscription(), done); }).ok());
  }
  format.ExpectWritten(golden::DumpSqlite(path));
}

}  // namespace
}  // namespace capstan::telemetry
