#ifndef CAPSTAN_LIBS_STORE_SQLITE_STORE_BODY_H_
#define CAPSTAN_LIBS_STORE_SQLITE_STORE_BODY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/status/status_macros.h"
#include "libs/store/file_lock.h"
#include "libs/store/sqlite_connection.h"
#include "libs/store/sqlite_store.h"
#include "libs/store/sqlite_tables.h"
#include "libs/store/sqlite_watches.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// What the threads share. Lives as long as a task on the strand refers to it; the threads end
// before.
class SqliteStore::Body : public std::enable_shared_from_this<SqliteStore::Body> {
 public:
  // What the writer does within a transaction. `apply` returns the database's error, and may run
  // again after a roll-back; `answer` runs on the strand.
  struct Command {
    absl::AnyInvocable<absl::Status(Body&)> apply;
    absl::AnyInvocable<void(absl::Status)> answer;
    bool puts = false;
  };
  // What the reader does.
  using Reading = absl::AnyInvocable<void(Body&)>;

  Body(Strand* strand, Options options)
      : strand_(strand), options_(options), watches_(strand, options.watch_bound_bytes) {}

  absl::Status Open(const std::string& path);
  void Start();
  void Close();

  void Submit(Command command);
  void Read(Reading reading, absl::AnyInvocable<void(absl::Status)> refuse);

  // Has `watcher` read up to the newest commit, piece by piece, and then fed by the writer.
  void StartCatchUp(const std::shared_ptr<SqliteWatches::Watcher>& watcher);
  // The next piece; on the reader thread.
  void CatchUp(const std::shared_ptr<SqliteWatches::Watcher>& watcher);

  // Runs `body` in a transaction of the reader's, which fixes what it sees.
  template <typename F>
  auto InSnapshot(F body) -> decltype(body()) {
    CAPSTAN_RETURN_IF_ERROR(reader_->Execute("BEGIN"));
    auto result = body();
    absl::Status ended = reader_->Execute("COMMIT");
    if (ended.ok()) return result;
    reader_->Execute("ROLLBACK").IgnoreError();
    return ended;
  }

  // Of what is before the revision; steps follow, between commits. Within a transaction.
  absl::Status BeginCompaction(int64_t revision);

  void LeaseGranted(LeaseId lease, absl::Duration ttl);
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease);
  void LeaseDropped(LeaseId lease);

  void Post(absl::AnyInvocable<void()> task) { strand_->Post(std::move(task)); }

  Strand* const strand_;
  const Options options_;
  SqliteWatches watches_;
  int64_t incarnation_ = 0;

  // The writer's own, while it runs.
  std::unique_ptr<SqliteConnection> writer_;
  std::unique_ptr<SqliteTables> write_tables_;
  int64_t revision_ = 1;
  std::vector<WatchEvent> events_;

  // The reader's own, while it runs.
  std::unique_ptr<SqliteConnection> reader_;
  std::unique_ptr<SqliteTables> read_tables_;

  // Where compaction goes; the writer's own.
  int64_t compact_to_ = 1;
  // Next state to look at; 0 when there is nothing to do.
  int64_t compact_seq_ = 0;

 private:
  struct Lease {
    absl::Duration ttl;
    BootTime expiry;
    // The command that removes it is on its way: it cannot be kept alive any more.
    bool expiring = false;
  };

  void WriteLoop();
  void ReadLoop();
  void CheckpointLoop();
  // Commits the commands together, or one by one where they don't fit together.
  void RunGroup(std::deque<Command> group);
  absl::Status CommitTogether(std::deque<Command>& group);
  void CompactStep();
  // Of the file, without what is free in it.
  absl::StatusOr<int64_t> UsedBytes();
  bool OverQuota();
  // As the file has become.
  absl::Status SizeWriterCache();
  // The writer has committed; the log has so many pages.
  void Logged(int pages);
  // Copies what was committed during the last checkpoint, if there was one, while nobody writes: it
  // is little, and then the log begins anew.
  void FinishCheckpoint();

  void ArmExpiry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expire();
  void SubmitExpiry(LeaseId lease);

  std::unique_ptr<FileLock> lock_;
  // The checkpoints' own, while they run.
  std::unique_ptr<SqliteConnection> checkpointer_;
  std::thread write_thread_;
  std::thread read_thread_;
  std::thread checkpoint_thread_;

  absl::Mutex mutex_;
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<Reading, absl::AnyInvocable<void(absl::Status)>>> readings_
      ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Pages in the log, and how many of them were copied; a checkpoint has ended since the writer's
  // last group.
  int logged_pages_ ABSL_GUARDED_BY(mutex_) = 0;
  int copied_pages_ ABSL_GUARDED_BY(mutex_) = 0;
  bool checkpoint_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Not OK once the file's state is in doubt.
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::map<LeaseId, Lease> leases_ ABSL_GUARDED_BY(mutex_);
  Strand::TimerId expiry_timer_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_STORE_BODY_H_
