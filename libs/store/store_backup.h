// Backup from, and restore into, a store that several processes share: etcd, and the fake in tests.
#ifndef CAPSTAN_LIBS_STORE_STORE_BACKUP_H_
#define CAPSTAN_LIBS_STORE_STORE_BACKUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/store/backup.h"
#include "libs/store/blocking_store.h"
#include "libs/store/store.h"

namespace capstan::store {

// Reads through the Store itself, pages at one revision. Not on the store's strand.
class StoreBackupSource final : public BackupSource {
 public:
  explicit StoreBackupSource(Store* store) : store_(store) {}
  absl::StatusOr<RangeResult> Range(RangeRequest request) override {
    return store_.Range(std::move(request));
  }
  int64_t incarnation() const override { return store_.incarnation(); }

 private:
  BlockingStore store_;
};

// `/capstan/<service>/store/restore`: there while a restore is under way, or was cut off.
std::string RestoreMarkKey(const std::string& service);
// `/capstan/<service>/store/incarnation`: `<incarnation> <id of the cluster, hex>`.
std::string IncarnationKey(const std::string& service);

// Fills a store that keeps its incarnation in a key, as EtcdStore does when it is given no other
// (open it with EtcdOptions::restoring). Begin puts that key anew, so that whoever opened the store
// before, a follower or a process that was away, can change nothing in it any more
// (STORE_REPLACED). It refuses with STORE_IN_USE (FAILED_PRECONDITION) while any key hangs on a
// lease, for then a replica of the service lives; and every transaction compares that nobody leads
// the service, and that no other restore has begun since. The Store must be opened anew
// afterwards, for it knows its former incarnation. Not on the store's strand.
class StoreRestoreTarget final : public RestoreTarget {
 public:
  StoreRestoreTarget(Store* store, std::string service)
      : store_(store), service_(std::move(service)) {}

  absl::StatusOr<State> Inspect() override;
  absl::Status Begin() override;
  absl::Status Write(std::vector<Put> puts) override;
  absl::Status Finish(int64_t incarnation) override;

 private:
  // Everything of the service but `store/`.
  std::vector<RangeRequest> Ranges() const;
  absl::StatusOr<KeyValue> Get(const std::string& key);
  // STORE_IN_USE, with what it says there, if a key of the service hangs on a lease.
  absl::Status CheckNobodyLives();
  absl::Status Commit(std::vector<Op> ops);

  BlockingStore store_;
  const std::string service_;
  // Revision of the mark that this restore put; 0 before it has.
  int64_t mark_ = 0;
  // Of the last transaction.
  int64_t revision_ = 0;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_STORE_BACKUP_H_
