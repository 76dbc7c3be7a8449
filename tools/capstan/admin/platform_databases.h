// What a platform keeps in SQLite files beside its stores: telemetry's archive of ended Jobs and
// its subscriptions, in the data folder of this machine. Backup, restore and check of them.
//
// They go with the Streams that lie beside them, which no backup holds. So a restore puts them back
// where there are none, or where what is there is empty or damaged; what is sound is newer than the
// backup, fits its Streams, and is kept. A cursor that its Stream does not reach is answered
// CURSOR_BEYOND_END (docs/operations/subscriptions.md).
#ifndef CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_DATABASES_H_
#define CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_DATABASES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/store/file_lock.h"
#include "libs/store/sqlite_copy.h"
#include "tools/capstan/admin/backup_manifest.pb.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::admin {

// Copies what there is to `folder`/databases and names it in the manifest; says what there is not.
absl::Status BackupDatabases(const std::string& data_dir, const std::string& folder,
                             cli::Invocation& invocation, v1::BackupManifest* manifest);

// That each copy is there, whole, known and sound. BACKUP_CORRUPT, FOREIGN_BACKUP, SCHEMA_TOO_NEW.
absl::Status VerifyDatabases(const std::string& from, const v1::BackupManifest& manifest);

// How one is: the number of records, or what is wrong.
using DatabaseReport =
    absl::FunctionRef<void(absl::string_view name, const absl::StatusOr<int64_t>& records)>;
// Of the data folder, those that are there; also while the platform runs.
void CheckDatabases(const std::string& data_dir, DatabaseReport report);
// Of a backup.
void CheckCopiedDatabases(const std::string& from, const v1::BackupManifest& manifest,
                          DatabaseReport report);

// One restore: looked at first, carried out when nothing else stands in the way.
class DatabaseRestore {
 public:
  // Holds the lock of each file, in folders that exist: STORE_LOCKED while a service uses one. What
  // is there and can't be kept, being damaged, is added to `filled`. Errors: another kind's file,
  // or one of a newer program.
  static absl::StatusOr<DatabaseRestore> Open(const std::string& data_dir, const std::string& from,
                                              const v1::BackupManifest& manifest,
                                              std::vector<std::string>* filled);
  // Puts back what is to be, and says of each what became of it.
  absl::Status Run(cli::Invocation& invocation);

 private:
  struct One {
    store::SqliteFileKind kind;
    std::string path;
    std::unique_ptr<store::FileLock> lock;
    // Sound records that are there.
    int64_t kept = 0;
    // Empty: the backup has none.
    std::string copy;
    int64_t copied = 0;
  };
  std::vector<One> all_;
};

}  // namespace capstan::admin

#endif  // CAPSTAN_TOOLS_CAPSTAN_ADMIN_PLATFORM_DATABASES_H_
