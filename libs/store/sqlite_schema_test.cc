#include "libs/store/sqlite_schema.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_connection.h"

namespace capstan::store {
namespace {

using ::testing::HasSubstr;

SqliteSchema::Step Sql(const std::string& sql) {
  return [sql](SqliteConnection* connection) { return connection->Execute(sql); };
}

class SqliteSchemaTest : public testing::Test {
 protected:
  SqliteSchemaTest() {
    schema_.file = path_;
    schema_.kind = "a list of stars";
    schema_.foreign_reason = "NOT_STARS";
    schema_.application_id = 77;
    schema_.steps = {Sql("CREATE TABLE stars(name TEXT); INSERT INTO stars VALUES ('Vega')")};
    Reopen();
  }
  void Reopen() {
    connection_.reset();
    auto opened = SqliteConnection::Open(path_, true, true);
    ASSERT_TRUE(opened.ok()) << opened.status();
    connection_ = *std::move(opened);
    ASSERT_TRUE(connection_->Execute("PRAGMA journal_mode = WAL").ok());
  }
  absl::Status Prepare() { return PrepareSqliteSchema(connection_.get(), schema_); }
  int64_t Number(const char* sql) { return connection_->Number(sql).value_or(-1); }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/stars.sqlite";
  SqliteSchema schema_;
  std::unique_ptr<SqliteConnection> connection_;
};

TEST_F(SqliteSchemaTest, AnEmptyFileGetsItsTablesOnce) {
  EXPECT_EQ(CheckSqliteSchema(connection_.get(), schema_).value_or(-1), 0);
  EXPECT_EQ(Prepare(), absl::OkStatus());
  EXPECT_EQ(Prepare(), absl::OkStatus());
  Reopen();
  EXPECT_EQ(Prepare(), absl::OkStatus());
  EXPECT_EQ(Number("SELECT count(*) FROM stars"), 1);
  EXPECT_EQ(Number("PRAGMA application_id"), 77);
  EXPECT_EQ(CheckSqliteSchema(connection_.get(), schema_).value_or(-1), 1);
}

TEST_F(SqliteSchemaTest, AnOlderFileGoesThroughTheStepsThatItLacks) {
  ASSERT_EQ(Prepare(), absl::OkStatus());
  schema_.steps.push_back(Sql("ALTER TABLE stars ADD COLUMN magnitude INTEGER DEFAULT 3"));
  schema_.steps.push_back(Sql("UPDATE stars SET magnitude = magnitude - 3"));
  EXPECT_EQ(Prepare(), absl::OkStatus());
  EXPECT_EQ(Prepare(), absl::OkStatus());
  EXPECT_EQ(Number("SELECT magnitude FROM stars"), 0);
  EXPECT_EQ(CheckSqliteSchema(connection_.get(), schema_).value_or(-1), 3);
}

TEST_F(SqliteSchemaTest, AFailedStepLeavesNothingBehind) {
  schema_.steps.push_back(Sql("INSERT INTO planets VALUES ('Mars')"));
  EXPECT_FALSE(Prepare().ok());
  EXPECT_EQ(Number("SELECT count(*) FROM sqlite_schema"), 0);
  EXPECT_EQ(Number("PRAGMA application_id"), 0);
  EXPECT_EQ(CheckSqliteSchema(connection_.get(), schema_).value_or(-1), 0);
  // No transaction is left open, by which the connection would be of no use.
  EXPECT_EQ(connection_->Execute("BEGIN IMMEDIATE"), absl::OkStatus());
  EXPECT_EQ(connection_->Execute("ROLLBACK"), absl::OkStatus());
  schema_.steps.pop_back();
  EXPECT_EQ(Prepare(), absl::OkStatus());
  EXPECT_EQ(Number("SELECT count(*) FROM stars"), 1);
}

// A process with a migration in its hands, which is killed when it comes by a moment for the
// `death`-th time: before, amid and after what each step does, before the commit and after it.
class DyingMigration {
 public:
  // Several pages each, more than the cache takes: what is not committed is in the log as well.
  static constexpr int kRows = 300;

  explicit DyingMigration(int death) : death_(death) {}

  std::vector<SqliteSchema::Step> Steps() {
    return {Of("CREATE TABLE stars(name TEXT, magnitude INTEGER, spectrum BLOB)",
               absl::StrCat("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ",
                            kRows,
                            ") INSERT INTO stars SELECT 'star ' || i, i, zeroblob(500) "
                            "FROM n")),
            Of("ALTER TABLE stars ADD COLUMN seen INTEGER DEFAULT 3",
               "UPDATE stars SET magnitude = magnitude + 1, spectrum = zeroblob(600)"),
            Of("CREATE TABLE planets(star TEXT)",
               "INSERT INTO planets SELECT name FROM stars WHERE magnitude % 2 = 0; "
               "UPDATE stars SET magnitude = magnitude * 2")};
  }
  // Also dies there.
  void Watch(sqlite3* db) {
    const auto on_commit = [](void* self) {
      static_cast<DyingMigration*>(self)->Moment();
      return 0;
    };
    const auto committed = [](void* self, sqlite3*, const char*, int) {
      static_cast<DyingMigration*>(self)->Moment();
      return SQLITE_OK;
    };
    sqlite3_commit_hook(db, on_commit, this);
    sqlite3_wal_hook(db, committed, this);
  }

