#include "libs/store/sqlite_copy.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_maintenance.h"
#include "libs/store/sqlite_schema.h"

namespace capstan::store {
namespace {

namespace fs = ::std::filesystem;

constexpr char kSecret[] = "a secret of thirty-two bytes!!!!";

SqliteFileKind Stars() {
  SqliteFileKind kind;
  kind.name = "stars.sqlite";
  kind.records = "stars";
  kind.schema.kind = "a list of stars";
  kind.schema.foreign_reason = "NOT_STARS";
  kind.schema.application_id = 77;
  kind.schema.steps = {[](SqliteConnection* connection) {
    return connection->Execute("CREATE TABLE stars(name TEXT); CREATE TABLE secret(s TEXT)");
  }};
  kind.check = [](SqliteConnection* connection) -> absl::StatusOr<int64_t> {
    if (connection->Number("SELECT count(*) FROM stars WHERE name = 'Mars'").value_or(1) > 0) {
      return status::Error(absl::StatusCode::kDataLoss, "NO_STAR", "Mars is none");
    }
    return connection->Number("SELECT count(*) FROM stars");
  };
  kind.redact = [](SqliteConnection* connection) {
    return connection->Execute("DELETE FROM secret");
  };
  kind.prepare_restored = [](SqliteConnection* connection) {
    return connection->Execute("UPDATE stars SET name = name || ' again'");
  };
  return kind;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

class SqliteCopyTest : public testing::Test {
 protected:
  // As a service opens it.
  std::unique_ptr<SqliteConnection> Open(const std::string& path) {
    auto connection = SqliteConnection::Open(path, true, true);
    EXPECT_TRUE(connection.ok()) << connection.status();
    EXPECT_TRUE((*connection)->Execute("PRAGMA journal_mode = WAL").ok());
    EXPECT_EQ(PrepareSqliteSchema(connection->get(), kind_.schema), absl::OkStatus());
    return *std::move(connection);
  }
  static absl::Status Add(SqliteConnection* connection, const std::string& star) {
    return connection->Query("INSERT INTO stars VALUES (?)").BindText(star).Run();
  }

  const SqliteFileKind kind_ = Stars();
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/stars.sqlite";
  const std::string copy_ = folder_.path() + "/copy.sqlite";
};

TEST_F(SqliteCopyTest, ACopyIsOfOneMomentPrivateAndWithoutSecrets) {
  const auto service = Open(path_);
  ASSERT_TRUE(service->Query("INSERT INTO secret VALUES (?)").BindText(kSecret).Run().ok());
  ASSERT_TRUE(Add(service.get(), "Vega").ok());
  // What is not committed is not there.
  ASSERT_TRUE(service->Execute("BEGIN IMMEDIATE").ok());
  ASSERT_TRUE(Add(service.get(), "Sirius").ok());
  EXPECT_EQ(CopySqliteFile(kind_, path_, copy_).value_or(-1), 1);
  EXPECT_TRUE(service->Execute("COMMIT").ok()) << "the service goes on";
  EXPECT_EQ(CheckSqliteFile(kind_, path_).value_or(-1), 2);
  EXPECT_EQ(CheckSqliteFile(kind_, copy_).value_or(-1), 1);
  struct stat found = {};
  ASSERT_EQ(stat(copy_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_FALSE(absl::StrContains(ReadFile(copy_), kSecret));
  EXPECT_FALSE(CopySqliteFile(kind_, path_, copy_).ok()) << "nothing is overwritten";
}

TEST_F(SqliteCopyTest, WhatIsNotThereOrAnotherKindsIsNotCopied) {
  EXPECT_TRUE(absl::IsNotFound(CopySqliteFile(kind_, path_, copy_).status()));
  EXPECT_TRUE(absl::IsNotFound(CheckSqliteFile(kind_, path_).status()));
  {
    auto other = SqliteConnection::Open(path_, true, true);
    ASSERT_TRUE(other.ok());
    ASSERT_TRUE((*other)->Execute("CREATE TABLE other(a)").ok());
  }
  EXPECT_EQ(status::Reason(CopySqliteFile(kind_, path_, copy_).status()), "NOT_STARS");
  EXPECT_EQ(status::Reason(CheckSqliteFile(kind_, path_).status()), "NOT_STARS");
  EXPECT_FALSE(fs::exists(copy_));
}

TEST_F(SqliteCopyTest, WhatIsWrongIsFound) {
  Open(path_);
  EXPECT_EQ(CheckSqliteFile(kind_, path_).value_or(-1), 0);
  ASSERT_TRUE(Add(Open(path_).get(), "Mars").ok());
  EXPECT_EQ(status::Reason(CheckSqliteFile(kind_, path_).status()), "NO_STAR");
  EXPECT_EQ(status::Reason(CopySqliteFile(kind_, path_, copy_).status()), "NO_STAR");
  // In the midst of the file.
  std::string bytes = ReadFile(path_);
  for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] = 'x';
  {
    std::ofstream out(path_, std::ios::binary);
    out << bytes;
  }
  EXPECT_EQ(CheckSqliteFile(kind_, path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteCopyTest, ItIsPutBackAndTheOldOneKept) {
  ASSERT_TRUE(Add(Open(path_).get(), "Vega").ok());
  ASSERT_TRUE(CopySqliteFile(kind_, path_, copy_).ok());
  ASSERT_TRUE(Add(Open(path_).get(), "Sirius").ok());
  EXPECT_EQ(PutSqliteFileBack(kind_, copy_, path_).value_or(-1), 1);
  const auto restored = Open(path_);
  EXPECT_EQ(restored->Number("SELECT count(*) FROM stars WHERE name = 'Vega again'").value_or(-1),
            1);
  EXPECT_EQ(CheckSqliteFile(kind_, path_ + ".replaced").value_or(-1), 2);
  // The copy is as it was.
  EXPECT_EQ(PutSqliteFileBack(kind_, copy_, folder_.path() + "/other.sqlite").value_or(-1), 1);
  EXPECT_FALSE(fs::exists(RestoringPath(path_)));
}

TEST_F(SqliteCopyTest, WhatWasCutOffIsNeitherReadNorInTheWayOfTheNext) {
  ASSERT_TRUE(Add(Open(path_).get(), "Vega").ok());
  ASSERT_TRUE(CopySqliteFile(kind_, path_, copy_).ok());
  {
    std::ofstream half(RestoringPath(path_));
    half << "half a file";
  }
  EXPECT_EQ(status::Reason(CheckSqliteFile(kind_, path_).status()), "RESTORE_UNFINISHED");
  EXPECT_EQ(status::Reason(CopySqliteFile(kind_, path_, copy_ + "2").status()),
            "RESTORE_UNFINISHED");
  EXPECT_EQ(PutSqliteFileBack(kind_, copy_, path_).value_or(-1), 1);
  EXPECT_EQ(CheckSqliteFile(kind_, path_).value_or(-1), 1);
}

TEST_F(SqliteCopyTest, ACopyThatCanNotBePutBackLeavesWhatIsThere) {
  ASSERT_TRUE(Add(Open(path_).get(), "Vega").ok());
  {
    std::ofstream copy(copy_);
    copy << std::string(8192, 'x');
  }
  EXPECT_FALSE(PutSqliteFileBack(kind_, copy_, path_).ok());
  EXPECT_EQ(status::Reason(CheckSqliteFile(kind_, path_).status()), "RESTORE_UNFINISHED");
  fs::remove(RestoringPath(path_));
  EXPECT_EQ(CheckSqliteFile(kind_, path_).value_or(-1), 1);
}

}  // namespace
}  // namespace capstan::store
