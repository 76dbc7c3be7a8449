#include "libs/store/sqlite_maintenance.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/file_lock.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_tables.h"

namespace capstan::store {
namespace {

namespace fs = ::std::filesystem;

absl::Status Damaged(const std::string& what) {
  return status::Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", what);
}

// Raises the incarnation of the store at `path`.
absl::Status RaiseIncarnation(const std::string& path, int64_t at_least) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, SqliteConnection::Open(path, true, false));
  CAPSTAN_RETURN_IF_ERROR(connection->Execute("PRAGMA synchronous = FULL"));
  SqliteTables tables(connection.get());
  CAPSTAN_RETURN_IF_ERROR(tables.Prepare(at_least));
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t stored, tables.Meta("incarnation"));
  return tables.SetMeta("incarnation", std::max(stored + 1, at_least));
}

absl::Status RemoveIfThere(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "removing", path);
  return absl::OkStatus();
}

absl::Status RenameIfThere(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "renaming", from);
  }
  return absl::OkStatus();
}

absl::Status SetOldAside(const std::string& path) {
  const auto exists = [](const std::string& file) { return access(file.c_str(), F_OK) == 0; };
  // What a restore that was cut off set aside stays.
  if (!exists(path) && !exists(path + "-wal")) return absl::OkStatus();
  const std::string aside = path + ".replaced";
  for (const char* suffix : {"", "-wal", "-shm"}) {
    CAPSTAN_RETURN_IF_ERROR(RemoveIfThere(aside + suffix));
  }
  CAPSTAN_RETURN_IF_ERROR(RenameIfThere(path + "-wal", aside + "-wal"));
  CAPSTAN_RETURN_IF_ERROR(RemoveIfThere(path + "-shm"));
  return RenameIfThere(path, aside);
}

}  // namespace

absl::Status RestoreSqliteStore(const std::string& backup, const std::string& path,
                                absl::Time now) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto lock, FileLock::Acquire(path + ".lock"));
  std::error_code error;
  if (fs::exists(path, error)) {
    return status::Error(absl::StatusCode::kAlreadyExists, "STORE_EXISTS",
                         absl::StrCat(path, " exists: move it away first"), {{"path", path}});
  }
  CAPSTAN_RETURN_IF_ERROR(CheckSqliteStore(backup).status());
  // Under another name until it is whole, so that no service opens half a store.
  const std::string half = RestoringPath(path);
  fs::copy_file(backup, half, fs::copy_options::overwrite_existing, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("copying to ", half));
  absl::Status made = RaiseIncarnation(half, absl::ToUnixSeconds(now));
  if (made.ok()) made = SyncStoreFile(half);
  if (made.ok()) {
    fs::rename(half, path, error);
    if (error) made = absl::ErrnoToStatus(error.value(), absl::StrCat("renaming to ", path));
  }
  if (!made.ok()) {
    fs::remove(half, error);
    return made;
  }
  return SyncStoreFolder(path);
}

absl::StatusOr<SqliteStoreState> CheckSqliteStore(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return status::NotFound(path);
  CAPSTAN_ASSIGN_OR_RETURN(const auto lock, FileLock::Acquire(path + ".lock"));
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, SqliteConnection::Open(path, true, false));
  return CheckSqliteTables(connection.get());
}

absl::StatusOr<SqliteStoreState> CheckSqliteTables(SqliteConnection* connection) {
  CAPSTAN_RETURN_IF_ERROR(CheckSqliteIntegrity(connection));
  SqliteTables tables(connection);
  CAPSTAN_RETURN_IF_ERROR(tables.CheckSchema().status());
  CAPSTAN_ASSIGN_OR_RETURN(
      const int64_t stale,
      connection->Number("SELECT count(*) FROM current c LEFT JOIN history h ON h.seq = c.seq"
                         " WHERE h.seq IS NULL OR h.key != c.key OR h.version = 0"
                         " OR h.lease != c.lease OR EXISTS (SELECT 1 FROM history n"
                         "  WHERE n.key = c.key AND n.seq > c.seq)"));
  if (stale > 0) return Damaged(absl::StrCat(stale, " keys differ from their history"));
  CAPSTAN_ASSIGN_OR_RETURN(
      const int64_t lost,
      connection->Number("SELECT count(*) FROM history h WHERE version > 0"
                         " AND NOT EXISTS (SELECT 1 FROM current c WHERE c.key = h.key)"
                         " AND NOT EXISTS (SELECT 1 FROM history n"
                         "  WHERE n.key = h.key AND n.seq > h.seq)"));
  if (lost > 0) return Damaged(absl::StrCat(lost, " keys are in the history alone"));
  SqliteStoreState state;
  CAPSTAN_ASSIGN_OR_RETURN(state.schema, connection->Number("PRAGMA user_version"));
  CAPSTAN_ASSIGN_OR_RETURN(state.incarnation, tables.Meta("incarnation"));
  CAPSTAN_ASSIGN_OR_RETURN(state.revision, tables.Revision());
  CAPSTAN_ASSIGN_OR_RETURN(state.compacted, tables.Meta("compacted"));
  CAPSTAN_ASSIGN_OR_RETURN(state.keys, connection->Number("SELECT count(*) FROM current"));
  return state;
}

std::string RestoringPath(const std::string& path) { return path + ".restoring"; }

absl::Status CheckNoUnfinishedRestore(const std::string& path) {
  const std::string half = RestoringPath(path);
  std::error_code error;
  if (!fs::exists(half, error)) return absl::OkStatus();
  return status::Error(
      absl::StatusCode::kFailedPrecondition, "RESTORE_UNFINISHED",
      absl::StrCat("a restore of ", path, " was not finished: run it again; or remove ", half,
                   " to keep what is there"),
      {{"path", path}});
}

absl::Status CheckSqliteIntegrity(SqliteConnection* connection) {
  SqliteStatement row = connection->Query("PRAGMA integrity_check(1)");
  if (!row.Next())
    return row.status().ok() ? Damaged("no answer of integrity_check") : row.status();
  const std::string answer = row.Blob(0);
  return answer == "ok" ? absl::OkStatus() : Damaged(answer);
}

absl::Status RemoveBesideRestoring(const std::string& path) {
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    CAPSTAN_RETURN_IF_ERROR(RemoveIfThere(RestoringPath(path) + suffix));
  }
  return absl::OkStatus();
}

absl::Status PutRestoredInPlace(const std::string& path) {
  const std::string half = RestoringPath(path);
  CAPSTAN_RETURN_IF_ERROR(SyncStoreFile(half));
  // No moment at which the old store has lost its WAL and may still be opened: the half is there.
  CAPSTAN_RETURN_IF_ERROR(SetOldAside(path));
  CAPSTAN_RETURN_IF_ERROR(SyncStoreFolder(path));
  if (rename(half.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "naming", path);
  return SyncStoreFolder(path);
}

absl::Status SyncStoreFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  return result == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, path);
}

absl::Status SyncStoreFolder(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return SyncStoreFile(folder.empty() ? "." : folder.string());
}

}  // namespace capstan::store
