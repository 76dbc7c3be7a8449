#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_OPEN_STREAMS_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_OPEN_STREAMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/log/log.h"
#include "libs/segment_log/segment_log.h"
#include "services/telemetry/adapters/small_streams.h"
#include "services/telemetry/core/producer_index.h"
#include "services/telemetry/core/subscription_book.h"

namespace capstan::telemetry {

// A Stream in use: rows of SmallStreams, or a segment log.
struct OpenStream {
  bool is_small() const { return log == nullptr; }
  // What there is of it on disk.
  StreamExtent Extent() const;

  // Null for a small one, forever.
  std::unique_ptr<segment_log::SegmentLog> log;
  // Of a small one: the first offset that is not committed.
  std::atomic<int64_t> committed_offset = 1;

  // Of a small one, the writer's own: behind what is written, and the bytes of that.
  int64_t next_offset = 1;
  int64_t bytes = 0;
  // It has damaged records, so that it can't move.
  bool damaged = false;
  // The writer's own.
  ProducerIndex producers;

  // OpenStreams' own. Of a log: there are rows as well, which it holds too.
  bool has_rows = false;
  int64_t last_used = 0;
};

// Which Streams are open, and where each of them is: those with few bytes together in one file,
// others as segment logs in folders of their names.
//
// A small Stream that grows moves into a log of its own and stays there. Its rows are taken away
// once the log is synced. After a crash in between both are there: the log counts if it holds all
// that the rows do, and is begun anew otherwise.
//
// Any thread may call; one of them, the writer, also makes and moves Streams, and commits `small`.
class OpenStreams {
 public:
  struct Options {
    std::string root;
    int64_t segment_bytes = 0;
    // What a Stream may have without a log of its own, checksums included; 0: nothing. The audit
    // stream always has one.
    int64_t small_bytes = 0;
    size_t max_open = 0;
  };

  // Both must outlive it.
  OpenStreams(Options options, SmallStreams* small, const log::Logger* logger);

  // Opens it if it is not open. Null, without error, if it does not exist and is not to be made;
  // only the writer makes.
  absl::StatusOr<std::shared_ptr<OpenStream>> Find(const std::string& stream, bool make);
  // The writer's: a small Stream as a synced log, which takes its place; the rows go with the next
  // commit. After an error it is what it was.
  absl::StatusOr<std::shared_ptr<OpenStream>> Move(const std::string& stream,
                                                   const OpenStream& small);
  // Is read from the disk again the next time.
  void Forget(const std::string& stream);
  // Cheap for Streams that KeepNewest was told of, open or not.
  absl::StatusOr<StreamExtent> FindExtent(const std::string& stream);

  // From now on these are not to be dropped whole.
  void KeepNewest(std::set<std::string> streams);
  std::set<std::string> kept() const;
  // The writer's: closes those that nobody uses and that are not to be kept, and calls `drop` with
  // them, while nobody can open any.
  void Drop(const std::vector<std::string>& streams,
            absl::FunctionRef<void(const std::vector<std::string>& closed)> drop);

  std::string FolderOf(const std::string& stream) const { return options_.root + "/" + stream; }

 private:
  using Open = std::map<std::string, std::shared_ptr<OpenStream>>;

  absl::StatusOr<std::shared_ptr<OpenStream>> OpenOne(const std::string& stream, bool make)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<OpenStream>> OpenLog(const std::string& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a small Stream, synced.
  absl::StatusOr<std::unique_ptr<segment_log::SegmentLog>> CopyToLog(const std::string& stream);
  // Closes those that were not used for longest until there is room.
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayBeSmall(const std::string& stream) const;

  const Options options_;
  SmallStreams* const small_;
  const log::Logger* const logger_;

  mutable absl::Mutex mutex_;
  Open open_ ABSL_GUARDED_BY(mutex_);
  int64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> keep_newest_ ABSL_GUARDED_BY(mutex_);
  // Of Streams of `keep_newest_` that are not open. Nothing changes a Stream but by opening it.
  std::map<std::string, StreamExtent> extents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_OPEN_STREAMS_H_
