// Restoring and checking the file of a SqliteStore. Blocking; for commands, not for services.
#ifndef CAPSTAN_LIBS_STORE_SQLITE_MAINTENANCE_H_
#define CAPSTAN_LIBS_STORE_SQLITE_MAINTENANCE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/store/sqlite_connection.h"

namespace capstan::store {

// Makes a new store at `path`, where there must be none, from a backup (SqliteStore::Backup). Its
// incarnation is max(the backup's + 1, Unix seconds of `now`), so that tokens of what happened
// after the backup, which the restored store knows nothing of, are recognised as old. Nothing is at
// `path` after an error. Errors: ALREADY_EXISTS, and those of SqliteStore::Open.
absl::Status RestoreSqliteStore(const std::string& backup, const std::string& path, absl::Time now);

struct SqliteStoreState {
  int64_t schema = 0;
  int64_t incarnation = 0;
  int64_t revision = 0;
  // Oldest revision that can be asked for.
  int64_t compacted = 0;
  int64_t keys = 0;
};

// Reads the whole file and checks that it is sound: SQLite's own integrity check, that every
// current key is the newest state of its history, and that no state is without one. DATA_LOSS says
// what is wrong. Fails with STORE_LOCKED while a process uses the store.
absl::StatusOr<SqliteStoreState> CheckSqliteStore(const std::string& path);

// The same of what an open connection sees, which a service may be writing to meanwhile.
absl::StatusOr<SqliteStoreState> CheckSqliteTables(SqliteConnection* connection);

// SQLite's own integrity check of the whole file: DATA_LOSS says what is wrong.
absl::Status CheckSqliteIntegrity(SqliteConnection* connection);

// Where a restore puts a store together; see sqlite_backup.h.
std::string RestoringPath(const std::string& path);
// Removes what SQLite has left beside RestoringPath(path) of a restore that was cut off.
absl::Status RemoveBesideRestoring(const std::string& path);
// FAILED_PRECONDITION with RESTORE_UNFINISHED if there is such a file for the store at `path`.
absl::Status CheckNoUnfinishedRestore(const std::string& path);
// Forces what lies at RestoringPath(path), closed, to disk and gives it the store's name; a store
// that was there is kept as `<path>.replaced`. Whatever cuts it off, the old one is never opened
// without its newest writes. The caller holds the store's lock.
absl::Status PutRestoredInPlace(const std::string& path);
// Forces a file, or the folder that it lies in, to disk.
absl::Status SyncStoreFile(const std::string& path);
absl::Status SyncStoreFolder(const std::string& path);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_MAINTENANCE_H_
