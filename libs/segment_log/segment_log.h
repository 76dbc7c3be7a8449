#ifndef CAPSTAN_LIBS_SEGMENT_LOG_SEGMENT_LOG_H_
#define CAPSTAN_LIBS_SEGMENT_LOG_SEGMENT_LOG_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::segment_log {

// OUT_OF_RANGE: the offset was dropped by retention; metadata names the oldest kept.
inline constexpr char kReasonDropped[] = "OFFSET_DROPPED";
// RESOURCE_EXHAUSTED: the disk is full; nothing was appended.
inline constexpr char kReasonNoSpace[] = "NO_SPACE";
// DATA_LOSS: a frame that was synced can't be read any more, or its file is gone; metadata names
// the file, the position, and the first offset behind it that may be read (`next_offset`).
inline constexpr char kReasonDamaged[] = "SEGMENT_DAMAGED";

// An append-only log of records in a folder of its own: files `<offset of the first record>.seg` of
// frames (frame.h). Offsets count records from 1. A record counts once Sync returned OK after its
// Append; only such are read.
//
// Up to where it is synced is noted beside the segments (`synced`), after each Sync and without one
// of its own: so that what a crash tore, which nobody was told of, differs from what was synced and
// is there no more. After a power cut the note may be some seconds old, and what was synced since
// counts as torn if it is damaged.
//
// The folder belongs to one process (its owner holds a lock above). One thread at a time appends,
// syncs and drops; any thread reads. Calls block on the disk.
class SegmentLog {
 public:
  struct Options {
    // A segment that is longer gets no more records.
    int64_t segment_bytes = int64_t{32} << 20;
  };
  // What Open found.
  struct Repair {
    // Bytes of an unfinished append after the last whole frame: cut off, and kept beside the
    // segment as `<segment>.torn`.
    int64_t torn_bytes = 0;
    // Records that were synced, and can't be read any more, in the newest segment: it is left as it
    // is, their offsets are not given again, and whoever reads them gets SEGMENT_DAMAGED.
    int64_t damaged_records = 0;
  };
  struct Entry {
    int64_t offset = 0;
    std::string payload;
  };
  // What retention has taken away so far.
  struct Dropped {
    int64_t records = 0;
    int64_t bytes = 0;
  };

  // Opens or makes the log and repairs its tail. `on_header` gets the newest segment's header, if
  // it has one, then `on_record` that segment's records: what an owner needs to rebuild its own
  // state.
  static absl::StatusOr<std::unique_ptr<SegmentLog>> Open(
      const std::string& folder, Options options,
      absl::FunctionRef<void(absl::string_view header)> on_header,
      absl::FunctionRef<void(int64_t offset, absl::string_view payload)> on_record, Repair* repair);

  // The last offset that a record may have, beyond what a log ever counts to; leaves room for
  // counting on. OUT_OF_RANGE where Append would go beyond it.
  static constexpr int64_t kMaxOffset = int64_t{1} << 60;

  // Writes records; returns the offset of the first. Whenever that begins a segment, `header` is
  // asked for its header, of at most 4 MiB. After an error nothing was appended.
  absl::StatusOr<int64_t> Append(const std::vector<std::string>& payloads,
                                 absl::FunctionRef<std::string()> header);
  // Makes everything appended durable and readable. After an error, what was not synced is gone,
  // and every later Append and Sync fails.
  absl::Status Sync();

  // Synced records from `offset` on until `max_bytes` is passed; none if `offset` is the next one.
  // OFFSET_DROPPED, SEGMENT_DAMAGED.
  absl::StatusOr<std::vector<Entry>> Read(int64_t offset, int64_t max_bytes);

  // Oldest record kept, and the one that will come next: equal in an empty log.
  int64_t first_offset() const;
  int64_t next_offset() const;
  int64_t bytes() const;
  Dropped dropped() const;

  // Drops whole segments, oldest first, while the log is longer than `keep_bytes` or the segment's
  // last write is before `keep_since`. The newest segment stays.
  absl::Status Drop(int64_t keep_bytes, absl::Time keep_since);

 private:
  struct Segment {
    std::string path;
    int64_t first_offset = 0;
    // Whole frames.
    int64_t bytes = 0;
    // (offset, position) now and then, rising: where reading may begin.
    std::vector<std::pair<int64_t, int64_t>> index;
  };

  SegmentLog(std::string folder, Options options) : folder_(std::move(folder)), options_(options) {}

  absl::Status Load(absl::FunctionRef<void(absl::string_view)> on_header,
                    absl::FunctionRef<void(int64_t, absl::string_view)> on_record, Repair* repair)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if the newest segment has no whole frame, so that the one before is the newest.
  absl::StatusOr<bool> LoadNewest(absl::FunctionRef<void(absl::string_view)> on_header,
                                  absl::FunctionRef<void(int64_t, absl::string_view)> on_record,
                                  int64_t synced, Repair* repair)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RepairTail(Segment& segment, const std::string& content, int64_t good,
                          Repair* repair) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Goes on behind what was synced and is lost.
  void SealDamaged(int64_t synced, Repair* repair) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Up to which offset the log was synced, as far as is known; 0 if nothing is.
  int64_t LoadSynced() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StoreSynced() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginSegment(absl::string_view header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All of the newest segment, and that it is there. Readers go on meanwhile; nobody else appends
  // or drops.
  static absl::Status SyncSegment(int fd, const std::string& path, const std::string& new_in);
  void CutBack(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LoadDropped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StoreDropped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // First offset behind the segment.
  int64_t EndOf(size_t segment) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  const Options options_;
  mutable absl::Mutex mutex_;
  // Never empty once something was appended.
  std::deque<Segment> segments_ ABSL_GUARDED_BY(mutex_);
  // The newest segment, for appending; nothing is appended to it once it is sealed.
  UniqueFd active_ ABSL_GUARDED_BY(mutex_);
  bool sealed_ ABSL_GUARDED_BY(mutex_) = false;
  // The newest segment's name in the folder may not be synced yet: Sync does it, so that an owner
  // of many logs who syncs them together waits for all of it together.
  bool new_segment_ ABSL_GUARDED_BY(mutex_) = false;
  // The note of what is synced; invalid where there is no room even for that.
  UniqueFd synced_file_ ABSL_GUARDED_BY(mutex_);
  int64_t next_offset_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t synced_offset_ ABSL_GUARDED_BY(mutex_) = 1;
  // Of the newest segment.
  int64_t synced_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Dropped dropped_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::segment_log

#endif  // CAPSTAN_LIBS_SEGMENT_LOG_SEGMENT_LOG_H_
