#ifndef CAPSTAN_LIBS_STORE_SQLITE_SCHEMA_H_
#define CAPSTAN_LIBS_STORE_SQLITE_SCHEMA_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/store/sqlite_connection.h"

namespace capstan::store {

// Whose a database file is, and how its tables come to be.
struct SqliteSchema {
  // Makes version i + 1 of version i, 0 being an empty file; neither begins nor ends a transaction.
  // A step that has been released is never changed: another one follows it.
  using Step = std::function<absl::Status(SqliteConnection*)>;

  // For errors: `the file` or its path.
  std::string file = "the file";
  // What files of this kind hold, for errors: `a Capstan store`.
  std::string kind{};
  // Reason of FAILED_PRECONDITION for a database that is another kind's, e.g. NOT_A_STORE.
  std::string foreign_reason{};
  // Marks the file, in its header (PRAGMA application_id).
  int32_t application_id = 0;
  std::vector<Step> steps{};
};

// The file's version, 0 if it is empty, without changing it: `foreign_reason`, or
// FAILED_PRECONDITION with SCHEMA_TOO_NEW if it is of a later version than this program makes.
absl::StatusOr<int64_t> CheckSqliteSchema(SqliteConnection* connection, const SqliteSchema& schema);

// Brings the file to the newest version in one transaction: on any error, or a crash amid it, the
// file is what it was. Does nothing to one that is there already. Not within a transaction.
absl::Status PrepareSqliteSchema(SqliteConnection* connection, const SqliteSchema& schema);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_SCHEMA_H_
