#include "libs/store/sqlite_backup.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::store {
namespace {

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteBackupSource>> SqliteBackupSource::Open(
    const std::string& path) {
  CAPSTAN_RETURN_IF_ERROR(CheckNoUnfinishedRestore(path));
  if (!Exists(path)) return status::NotFound(path);
  CAPSTAN_ASSIGN_OR_RETURN(auto connection, SqliteConnection::Open(path, false, false));
  auto source = std::unique_ptr<SqliteBackupSource>(new SqliteBackupSource(std::move(connection)));
  CAPSTAN_RETURN_IF_ERROR(source->connection_->Execute("BEGIN"));
  // The first read fixes what all others see.
  CAPSTAN_RETURN_IF_ERROR(source->tables_.CheckSchema().status());
  CAPSTAN_ASSIGN_OR_RETURN(source->incarnation_, source->tables_.Meta("incarnation"));
  CAPSTAN_ASSIGN_OR_RETURN(source->revision_, source->tables_.Revision());
  return source;
}

absl::StatusOr<RangeResult> SqliteBackupSource::Range(RangeRequest request) {
  if (request.revision != 0 && request.revision != revision_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the snapshot is of revision ", revision_, ", not ", request.revision));
  }
  request.revision = 0;
  return tables_.Range(request);
}

absl::StatusOr<SqliteStoreState> SqliteBackupSource::Check() {
  return CheckSqliteTables(connection_.get());
}

absl::StatusOr<std::unique_ptr<SqliteRestoreTarget>> SqliteRestoreTarget::Open(
    const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(auto lock, FileLock::Acquire(path + ".lock"));
  return std::unique_ptr<SqliteRestoreTarget>(new SqliteRestoreTarget(path, std::move(lock)));
}

absl::StatusOr<RestoreTarget::State> SqliteRestoreTarget::Inspect() {
  State state;
  state.unfinished = Exists(RestoringPath(path_));
  if (!Exists(path_)) return state;
  state.empty = false;
  // A store that can't be read is one that may be replaced, but not silently.
  const auto connection = SqliteConnection::Open(path_, false, false);
  if (!connection.ok()) return state;
  SqliteTables tables(connection->get());
  if (!tables.CheckSchema().ok()) return state;
  const auto incarnation = tables.Meta("incarnation");
  const auto keys = (*connection)->Number("SELECT count(*) FROM current");
  if (incarnation.ok()) state.incarnation = *incarnation;
  if (keys.ok()) state.empty = *keys == 0;
  return state;
}

absl::Status SqliteRestoreTarget::Begin() {
  const std::string half = RestoringPath(path_);
  connection_.reset();
  CAPSTAN_RETURN_IF_ERROR(RemoveBesideRestoring(path_));
  // Emptied, never absent: there may be nothing else at `path_` by now.
  if (Exists(half) && truncate(half.c_str(), 0) != 0) return ErrnoStatus(errno, "emptying", half);
  CAPSTAN_ASSIGN_OR_RETURN(connection_, SqliteConnection::Open(half, true, true));
  tables_ = std::make_unique<SqliteTables>(connection_.get());
  // A half that a crash leaves is thrown away, so nothing is synced before the end.
  CAPSTAN_RETURN_IF_ERROR(connection_->Execute("PRAGMA auto_vacuum = INCREMENTAL"));
  CAPSTAN_RETURN_IF_ERROR(connection_->Execute("PRAGMA journal_mode = MEMORY"));
  CAPSTAN_RETURN_IF_ERROR(connection_->Execute("PRAGMA synchronous = OFF"));
  CAPSTAN_RETURN_IF_ERROR(tables_->Prepare(1));
  revision_ = 1;
  return SyncStoreFile(half);
}

absl::Status SqliteRestoreTarget::Write(std::vector<Put> puts) {
  TxnRequest txn;
  for (Put& put : puts) txn.then.emplace_back(std::move(put));
  CAPSTAN_RETURN_IF_ERROR(connection_->Execute("BEGIN IMMEDIATE"));
  absl::StatusOr<TxnResult> result = absl::UnknownError("not carried out");
  std::vector<WatchEvent> events;
  CAPSTAN_RETURN_IF_ERROR(tables_->Apply(txn, &revision_, &result, &events));
  CAPSTAN_RETURN_IF_ERROR(result.status());
  return connection_->Execute("COMMIT");
}

absl::Status SqliteRestoreTarget::Finish(int64_t incarnation) {
  CAPSTAN_RETURN_IF_ERROR(tables_->SetMeta("incarnation", incarnation));
  tables_.reset();
  connection_.reset();
  return PutRestoredInPlace(path_);
}

}  // namespace capstan::store