 private:
  SqliteSchema::Step Of(const std::string& first, const std::string& second) {
    return [this, first, second](SqliteConnection* connection) {
      Moment();
      absl::Status done = connection->Execute(first);
      Moment();
      if (done.ok()) done = connection->Execute(second);
      Moment();
      return done;
    };
  }
  void Moment() {
    if (moments_++ == death_) kill(getpid(), SIGKILL);
  }

  const int death_;
  int moments_ = 0;
};

class SqliteSchemaKillTest : public SqliteSchemaTest {
 protected:
  // All that a reader of the file sees.
  std::string Contents() {
    std::string all;
    for (const char* sql : {"SELECT application_id FROM pragma_application_id",
                            "SELECT user_version FROM pragma_user_version",
                            "SELECT group_concat(sql, '; ') FROM sqlite_schema"}) {
      SqliteStatement row = connection_->Query(sql);
      while (row.Next()) absl::StrAppend(&all, row.Blob(0), "\n");
      EXPECT_EQ(row.status(), absl::OkStatus());
    }
    for (const char* table : {"stars", "planets"}) {
      if (!absl::StrContains(all, absl::StrCat("CREATE TABLE ", table))) continue;
      SqliteStatement row = connection_->Query(table == absl::string_view("stars")
                                                   ? "SELECT group_concat(name || ':' || magnitude "
                                                     "|| ':' || length(spectrum)) FROM stars"
                                                   : "SELECT group_concat(star) FROM planets");
      while (row.Next()) absl::StrAppend(&all, table, ": ", row.Blob(0), "\n");
      EXPECT_EQ(row.status(), absl::OkStatus());
    }
    return all;
  }
  // A file of that version, in use by nobody.
  void Begin(size_t version) {
    connection_.reset();
    for (const char* beside : {"", "-wal", "-shm"}) unlink((path_ + beside).c_str());
    Reopen();
    schema_.steps = never_dies_.Steps();
    schema_.steps.resize(version);
    if (version > 0) {
      ASSERT_EQ(Prepare(), absl::OkStatus());
    }
    schema_.steps = never_dies_.Steps();
  }
  // In a process of its own; false if it has outlived it all.
  bool MigrateAndDie(int death) {
    connection_.reset();
    const pid_t child = fork();
    if (child == 0) {
      auto opened = SqliteConnection::Open(path_, true, true);
      if (!opened.ok() || !(*opened)->Execute("PRAGMA journal_mode = WAL").ok() ||
          !(*opened)->Execute("PRAGMA cache_size = 10").ok()) {
        _exit(3);
      }
      DyingMigration dying(death);
      dying.Watch((*opened)->raw());
      schema_.steps = dying.Steps();
      _exit(PrepareSqliteSchema(opened->get(), schema_).ok() ? 0 : 4);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
    Reopen();
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  DyingMigration never_dies_{-1};
};

TEST_F(SqliteSchemaKillTest, KilledAtAnyMomentTheFileIsWhatItWasAndTheNextOpenFinishesIt) {
  const size_t newest = never_dies_.Steps().size();
  for (size_t version = 0; version < newest; ++version) {
    Begin(version);
    const std::string before = Contents();
    ASSERT_EQ(Prepare(), absl::OkStatus());
    const std::string after = Contents();
    ASSERT_NE(before, after);
    int deaths = 0;
    int committed = 0;
    for (;; ++deaths) {
      SCOPED_TRACE(absl::StrCat("from version ", version, ", death ", deaths));
      ASSERT_LT(deaths, 50);
      Begin(version);
      if (!MigrateAndDie(deaths)) break;
      // Never half of it: the kill came before the commit, or after it.
      const std::string left = Contents();
      ASSERT_TRUE(left == before || left == after) << left;
      committed += left == after ? 1 : 0;
      EXPECT_EQ(Prepare(), absl::OkStatus());
      ASSERT_EQ(Contents(), after);
      EXPECT_EQ(CheckSqliteSchema(connection_.get(), schema_).value_or(-1),
                static_cast<int64_t>(newest));
    }
    EXPECT_EQ(Contents(), after);
    // Three moments of each step that it lacked, the commit, and what follows that.
    EXPECT_EQ(deaths, static_cast<int>(3 * (newest - version) + 2));
    EXPECT_EQ(committed, 1);
  }
}

TEST_F(SqliteSchemaTest, AStepsOwnErrorIsTheAnswer) {
  schema_.steps.push_back([](SqliteConnection*) { return absl::InternalError("no randomness"); });
  EXPECT_EQ(Prepare(), absl::InternalError("no randomness"));
  EXPECT_EQ(Number("SELECT count(*) FROM sqlite_schema"), 0);
}

TEST_F(SqliteSchemaTest, ANewerFileIsRefusedAndLeftAlone) {
  ASSERT_EQ(Prepare(), absl::OkStatus());
  ASSERT_EQ(connection_->Execute("PRAGMA user_version = 2"), absl::OkStatus());
  const absl::Status refused = Prepare();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(refused), "SCHEMA_TOO_NEW");
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat(path_, " has schema 2, this program knows up to 1")));
  EXPECT_EQ(Number("PRAGMA user_version"), 2);
}

TEST_F(SqliteSchemaTest, AnotherKindsFileIsRefusedAndLeftAlone) {
  ASSERT_EQ(connection_->Execute("CREATE TABLE other(a)"), absl::OkStatus());
  const absl::Status refused = Prepare();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(refused), "NOT_STARS");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("not a list of stars"));
  EXPECT_EQ(Number("SELECT count(*) FROM sqlite_schema"), 1);
}

}  // namespace
}  // namespace capstan::store
