#ifndef CAPSTAN_LIBS_STORE_SQLITE_STORE_H_
#define CAPSTAN_LIBS_STORE_SQLITE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// The embedded Store: one SQLite file in WAL mode, owned by one process through a lock on
// `<path>.lock`. A writer thread commits what has come together meanwhile in one SQLite transaction
// with synchronous=FULL (group commit) before anything of it is answered; a reader thread with a
// connection of its own serves ranges and lets watches catch up.
//
// After an error that leaves the file's state in doubt (a failed fsync, damage) every further call
// gets that error and the store must be opened again; a full disk is not one: what puts gets
// NO_SPACE, what deletes goes on as long as it fits.
class SqliteStore final : public Store {
 public:
  struct Options {
    // The file's size from which puts get NO_SPACE, so that deletions and compaction still have
    // room.
    int64_t quota_bytes = int64_t{8} << 30;
    // History is compacted by itself to this many revisions once it is twice as long; 0 means
    // never.
    int64_t keep_revisions = 10000;
    // A watcher that has been sent this much and not yet taken it is ended with ABORTED.
    size_t watch_bound_bytes = size_t{16} << 20;
    // Calls waiting to be committed, or to be read, beyond which they get RESOURCE_EXHAUSTED with
    // STORE_OVERLOADED and take no effect.
    size_t max_waiting = 20000;
    // Of 4 KiB each, in the write-ahead log: so many are copied into the file at a time, beside the
    // writer. One that is written again before that is copied once; more make a longer burst on the
    // disk that commits wait for.
    int checkpoint_pages = 4096;
  };

  // Opens or makes the store; its folder must exist. Blocks for the file's recovery. `strand` must
  // outlive the store. Errors: STORE_LOCKED (another process has it, named by pid), SCHEMA_TOO_NEW,
  // NOT_A_STORE, STORE_CORRUPT,
  // RESTORE_UNFINISHED (sqlite_backup.h).
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path, Strand* strand,
                                                           Options options);
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path,
                                                           Strand* strand) {
    return Open(path, strand, Options());
  }
  // Ends the transaction in hand; what waits gets STORE_CLOSED. Blocks for that; not to be called
  // from the writer or the reader, but from the strand, or after the strand has stopped.
  ~SqliteStore() override;

  void Range(RangeRequest request, Callback<RangeResult> done) override;
  void Txn(TxnRequest request, Callback<TxnResult> done) override;
  // 8,192 operations, 8 MiB: whoever waits for a busy strand between two transactions falls behind
  // later, and what comes next does not wait for seconds.
  TxnBounds txn_bounds() const override;
  std::unique_ptr<Watch> StartWatch(
      WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) override;
  void GrantLease(absl::Duration ttl, Callback<LeaseId> done) override;
  void KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) override;
  void RevokeLease(LeaseId lease, DoneCallback done) override;
  void Compact(int64_t revision, DoneCallback done) override;
  int64_t incarnation() const override;

  // Writes a consistent copy of the store as of now to `path`, which must not exist.
  void Backup(std::string path, DoneCallback done);

 private:
  class Body;
  explicit SqliteStore(std::shared_ptr<Body> body) : body_(std::move(body)) {}
  const std::shared_ptr<Body> body_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_STORE_H_
