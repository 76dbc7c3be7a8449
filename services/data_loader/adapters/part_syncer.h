#ifndef CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PART_SYNCER_H_
#define CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PART_SYNCER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "libs/content/part_journal.h"
#include "services/data_loader/adapters/staged_file.h"

namespace capstan::data_loader {

// A part whose bytes are written, not durable.
struct CopiedPart {
  content::PartJournal::PartKey key;
  int64_t size = 0;
  std::shared_ptr<const StagedFile> file;
};

// Makes parts durable and notes them in the journal, in this order, on a thread of its own: while
// one group is synced the next is copied. A group is what has come meanwhile, so a part that comes
// alone is synced at once and a slow disk gets few large syncs; what may come meanwhile is bounded,
// and with it what a crash makes a load fetch again. Thread-safe.
class PartSyncer {
 public:
  // Beyond which nobody should begin another part.
  struct Limits {
    int64_t unsynced_bytes = 64 << 20;
    // Their files are held open.
    size_t unsynced_parts = 256;
  };

  // `noted` is told on the syncer's thread, once a group is in the journal, how many bytes it has.
  // `journal` must outlive the syncer.
  PartSyncer(content::PartJournal* journal, Limits limits,
             absl::AnyInvocable<void(int64_t bytes)> noted);
  // Parts that are not synced by then may stay so; see Finish.
  ~PartSyncer();
  PartSyncer(const PartSyncer&) = delete;
  PartSyncer& operator=(const PartSyncer&) = delete;

  // Blocks until a part may begin. Why nothing can be synced any more, if so.
  absl::Status AwaitRoom();
  void Add(CopiedPart part);
  // Everything that was added is durable and noted, or why it is not. Nothing is added afterwards.
  absl::Status Finish();

 private:
  void Loop();
  absl::Status Sync(const std::vector<CopiedPart>& group);

  content::PartJournal* const journal_;
  const Limits limits_;
  absl::AnyInvocable<void(int64_t)> noted_;
  absl::Mutex mutex_;
  std::vector<CopiedPart> copied_ ABSL_GUARDED_BY(mutex_);
  // With the group that is being synced.
  int64_t unsynced_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t unsynced_parts_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_ADAPTERS_PART_SYNCER_H_
