// Copying, checking and putting back the SQLite files that a service keeps beside its store.
// Blocking; for commands, not for services.
#ifndef CAPSTAN_LIBS_STORE_SQLITE_COPY_H_
#define CAPSTAN_LIBS_STORE_SQLITE_COPY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_schema.h"

namespace capstan::store {

// What lies in such a file. A service offers its own as `StoredFiles()` in stored_files.h.
struct SqliteFileKind {
  // In the service's data folder: `archive.sqlite`.
  std::string name;
  // Its records, for people: `archived Jobs`.
  std::string records;
  SqliteSchema schema{};
  // Reads every record: how many there are. DATA_LOSS names one that is not what it should be.
  std::function<absl::StatusOr<int64_t>(SqliteConnection*)> check;
  // Takes out of a copy what no backup is to hold; may be null.
  std::function<absl::Status(SqliteConnection*)> redact = nullptr;
  // Changes what is put back, once it is of the newest schema; may be null.
  std::function<absl::Status(SqliteConnection*)> prepare_restored = nullptr;
};

// Copies the file at `path`, which a service may be writing to, as it is at one moment to `copy`,
// where there must be none: for its owner only (0600), whole, checked and on disk. The number of
// records. NOT_FOUND if there is no file; RESTORE_UNFINISHED; errors of CheckSqliteFile.
absl::StatusOr<int64_t> CopySqliteFile(const SqliteFileKind& kind, const std::string& path,
                                       const std::string& copy);

// Reads the whole file, which a service may be writing to: the number of records. NOT_FOUND;
// RESTORE_UNFINISHED; the schema's errors; DATA_LOSS.
absl::StatusOr<int64_t> CheckSqliteFile(const SqliteFileKind& kind, const std::string& path);

// Puts a copy to `path`, in one step and durably; what was there is kept as `<path>.replaced`. The
// caller holds the lock on `path`. While it is under way, and after it was cut off, the service
// refuses to open the file: RESTORE_UNFINISHED. The number of records.
absl::StatusOr<int64_t> PutSqliteFileBack(const SqliteFileKind& kind, const std::string& copy,
                                          const std::string& path);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_COPY_H_
