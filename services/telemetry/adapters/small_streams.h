#ifndef CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SMALL_STREAMS_H_
#define CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SMALL_STREAMS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/segment_log/segment_log.h"
#include "libs/store/sqlite_connection.h"

namespace capstan::telemetry {

// Streams that are too small for files of their own, in one SQLite file. A Job has a Stream of a
// few events; as a segment log it took five inodes, and two syncs whenever something came. Here all
// that comes together, to however many Streams, is one commit with one sync.
//
// A row is what one append has brought to one Stream: frames of libs/segment_log/frame.h, of which
// each has its checksum. Offsets count from 1, as in a segment log.
//
// Its folder has one owner, who holds a lock above. Append, Remove, ReadForMove, Commit and
// GiveBackRoom are one thread's at a time, all others any thread's. Calls block on the disk.
class SmallStreams {
 public:
  struct Extent {
    // 1 where there is no row.
    int64_t next_offset = 1;
    // Of all frames.
    int64_t bytes = 0;
    // Records that can't be read any more. Their offsets are not given again.
    int64_t damaged_records = 0;
  };

  // Makes the file if it is not there. NOT_SMALL_STREAMS or SCHEMA_TOO_NEW for another's.
  static absl::StatusOr<std::unique_ptr<SmallStreams>> Open(const std::string& path);

  // Adds a row, of what comes behind offset `first - 1`. An error is told by Commit.
  void Append(const std::string& stream, int64_t first, const std::vector<std::string>& payloads,
              absl::Time now);
  // Takes all rows of a Stream away. An error is told by Commit.
  void Remove(const std::string& stream);
  // All records of a Stream, also those not yet committed, for moving it elsewhere. DATA_LOSS where
  // one is damaged.
  absl::StatusOr<std::vector<std::string>> ReadForMove(const std::string& stream);
  // Makes what was added and removed since the last time durable, and what was added readable. After
  // an error nothing of it has happened.
  absl::Status Commit();
  // Makes the file shorter by what is free in it, a bit of it at a time; not within a transaction.
  void GiveBackRoom();

  // Committed rows, each readable record to `on_record`.
  absl::StatusOr<Extent> Load(const std::string& stream,
                              absl::FunctionRef<void(absl::string_view payload)> on_record);
  // Committed records from `offset` on until `max_bytes` is passed. SEGMENT_DAMAGED as of a segment
  // log, with the row's id as the position.
  absl::StatusOr<std::vector<segment_log::SegmentLog::Entry>> Read(const std::string& stream,
                                                                   int64_t offset,
                                                                   int64_t max_bytes);
  // The Streams to which nothing was committed since then, of those whose first row is one of the
  // `limit` behind `after`, a row's id; moves `after` on, to -1 behind the last that is older.
  absl::StatusOr<std::vector<std::string>> Silent(absl::Time since, int limit, int64_t* after);
  // When a row was last committed to it; InfinitePast where there is none.
  absl::StatusOr<absl::Time> LastWrite(const std::string& stream);

 private:
  SmallStreams(std::string path, std::unique_ptr<store::SqliteConnection> writer,
               std::unique_ptr<store::SqliteConnection> reader)
      : path_(std::move(path)), writer_(std::move(writer)), reader_(std::move(reader)) {}

  // Begins a transaction where none is under way; what `written_` says.
  bool Writing();

  const std::string path_;
  // The writing thread's.
  const std::unique_ptr<store::SqliteConnection> writer_;
  bool in_transaction_ = false;
  // The first error since the last Commit.
  absl::Status written_;

  absl::Mutex mutex_;
  const std::unique_ptr<store::SqliteConnection> reader_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ADAPTERS_SMALL_STREAMS_H_
