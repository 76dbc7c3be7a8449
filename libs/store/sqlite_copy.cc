#include "libs/store/sqlite_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_maintenance.h"

namespace capstan::store {
namespace {

namespace fs = ::std::filesystem;

// A null function does nothing.
absl::Status Change(const std::function<absl::Status(SqliteConnection*)>& change,
                    SqliteConnection* connection) {
  if (change == nullptr) return absl::OkStatus();
  // What is taken out is not to be found in unused pages, nor in a journal.
  CAPSTAN_RETURN_IF_ERROR(connection->Execute("PRAGMA journal_mode = MEMORY"));
  CAPSTAN_RETURN_IF_ERROR(connection->Execute("PRAGMA secure_delete = ON"));
  return change(connection);
}

SqliteSchema SchemaOf(const SqliteFileKind& kind, const std::string& path) {
  SqliteSchema schema = kind.schema;
  schema.file = path;
  return schema;
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenToRead(const std::string& path) {
  CAPSTAN_RETURN_IF_ERROR(CheckNoUnfinishedRestore(path));
  if (access(path.c_str(), F_OK) != 0) return status::NotFound(path);
  return SqliteConnection::Open(path, /*writable=*/false, /*create=*/false);
}

}  // namespace

absl::StatusOr<int64_t> CopySqliteFile(const SqliteFileKind& kind, const std::string& path,
                                       const std::string& copy) {
  {
    CAPSTAN_ASSIGN_OR_RETURN(const auto connection, OpenToRead(path));
    CAPSTAN_RETURN_IF_ERROR(CheckSqliteSchema(connection.get(), SchemaOf(kind, path)).status());
    // SQLite fills an empty file, which so never is anyone else's.
    const UniqueFd made(open(copy.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    if (!made.valid()) return ErrnoStatus(errno, "making", copy);
    CAPSTAN_RETURN_IF_ERROR(connection->Query("VACUUM INTO ?").BindText(copy).Run());
  }
  {
    CAPSTAN_ASSIGN_OR_RETURN(const auto connection, SqliteConnection::Open(copy, true, false));
    CAPSTAN_RETURN_IF_ERROR(Change(kind.redact, connection.get()));
  }
  CAPSTAN_RETURN_IF_ERROR(SyncStoreFile(copy));
  CAPSTAN_RETURN_IF_ERROR(SyncStoreFolder(copy));
  return CheckSqliteFile(kind, copy);
}

absl::StatusOr<int64_t> CheckSqliteFile(const SqliteFileKind& kind, const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, OpenToRead(path));
  // All of one moment.
  CAPSTAN_RETURN_IF_ERROR(connection->Execute("BEGIN"));
  CAPSTAN_RETURN_IF_ERROR(CheckSqliteIntegrity(connection.get()));
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t version,
                           CheckSqliteSchema(connection.get(), SchemaOf(kind, path)));
  // A service that was killed before it had made its tables.
  if (version == 0) return 0;
  return kind.check(connection.get());
}

absl::StatusOr<int64_t> PutSqliteFileBack(const SqliteFileKind& kind, const std::string& copy,
                                          const std::string& path) {
  const std::string half = RestoringPath(path);
  CAPSTAN_RETURN_IF_ERROR(RemoveBesideRestoring(path));
  std::error_code error;
  fs::copy_file(copy, half, fs::copy_options::overwrite_existing, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("copying to ", half));
  if (chmod(half.c_str(), 0600) != 0) return ErrnoStatus(errno, "protecting", half);
  int64_t records = 0;
  {
    CAPSTAN_ASSIGN_OR_RETURN(const auto connection, SqliteConnection::Open(half, true, false));
    CAPSTAN_RETURN_IF_ERROR(PrepareSqliteSchema(connection.get(), SchemaOf(kind, copy)));
    CAPSTAN_RETURN_IF_ERROR(Change(kind.prepare_restored, connection.get()));
    CAPSTAN_ASSIGN_OR_RETURN(records, kind.check(connection.get()));
  }
  CAPSTAN_RETURN_IF_ERROR(PutRestoredInPlace(path));
  return records;
}

}  // namespace capstan::store
