#include "services/telemetry/adapters/small_streams.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/segment_log/frame.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_schema.h"

namespace capstan::telemetry {
namespace {

using segment_log::Frame;
using segment_log::FrameKind;
using segment_log::SegmentLog;
using store::SqliteConnection;
using store::SqliteStatement;

// "CAPM".
constexpr int32_t kApplicationId = 0x4341504D;

constexpr int64_t kIncrementalVacuum = 2;

// Rows lie in the order in which they came, so that what is new, and what retention takes, is
// together.
constexpr char kCreateTable[] = R"(
CREATE TABLE pieces(
  id INTEGER PRIMARY KEY,
  stream TEXT NOT NULL,
  first INTEGER NOT NULL,
  records INTEGER NOT NULL,
  write_ns INTEGER NOT NULL,
  frames BLOB NOT NULL);
CREATE UNIQUE INDEX pieces_by_stream ON pieces(stream, first);
)";

// Calls `on_record` with each; false if these are not `records` whole ones.
bool ForEachRecord(absl::string_view frames, int64_t records,
                   absl::FunctionRef<void(absl::string_view)> on_record) {
  for (; !frames.empty(); --records) {
    const Frame frame = segment_log::ParseFrame(frames);
    if (frame.outcome != Frame::Outcome::kFrame || frame.kind != FrameKind::kRecord) return false;
    on_record(frame.payload);
    frames.remove_prefix(frame.bytes);
  }
  return records == 0;
}

bool IsWhole(absl::string_view frames, int64_t records) {
  return ForEachRecord(frames, records, [](absl::string_view) {});
}

absl::Status Damaged(const std::string& path, int64_t row, int64_t next_offset) {
  return status::Error(absl::StatusCode::kDataLoss, segment_log::kReasonDamaged,
                       absl::StrCat(path, " is damaged in row ", row,
                                    "; what is behind it begins at offset ", next_offset),
                       {{"path", path},
                        {"position", absl::StrCat(row)},
                        {"next_offset", absl::StrCat(next_offset)}});
}

absl::Status PrepareWriter(SqliteConnection* writer, const std::string& path) {
  // Kept when the last connection ends: a service that starts on a full disk has them then.
  int keep = 1;
  const int rc = sqlite3_file_control(writer->raw(), "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  if (rc != SQLITE_OK) return store::SqliteError(writer->raw(), rc, path);
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t vacuum, writer->Number("PRAGMA auto_vacuum"));
  // Writes, even where it changes nothing, and the disk may be full.
  if (vacuum != kIncrementalVacuum) {
    CAPSTAN_RETURN_IF_ERROR(writer->Execute("PRAGMA auto_vacuum = INCREMENTAL"));
  }
  CAPSTAN_RETURN_IF_ERROR(writer->Execute("PRAGMA journal_mode = WAL"));
  CAPSTAN_RETURN_IF_ERROR(writer->Execute("PRAGMA synchronous = FULL"));
  store::SqliteSchema schema;
  schema.file = path;
  schema.kind = "one of small Streams";
  schema.foreign_reason = "NOT_SMALL_STREAMS";
  schema.application_id = kApplicationId;
  schema.steps = {[](SqliteConnection* connection) { return connection->Execute(kCreateTable); }};
  return store::PrepareSqliteSchema(writer, schema);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SmallStreams>> SmallStreams::Open(const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(auto writer, SqliteConnection::Open(path, true, true));
  CAPSTAN_RETURN_IF_ERROR(PrepareWriter(writer.get(), path));
  CAPSTAN_ASSIGN_OR_RETURN(auto reader, SqliteConnection::Open(path, false, false));
  return std::unique_ptr<SmallStreams>(
      new SmallStreams(path, std::move(writer), std::move(reader)));
}

bool SmallStreams::Writing() {
  if (written_.ok() && !in_transaction_) {
    written_ = writer_->Execute("BEGIN IMMEDIATE");
    in_transaction_ = written_.ok();
  }
  return written_.ok();
}

void SmallStreams::Append(const std::string& stream, int64_t first,
                          const std::vector<std::string>& payloads, absl::Time now) {
  if (!Writing()) return;
  std::string frames;
  for (const std::string& payload : payloads) {
    segment_log::AppendFrame(FrameKind::kRecord, payload, &frames);
  }
  written_ = writer_
                 ->Query(
                     "INSERT INTO pieces(stream, first, records, write_ns, frames)"
                     " VALUES (?, ?, ?, ?, ?)")
                 .BindText(stream)
                 .Bind(first)
                 .Bind(static_cast<int64_t>(payloads.size()))
                 .Bind(absl::ToUnixNanos(now))
                 .BindBlob(frames)
                 .Run();
}

void SmallStreams::Remove(const std::string& stream) {
  if (!Writing()) return;
  written_ = writer_->Query("DELETE FROM pieces WHERE stream = ?").BindText(stream).Run();
}

absl::StatusOr<std::vector<std::string>> SmallStreams::ReadForMove(const std::string& stream) {
  std::vector<std::string> payloads;
  SqliteStatement row = writer_->Query(
      "SELECT id, first, records, frames FROM pieces WHERE stream = ? ORDER BY first");
  row.BindText(stream);
  while (row.Next()) {
    const bool whole = ForEachRecord(row.Blob(3), row.Int(2), [&](absl::string_view payload) {
      payloads.emplace_back(payload);
    });
    if (!whole) return Damaged(path_, row.Int(0), row.Int(1) + row.Int(2));
  }
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return payloads;
}

absl::Status SmallStreams::Commit() {
  if (written_.ok() && in_transaction_) written_ = writer_->Execute("COMMIT");
  // Of some errors SQLite itself has rolled it back already.
  if (!written_.ok()) writer_->Execute("ROLLBACK").IgnoreError();
  in_transaction_ = false;
  return std::exchange(written_, absl::OkStatus());
}

void SmallStreams::GiveBackRoom() {
  // A bit of room that stays is no harm.
  writer_->Execute("PRAGMA incremental_vacuum(256)").IgnoreError();
}

absl::StatusOr<SmallStreams::Extent> SmallStreams::Load(
    const std::string& stream, absl::FunctionRef<void(absl::string_view payload)> on_record) {
  Extent extent;
  absl::MutexLock lock(&mutex_);
  SqliteStatement row =
      reader_->Query("SELECT first, records, frames FROM pieces WHERE stream = ? ORDER BY first");
  row.BindText(stream);
  while (row.Next()) {
    const std::string frames = row.Blob(2);
    extent.next_offset = row.Int(0) + row.Int(1);
    extent.bytes += static_cast<int64_t>(frames.size());
    if (IsWhole(frames, row.Int(1))) {
      ForEachRecord(frames, row.Int(1), on_record);
    } else {
      extent.damaged_records += row.Int(1);
    }
  }
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return extent;
}

absl::StatusOr<std::vector<SegmentLog::Entry>> SmallStreams::Read(const std::string& stream,
                                                                  int64_t offset,
                                                                  int64_t max_bytes) {
  std::vector<SegmentLog::Entry> entries;
  int64_t bytes = 0;
  absl::MutexLock lock(&mutex_);
  SqliteStatement row = reader_->Query(
      "SELECT id, first, records, frames FROM pieces"
      " WHERE stream = ? AND first + records > ? ORDER BY first");
  row.BindText(stream).Bind(offset);
  while (bytes < max_bytes && row.Next()) {
    const std::string frames = row.Blob(3);
    if (!IsWhole(frames, row.Int(2))) {
      // Those before it first.
      if (!entries.empty()) return entries;
      return Damaged(path_, row.Int(0), row.Int(1) + row.Int(2));
    }
    int64_t at = row.Int(1);
    ForEachRecord(frames, row.Int(2), [&](absl::string_view payload) {
      if (at >= offset && bytes < max_bytes) {
        entries.push_back({at, std::string(payload)});
        bytes += static_cast<int64_t>(payload.size());
      }
      ++at;
    });
  }
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return entries;
}

absl::StatusOr<std::vector<std::string>> SmallStreams::Silent(absl::Time since, int limit,
                                                              int64_t* after) {
  std::vector<std::string> silent;
  const int64_t bound = absl::ToUnixNanos(since);
  absl::MutexLock lock(&mutex_);
  SqliteStatement row = reader_->Query(
      "SELECT id, stream, first, write_ns, (SELECT write_ns FROM pieces AS others"
      " WHERE others.stream = pieces.stream ORDER BY first DESC LIMIT 1)"
      " FROM pieces WHERE id > ? ORDER BY id LIMIT ?");
  row.Bind(*after).Bind(limit);
  bool more = false;
  for (int rows = 0; row.Next(); ++rows) {
    // Rows are in the order in which they came.
    if (row.Int(3) >= bound) break;
    *after = row.Int(0);
    more = rows + 1 == limit;
    if (row.Int(2) == 1 && row.Int(4) < bound) silent.push_back(row.Blob(1));
  }
  CAPSTAN_RETURN_IF_ERROR(row.status());
  if (!more) *after = -1;
  return silent;
}

absl::StatusOr<absl::Time> SmallStreams::LastWrite(const std::string& stream) {
  absl::MutexLock lock(&mutex_);
  SqliteStatement row =
      reader_->Query("SELECT write_ns FROM pieces WHERE stream = ? ORDER BY first DESC LIMIT 1");
  row.BindText(stream);
  absl::Time last = absl::InfinitePast();
  if (row.Next()) last = absl::FromUnixNanos(row.Int(0));
  CAPSTAN_RETURN_IF_ERROR(row.status());
  return last;
}

}  // namespace capstan::telemetry
