#include "libs/store/sqlite_schema.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
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
