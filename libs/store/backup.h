// Backup and restore of a service's store, whatever its adapter. Blocking; for commands, not for
// services. The file is that of backup_file.h.
//
// What a restored store is: the keys and values below `/capstan/<service>/v<schema>/` as of one
// revision. Keys on a lease (leadership) stay out. Revisions, versions and leases begin anew, under
// an incarnation above all that were before: max(the highest known + 1, Unix seconds). Fencing
// tokens compare the incarnation first, so every older one is refused whatever its leader epoch.
#ifndef CAPSTAN_LIBS_STORE_BACKUP_H_
#define CAPSTAN_LIBS_STORE_BACKUP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/store/backup.pb.h"
#include "libs/store/store.h"

namespace capstan::store {

// What a backup is read from.
class BackupSource {
 public:
  virtual ~BackupSource() = default;
  // As Store::Range.
  virtual absl::StatusOr<RangeResult> Range(RangeRequest request) = 0;
  virtual int64_t incarnation() const = 0;
};

// How far it is; called now and then, on the caller's thread.
using BackupProgress = std::function<void(int64_t records, int64_t bytes)>;

// Gives every record of the service's keys, in their order, as of one revision, which is returned;
// pages of at most some 4 MiB (or one record) are held at a time. If the revision is compacted away
// meanwhile: OUT_OF_RANGE with COMPACTED. FAILED_PRECONDITION with SCHEMA_TOO_NEW if the store has
// keys of another schema.
absl::StatusOr<int64_t> ForEachRecord(
    BackupSource* source, const std::string& service, int schema,
    absl::FunctionRef<absl::Status(int64_t revision, const KeyValue&)> take);

struct BackupOptions {
  // As in the keys, e.g. `scheduler`.
  std::string service{};
  int schema = 1;
  // Where the file goes; there must be none.
  std::string path{};
  absl::Time now{};
  BackupProgress progress = nullptr;
  // Of reading from the start, if history is compacted faster than it is read.
  int attempts = 5;
};

// The store may be in use meanwhile. Either the whole file is at `path` and on disk, or nothing.
absl::StatusOr<backup::v1::BackupHeader> WriteBackup(BackupSource* source,
                                                     const BackupOptions& options);

// The store that a restore fills. Until Finish it is marked, so that no service takes it for one:
// opening it fails with RESTORE_UNFINISHED, also after a crash at any point.
class RestoreTarget {
 public:
  struct State {
    // Nothing of a service is in it.
    bool empty = true;
    // A former restore did not come to its end.
    bool unfinished = false;
    // 0 if there was no store, or one that can't say.
    int64_t incarnation = 0;
  };

  virtual ~RestoreTarget() = default;
  virtual absl::StatusOr<State> Inspect() = 0;
  // Marks it, durably; then makes it empty.
  virtual absl::Status Begin() = 0;
  virtual absl::Status Write(std::vector<Put> puts) = 0;
  // Stores the incarnation and takes the mark away in one step, durably.
  virtual absl::Status Finish(int64_t incarnation) = 0;
};

// FAILED_PRECONDITION: a restore was begun and not finished; do it again.
inline constexpr char kReasonRestoreUnfinished[] = "RESTORE_UNFINISHED";
// FAILED_PRECONDITION: the store is not empty, and no one said `force`.
inline constexpr char kReasonStoreNotEmpty[] = "STORE_NOT_EMPTY";
// FAILED_PRECONDITION: the file is of another service.
inline constexpr char kReasonForeignBackup[] = "FOREIGN_BACKUP";

struct RestoreOptions {
  std::string path{};
  // Which the file must be of, in a schema up to this.
  std::string service{};
  int schema = 1;
  // Replace what is there.
  bool force = false;
  absl::Time now{};
  // Changes a record on its way, the key too; keys must stay unique. See
  // libs/event_shipper/restored_event.h.
  std::function<void(const backup::v1::BackupHeader& header, std::string* key, std::string* value)>
      rewrite = nullptr;
  BackupProgress progress = nullptr;
};

struct RestoreResult {
  backup::v1::BackupHeader header;
  int64_t incarnation = 0;
};

// Verifies the whole file, then fills the target from it. Nothing is touched unless the file is
// whole, of the service and known, and the target empty (or `force`d, or left by a restore that was
// cut off).
absl::StatusOr<RestoreResult> RestoreBackup(RestoreTarget* target, const RestoreOptions& options);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_BACKUP_H_
