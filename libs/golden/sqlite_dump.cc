#include "libs/golden/sqlite_dump.h"

#include <sqlite3.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace capstan::golden {
namespace {

class Database {
 public:
  Database(const std::string& path, int flags) {
    EXPECT_EQ(sqlite3_open_v2(path.c_str(), &db_, flags, nullptr), SQLITE_OK) << path;
  }
  ~Database() { sqlite3_close(db_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The first column of each row.
  std::vector<std::string> Query(const std::string& sql) {
    std::vector<std::string> rows;
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
        << sql << ": " << sqlite3_errmsg(db_);
    while (statement != nullptr && sqlite3_step(statement) == SQLITE_ROW) {
      const unsigned char* text = sqlite3_column_text(statement, 0);
      rows.emplace_back(text == nullptr ? "" : reinterpret_cast<const char*>(text));
    }
    sqlite3_finalize(statement);
    return rows;
  }
  void Run(const std::string& sql) {
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    sqlite3_free(error);
  }

 private:
  sqlite3* db_ = nullptr;
};

}  // namespace

std::string DumpSqlite(const std::string& path) {
  Database db(path, SQLITE_OPEN_READONLY);
  std::string dump;
  for (const char* name : {"application_id", "user_version"}) {
    absl::StrAppend(&dump, "PRAGMA ", name, " = ",
                    absl::StrJoin(db.Query(absl::StrCat("PRAGMA ", name)), ""), ";\n");
  }
  // Tables before their indexes.
  for (const std::string& sql : db.Query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
                                         " ORDER BY type = 'index', name")) {
    absl::StrAppend(&dump, sql, ";\n");
  }
  for (const std::string& table :
       db.Query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")) {
    const std::vector<std::string> columns =
        db.Query(absl::StrCat("SELECT name FROM pragma_table_info('", table, "')"));
    // The order of all columns, so that it is the same wherever SQLite keeps them.
    const std::string row =
        absl::StrJoin(columns, " || ',' || ", [](std::string* out, const std::string& column) {
          absl::StrAppend(out, "quote(\"", column, "\")");
        });
    const std::string order = absl::StrJoin(columns, ", ");
    for (const std::string& values :
         db.Query(absl::StrCat("SELECT ", row, " FROM ", table, " ORDER BY ", order))) {
      absl::StrAppend(&dump, "INSERT INTO ", table, " VALUES(", values, ");\n");
    }
  }
  return dump;
}

void RestoreSqlite(absl::string_view dump, const std::string& path) {
  Database db(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  db.Run(std::string(dump));
}

}  // namespace capstan::golden
