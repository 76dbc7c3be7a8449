#include "libs/store/sqlite_schema.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::store {
namespace {

absl::Status RunSteps(SqliteConnection* connection, const SqliteSchema& schema) {
  // Once more, now that nobody else can change it.
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t version, CheckSqliteSchema(connection, schema));
  for (size_t i = version; i < schema.steps.size(); ++i) {
    CAPSTAN_RETURN_IF_ERROR(schema.steps[i](connection));
  }
  CAPSTAN_RETURN_IF_ERROR(
      connection->Execute(absl::StrCat("PRAGMA application_id = ", schema.application_id)));
  CAPSTAN_RETURN_IF_ERROR(
      connection->Execute(absl::StrCat("PRAGMA user_version = ", schema.steps.size())));
  return connection->Execute("COMMIT");
}

}  // namespace

absl::StatusOr<int64_t> CheckSqliteSchema(SqliteConnection* connection,
                                          const SqliteSchema& schema) {
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t tables,
                           connection->Number("SELECT count(*) FROM sqlite_schema"));
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t application, connection->Number("PRAGMA application_id"));
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t version, connection->Number("PRAGMA user_version"));
  if (tables > 0 && application != schema.application_id) {
    return status::Error(absl::StatusCode::kFailedPrecondition, schema.foreign_reason,
                         absl::StrCat(schema.file, " is a database, but not ", schema.kind));
  }
  const auto known = static_cast<int64_t>(schema.steps.size());
  if (version > known) {
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "SCHEMA_TOO_NEW",
        absl::StrCat(schema.file, " has schema ", version, ", this program knows up to ", known,
                     ": run a newer version, or restore a backup"),
        {{"schema", absl::StrCat(version)}, {"known", absl::StrCat(known)}});
  }
  return version;
}

absl::Status PrepareSqliteSchema(SqliteConnection* connection, const SqliteSchema& schema) {
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t version, CheckSqliteSchema(connection, schema));
  if (version == static_cast<int64_t>(schema.steps.size())) return absl::OkStatus();
  CAPSTAN_RETURN_IF_ERROR(connection->Execute("BEGIN IMMEDIATE"));
  absl::Status made = RunSteps(connection, schema);
  if (!made.ok()) connection->Execute("ROLLBACK").IgnoreError();
  return made;
}

}  // namespace capstan::store
