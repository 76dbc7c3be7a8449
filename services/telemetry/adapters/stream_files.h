#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_STREAM_FILES_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_STREAM_FILES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/log/log.h"
#include "libs/segment_log/segment_log.h"
#include "libs/store/file_lock.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/telemetry/adapters/open_streams.h"
#include "services/telemetry/adapters/small_streams.h"
#include "services/telemetry/adapters/stream_retention.h"
#include "services/telemetry/adapters/sync_threads.h"
#include "services/telemetry/core/subscription_book.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::telemetry {

// Streams under one root, which this process owns by a lock (open_streams.h says how they lie
// there). A writer thread appends what has come together, commits what went to small Streams at
// once and syncs each other that was touched, several at the same time, before anything of it is
// answered; a reader thread reads. Calls come from the strand, answers are posted to it.
class StreamFiles {
 public:
  struct Options {
    std::string root;
    int64_t segment_bytes = int64_t{16} << 20;
    // See OpenStreams.
    int64_t small_bytes = 0;
    // Of one Stream; the audit stream is kept whole.
    int64_t keep_bytes = int64_t{1} << 30;
    absl::Duration keep_for = absl::Hours(24 * 7);
    // Streams held open.
    size_t max_open = 256;
    // Records waiting to be written; beyond, appends get RESOURCE_EXHAUSTED.
    int64_t max_waiting_bytes = int64_t{64} << 20;
  };
  // Where to read: at `offset` (0: the oldest kept), or `tail` records before the end if that is
  // not 0.
  struct Position {
    int64_t offset = 0;
    int64_t tail = 0;
  };
  struct Piece {
    // Begins with a gap record if retention has dropped what was asked for.
    std::vector<v1::Record> records;
    // Where to go on.
    int64_t next_offset = 1;
    // Behind the last record that is on disk.
    int64_t end_offset = 1;
  };
  template <typename T>
  using Done = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // STORE_LOCKED if another process has the root. `strand` and `logger` must outlive it.
  static absl::StatusOr<std::unique_ptr<StreamFiles>> Open(Options options, Strand* strand,
                                                           const log::Logger* logger);
  // Ends the group in hand; what waits gets UNAVAILABLE. Blocks.
  ~StreamFiles();

  // Answered once the records are on disk. What the producers have sent before is dropped and
  // counted. At most kMaxAppends, none to the same Stream as another.
  void Append(std::vector<StreamAppend> appends, absl::AnyInvocable<void(AppendResults)> done);
  // Records until `max_bytes` is passed. A Stream that no one has appended to is empty.
  void Read(std::string stream, Position position, int64_t max_bytes, Done<Piece> done);
  // Cheap for Streams that KeepNewest was told of, open or not.
  void FindExtent(std::string stream, Done<StreamExtent> done);
  // Drops what is older or more than is kept; by itself in the background.
  void Retain();
  // From now on the newest segment of these Streams stays whatever its age; of others no longer.
  // From any thread.
  void KeepNewest(std::set<std::string> streams);

 private:
  // Appends that came and are answered together.
  struct PendingCall {
    std::vector<StreamAppend> appends;
    absl::AnyInvocable<void(AppendResults)> done;
    int64_t bytes = 0;
  };
  StreamFiles(Options options, Strand* strand, const log::Logger* logger);

  void Fail(PendingCall call, const absl::Status& status);
  void WriteLoop();
  void ReadLoop();
  void WriteGroup(std::vector<PendingCall> group);
  // `open` becomes another where the Stream moves.
  absl::StatusOr<Appended> WriteOne(const std::string& stream, std::shared_ptr<OpenStream>& open,
                                    std::vector<v1::Record> records);
  // Payloads that are new; returns the offset of the first.
  absl::StatusOr<int64_t> WritePayloads(const std::string& stream,
                                        std::shared_ptr<OpenStream>& open,
                                        const std::vector<std::string>& payloads);
  bool FitsAmongSmall(const OpenStream& open, const std::vector<std::string>& payloads) const;
  absl::StatusOr<Piece> ReadPiece(const std::string& stream, Position position, int64_t max_bytes);
  // Nothing where the Stream has moved, or retention has come, after it was found.
  absl::StatusOr<absl::optional<Piece>> TryReadPiece(const std::string& stream, Position position,
                                                     int64_t max_bytes);
  void FindRetention();
  void DoRetentions(const std::vector<Retention>& retentions);
  // Takes away, of Streams that nobody can open meanwhile, those that are still too old.
  void DropAll(const std::vector<std::string>& streams, absl::Time keep_since);

  const Options options_;
  Strand* const strand_;
  const log::Logger* const logger_;
  std::unique_ptr<store::FileLock> lock_;

  std::unique_ptr<SmallStreams> small_;
  std::unique_ptr<OpenStreams> open_;

  absl::Mutex mutex_;
  std::deque<PendingCall> calls_ ABSL_GUARDED_BY(mutex_);
  int64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Retention> retentions_ ABSL_GUARDED_BY(mutex_);
  std::deque<absl::AnyInvocable<void(bool closing)>> reads_ ABSL_GUARDED_BY(mutex_);
  bool retaining_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;

  // The writer's.
  SyncThreads syncers_;
  std::thread writer_;
  std::thread reader_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_STREAM_FILES_H_
