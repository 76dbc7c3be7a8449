#ifndef CAPSTAN_LIBS_STORE_SQLITE_WATCHES_H_
#define CAPSTAN_LIBS_STORE_SQLITE_WATCHES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// The watches of a SqliteStore. A new watch is behind: the reader thread feeds it from history
// until it has reached what the writer has committed; from then on it is live and the writer feeds
// it. Thread-safe.
class SqliteWatches {
 public:
  // One watch. `next` belongs to whoever feeds it: the reader while it is behind, then the writer.
  struct Watcher {
    WatchRequest request;
    absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch;
    // First revision not yet sent.
    int64_t next = 0;
    bool live = false;
    // Sent and not yet taken.
    std::atomic<size_t> waiting_bytes{0};
    std::atomic<bool> ended{false};
    std::atomic<bool> cancelled{false};
  };

  SqliteWatches(Strand* strand, size_t bound_bytes) : strand_(strand), bound_bytes_(bound_bytes) {}

  // Sends `batch` to the strand, or ends the watch if it is too slow. False if it has ended.
  bool Send(const std::shared_ptr<Watcher>& watcher, WatchBatch batch);
  // Tells `why` as the last call.
  void End(const std::shared_ptr<Watcher>& watcher, absl::Status why);

  // Called by the writer after each commit, with all its events in order.
  void Committed(int64_t revision, const std::vector<WatchEvent>& events);
  // Called by the reader when it has fed the watch up to `watcher->next` - 1: true if that is all
  // there is, and the writer takes over.
  bool GoLive(const std::shared_ptr<Watcher>& watcher);
  // Revision of the newest commit that Committed was told of.
  int64_t revision() const;
  void EndAll(const absl::Status& why);

  // Also watches that are behind, so that EndAll finds them.
  void Add(const std::shared_ptr<Watcher>& watcher);

 private:
  Strand* const strand_;
  const size_t bound_bytes_;
  mutable absl::Mutex mutex_;
  int64_t revision_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<std::shared_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_SQLITE_WATCHES_H_
