#include "services/telemetry/adapters/sqlite_subscription_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_connection.h"
#include "libs/time/system_clock.h"
#include "services/telemetry/ports/subscription_store_conformance.h"

namespace capstan::telemetry {
namespace {

class SqlitePlace final : public SubscriptionStorePlace {
 public:
  std::unique_ptr<SubscriptionStore> Open() override {
    auto opened = SqliteSubscriptionStore::Open(path(), &clock_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  std::string path() const { return folder_.path() + "/subscriptions.sqlite"; }
  const Clock* clock() const { return &clock_; }

 private:
  SystemClock clock_;
  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, SubscriptionStoreConformanceTest,
                         testing::Values([] { return std::make_unique<SqlitePlace>(); }));

TEST(SqliteSubscriptionStoreTest, OneProcessHasIt) {
  SqlitePlace place;
  const auto store = place.Open();
  EXPECT_EQ(status::Reason(SqliteSubscriptionStore::Open(place.path(), place.clock()).status()),
            "STORE_LOCKED");
}

TEST(SqliteSubscriptionStoreTest, FilesThatAreNotItsOwnAreLeftAlone) {
  SqlitePlace place;
  {
    auto other = store::SqliteConnection::Open(place.path(), true, true);
    ASSERT_TRUE(other.ok()) << other.status();
    ASSERT_TRUE((*other)->Execute("CREATE TABLE x(y)").ok());
  }
  EXPECT_EQ(status::Reason(SqliteSubscriptionStore::Open(place.path(), place.clock()).status()),
            "NOT_SUBSCRIPTIONS");
  SqlitePlace newer;
  newer.Open().reset();
  {
    auto later = store::SqliteConnection::Open(newer.path(), true, true);
    ASSERT_TRUE(later.ok()) << later.status();
    ASSERT_TRUE((*later)->Execute("PRAGMA user_version = 9").ok());
  }
  EXPECT_EQ(status::Reason(SqliteSubscriptionStore::Open(newer.path(), newer.clock()).status()),
            "SCHEMA_TOO_NEW");
}

TEST(SqliteSubscriptionStoreTest, ACursorBeyondAllCountingIsDamage) {
  SqlitePlace place;
  place.Open().reset();
  {
    auto other = store::SqliteConnection::Open(place.path(), true, true);
    ASSERT_TRUE(other.ok()) << other.status();
    // A SubscriptionRecord of that name, acknowledged up to the largest number.
    ASSERT_TRUE(
        (*other)
            ->Execute("INSERT INTO subscriptions VALUES ('far', x'0a0366617220ffffffffffffffff7f')")
            .ok());
  }
  EXPECT_EQ(status::Reason(place.Open()->Load().status()), "SUBSCRIPTION_DAMAGED");
}

TEST(SqliteSubscriptionStoreTest, ADamagedRecordIsNamed) {
  SqlitePlace place;
  place.Open().reset();
  {
    auto other = store::SqliteConnection::Open(place.path(), true, true);
    ASSERT_TRUE(other.ok()) << other.status();
    ASSERT_TRUE((*other)->Execute("INSERT INTO subscriptions VALUES ('broken', x'ffff')").ok());
  }
  const auto loaded = place.Open()->Load();
  EXPECT_EQ(status::Reason(loaded.status()), "SUBSCRIPTION_DAMAGED");
  EXPECT_NE(loaded.status().message().find("broken"), absl::string_view::npos);
}

// A process writes rising cursors and says each once it is answered, until it is killed.
TEST(SqliteSubscriptionStoreTest, WhatWasAnsweredOutlivesKill) {
  for (int round = 0; round < 5; ++round) {
    SqlitePlace place;
    int pipe_ends[2];
    ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
      auto store = SqliteSubscriptionStore::Open(place.path(), place.clock());
      if (!store.ok()) _exit(1);
      for (int64_t offset = 1;; ++offset) {
        core::SubscriptionRecord record;
        record.set_name("s");
        record.set_acknowledged_offset(offset);
        absl::Notification done;
        (*store)->Put(record, [&](const absl::Status& status) {
          if (!status.ok()) _exit(2);
          done.Notify();
        });
        done.WaitForNotification();
        if (write(pipe_ends[1], &offset, sizeof offset) != sizeof offset) _exit(3);
      }
    }
    close(pipe_ends[1]);
    int64_t answered = 0;
    for (int i = 0; i < 10 + 7 * round; ++i) {
      ASSERT_EQ(read(pipe_ends[0], &answered, sizeof answered), ssize_t{sizeof answered});
    }
    kill(writer, SIGKILL);
    int wait_status = 0;
    ASSERT_EQ(waitpid(writer, &wait_status, 0), writer);
    while (read(pipe_ends[0], &answered, sizeof answered) == ssize_t{sizeof answered}) {
    }
    close(pipe_ends[0]);
    const auto loaded = place.Open()->Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_EQ(loaded->size(), 1u);
    // The one under way may have got there as well.
    EXPECT_GE(loaded->front().acknowledged_offset(), answered);
    EXPECT_LE(loaded->front().acknowledged_offset(), answered + 1);
  }
}

}  // namespace
}  // namespace capstan::telemetry
