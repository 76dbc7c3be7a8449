// Backup of, and restore to, the file of a SqliteStore.
#ifndef CAPSTAN_LIBS_STORE_SQLITE_BACKUP_H_
#define CAPSTAN_LIBS_STORE_SQLITE_BACKUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/store/backup.h"
#include "libs/store/file_lock.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_maintenance.h"
#include "libs/store/sqlite_tables.h"
#include "libs/store/store.h"

namespace capstan::store {

// One snapshot of a store's file, which a service of another process may be writing to: a read-only
// connection with one read transaction for as long as this lives. The writer goes on unhindered;
// its WAL file can't be emptied meanwhile and grows by what it writes. For one thread.
class SqliteBackupSource final : public BackupSource {
 public:
  // NOT_FOUND if there is no file; RESTORE_UNFINISHED, NOT_A_STORE, SCHEMA_TOO_NEW.
  static absl::StatusOr<std::unique_ptr<SqliteBackupSource>> Open(const std::string& path);

  // At another revision than the snapshot's: FAILED_PRECONDITION.
  absl::StatusOr<RangeResult> Range(RangeRequest request) override;
  int64_t incarnation() const override { return incarnation_; }

  // As CheckSqliteStore, of the snapshot.
  absl::StatusOr<SqliteStoreState> Check();

 private:
  explicit SqliteBackupSource(std::unique_ptr<SqliteConnection> connection)
      : connection_(std::move(connection)), tables_(connection_.get()) {}

  const std::unique_ptr<SqliteConnection> connection_;
  SqliteTables tables_;
  int64_t incarnation_ = 0;
  int64_t revision_ = 0;
};

// Fills `<path>.restoring`, and gives it the store's name when it is whole and on disk. While that
// file is there, SqliteStore::Open fails with RESTORE_UNFINISHED: run the restore again; or, to
// keep what was at `path`, remove it. A store that was at `path` is kept as `<path>.replaced` until
// the next restore. Holds the store's lock for life. For one thread.
class SqliteRestoreTarget final : public RestoreTarget {
 public:
  // The folder must exist. STORE_LOCKED while a service uses the store.
  static absl::StatusOr<std::unique_ptr<SqliteRestoreTarget>> Open(const std::string& path);

  absl::StatusOr<State> Inspect() override;
  absl::Status Begin() override;
  absl::Status Write(std::vector<Put> puts) override;
  absl::Status Finish(int64_t incarnation) override;

 private:
  SqliteRestoreTarget(std::string path, std::unique_ptr<FileLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const std::unique_ptr<FileLock> lock_;
  std::unique_ptr<SqliteConnection> connection_;
  std::unique_ptr<SqliteTables> tables_;
  int64_t revision_ = 1;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_BACKUP_H_
