#include "services/telemetry/adapters/stream_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/segment_log/frame.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::telemetry {
namespace {

namespace fs = ::std::filesystem;

// Appends that are written before any is synced. A call fits; and each may be to a Stream of its
// own, which is two open files.
constexpr size_t kMaxGroup = kMaxAppends;
constexpr size_t kMaxReads = 10000;
// Streams that are synced at the same time, beside the writer's own. More bring next to nothing on
// a disk that carries out one flush after the other.
constexpr int kSyncers = 7;
// Of a record, beside its payload.
constexpr size_t kFrameBytes = segment_log::kFramePrefix + 1;
// Of a piece: a Stream moves once, and retention is not as quick as a reader.
constexpr int kReadTries = 10;
// Streams that retention looks at between two groups of appends.
constexpr size_t kMaxRetentions = 64;

absl::Status ClosingError() { return absl::UnavailableError("telemetry is stopping"); }

absl::Status BusyError(const char* what) {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kResourceExhausted, "TELEMETRY_BUSY", what),
      absl::Milliseconds(200));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamFiles>> StreamFiles::Open(Options options, Strand* strand,
                                                               const log::Logger* logger) {
  std::error_code error;
  fs::create_directories(options.root, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("making ", options.root));
  auto files = std::unique_ptr<StreamFiles>(new StreamFiles(std::move(options), strand, logger));
  CAPSTAN_ASSIGN_OR_RETURN(files->lock_, store::FileLock::Acquire(files->options_.root + "/.lock"));
  CAPSTAN_ASSIGN_OR_RETURN(files->small_,
                           SmallStreams::Open(files->options_.root + "/small.sqlite"));
  files->open_ = std::make_unique<OpenStreams>(
      OpenStreams::Options{.root = files->options_.root,
                           .segment_bytes = files->options_.segment_bytes,
                           .small_bytes = files->options_.small_bytes,
                           .max_open = files->options_.max_open},
      files->small_.get(), logger);
  files->writer_ = std::thread([raw = files.get()] { raw->WriteLoop(); });
  files->reader_ = std::thread([raw = files.get()] { raw->ReadLoop(); });
  return files;
}

StreamFiles::StreamFiles(Options options, Strand* strand, const log::Logger* logger)
    : options_(std::move(options)), strand_(strand), logger_(logger), syncers_(kSyncers) {}

StreamFiles::~StreamFiles() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
}

void StreamFiles::Append(std::vector<StreamAppend> appends,
                         absl::AnyInvocable<void(AppendResults)> done) {
  PendingCall call{std::move(appends), std::move(done)};
  for (const StreamAppend& append : call.appends) {
    for (const v1::Record& record : append.records) {
      call.bytes += static_cast<int64_t>(record.ByteSizeLong());
    }
  }
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_) {
      refusal = ClosingError();
    } else if (waiting_bytes_ > options_.max_waiting_bytes) {
      refusal = BusyError("too many records wait for the disk");
    } else {
      waiting_bytes_ += call.bytes;
      calls_.push_back(std::move(call));
      return;
    }
  }
  Fail(std::move(call), refusal);
}

void StreamFiles::Fail(PendingCall call, const absl::Status& status) {
  strand_->Post([call = std::move(call), status]() mutable {
    call.done(AppendResults(call.appends.size(), status));
  });
}

void StreamFiles::Read(std::string stream, Position position, int64_t max_bytes, Done<Piece> done) {
  auto shared = std::make_shared<Done<Piece>>(std::move(done));
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_) {
      refusal = ClosingError();
    } else if (reads_.size() >= kMaxReads) {
      refusal = BusyError("too many readers wait for the disk");
    } else {
      reads_.push_back(
          [this, stream = std::move(stream), position, max_bytes, shared](bool closing) {
            absl::StatusOr<Piece> piece = closing ? absl::StatusOr<Piece>(ClosingError())
                                                  : ReadPiece(stream, position, max_bytes);
            strand_->Post(
                [shared, piece = std::move(piece)]() mutable { (*shared)(std::move(piece)); });
          });
      return;
    }
  }
  strand_->Post([shared, refusal] { (*shared)(refusal); });
}

void StreamFiles::FindExtent(std::string stream, Done<StreamExtent> done) {
  auto shared = std::make_shared<Done<StreamExtent>>(std::move(done));
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_) {
      refusal = ClosingError();
    } else if (reads_.size() >= kMaxReads) {
      refusal = BusyError("too many readers wait for the disk");
    } else {
      reads_.push_back([this, stream = std::move(stream), shared](bool closing) {
        absl::StatusOr<StreamExtent> extent =
            closing ? absl::StatusOr<StreamExtent>(ClosingError()) : open_->FindExtent(stream);
        strand_->Post([shared, extent = std::move(extent)] { (*shared)(extent); });
      });
      return;
    }
  }
  strand_->Post([shared, refusal] { (*shared)(refusal); });
}

void StreamFiles::KeepNewest(std::set<std::string> streams) {
  open_->KeepNewest(std::move(streams));
}

void StreamFiles::Retain() {
  absl::MutexLock lock(&mutex_);
  if (closing_ || retaining_) return;
  retaining_ = true;
  reads_.push_back([this](bool closing) {
    if (!closing) FindRetention();
    absl::MutexLock done(&mutex_);
    retaining_ = false;
  });
}

void StreamFiles::WriteLoop() {
  while (true) {
    std::vector<PendingCall> group;
    std::vector<Retention> retentions;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || !calls_.empty() || !retentions_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (closing_) {
        for (PendingCall& call : calls_) Fail(std::move(call), ClosingError());
        calls_.clear();
        return;
      }
      size_t appends = 0;
      while (!calls_.empty() &&
             (group.empty() || appends + calls_.front().appends.size() <= kMaxGroup)) {
        appends += calls_.front().appends.size();
        waiting_bytes_ -= calls_.front().bytes;
        group.push_back(std::move(calls_.front()));
        calls_.pop_front();
      }
      const auto end = retentions_.begin() +
                       static_cast<std::ptrdiff_t>(std::min(retentions_.size(), kMaxRetentions));
      retentions.assign(retentions_.begin(), end);
      retentions_.erase(retentions_.begin(), end);
    }
    if (!group.empty()) WriteGroup(std::move(group));
    if (!retentions.empty()) DoRetentions(retentions);
  }
}

void StreamFiles::WriteGroup(std::vector<PendingCall> group) {
  struct Answer {
    absl::AnyInvocable<void(AppendResults)> done;
    AppendResults results;
  };
  struct Touched {
    std::shared_ptr<OpenStream> open;
    // By answer and result.
    std::vector<std::pair<size_t, size_t>> appends;
    absl::Status synced = absl::OkStatus();
  };
  auto answers = std::make_shared<std::vector<Answer>>();
  std::map<std::string, Touched> touched;
  for (PendingCall& call : group) {
    Answer answer;
    for (StreamAppend& append : call.appends) {
      auto found = open_->Find(append.stream, /*make=*/true);
      if (!found.ok()) {
        answer.results.push_back(found.status());
        continue;
      }
      Touched& stream = touched[append.stream];
      stream.open = *std::move(found);
      stream.appends.emplace_back(answers->size(), answer.results.size());
      answer.results.push_back(WriteOne(append.stream, stream.open, std::move(append.records)));
    }
    answer.done = std::move(call.done);
    answers->push_back(std::move(answer));
  }
  CrashPoint(crash::kTelemetryWritten);
  std::vector<Touched*> syncing;
  for (auto& [name, stream] : touched) {
    if (!stream.open->is_small()) syncing.push_back(&stream);
  }
  absl::Status committed;
  syncers_.Run(syncing.size() + 1, [&](size_t i) {
    if (i == 0) {
      committed = small_->Commit();
    } else {
      syncing[i - 1]->synced = syncing[i - 1]->open->log->Sync();
    }
  });
  for (auto& [name, stream] : touched) {
    if (stream.open->is_small()) {
      stream.synced = committed;
      if (committed.ok()) stream.open->committed_offset = stream.open->next_offset;
    }
    if (stream.synced.ok()) continue;
    logger_->Error("a stream can't be written", {{"stream", name}, {"error", stream.synced}});
    // What its producers are believed to have sent is not there: it is read again from the disk.
    open_->Forget(name);
    for (const auto& [answer, result] : stream.appends) {
      (*answers)[answer].results[result] = stream.synced;
    }
  }
  CrashPoint(crash::kTelemetrySynced);
  strand_->Post([answers] {
    for (Answer& answer : *answers) answer.done(std::move(answer.results));
  });
}

bool StreamFiles::FitsAmongSmall(const OpenStream& open,
                                 const std::vector<std::string>& payloads) const {
  int64_t bytes = open.bytes;
  for (const std::string& payload : payloads) {
    bytes += static_cast<int64_t>(payload.size() + kFrameBytes);
  }
  return bytes <= options_.small_bytes;
}

absl::StatusOr<int64_t> StreamFiles::WritePayloads(const std::string& stream,
                                                   std::shared_ptr<OpenStream>& open,
                                                   const std::vector<std::string>& payloads) {
  if (open->is_small() && !open->damaged && !FitsAmongSmall(*open, payloads)) {
    CAPSTAN_ASSIGN_OR_RETURN(open, open_->Move(stream, *open));
  }
  if (!open->is_small()) {
    return open->log->Append(payloads,
                             [&] { return open->producers.ToHeader().SerializeAsString(); });
  }
  small_->Append(stream, open->next_offset, payloads, strand_->clock().Read().wall);
  for (const std::string& payload : payloads) {
    open->bytes += static_cast<int64_t>(payload.size() + kFrameBytes);
  }
  return std::exchange(open->next_offset,
                       open->next_offset + static_cast<int64_t>(payloads.size()));
}

absl::StatusOr<Appended> StreamFiles::WriteOne(const std::string& stream,
                                               std::shared_ptr<OpenStream>& open,
                                               std::vector<v1::Record> records) {
  Appended appended;
  std::vector<std::string> payloads;
  std::vector<const v1::Record*> fresh;
  std::map<std::pair<std::string, std::string>, int64_t> in_call;
  for (v1::Record& record : records) {
    int64_t& highest = in_call[{record.producer(), record.key()}];
    if (record.producer_sequence() <= highest ||
        !open->producers.IsNew(record.producer(), record.key(), record.producer_sequence())) {
      ++appended.duplicates;
      continue;
    }
    highest = record.producer_sequence();
    // Its place says it.
    record.clear_offset();
    payloads.push_back(record.SerializeAsString());
    fresh.push_back(&record);
  }
  if (payloads.empty()) {
    appended.last_offset = open->Extent().next - 1;
    return appended;
  }
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t first, WritePayloads(stream, open, payloads));
  for (const v1::Record* record : fresh) {
    open->producers.Advance(record->producer(), record->key(), record->producer_sequence());
  }
  appended.last_offset = first + static_cast<int64_t>(payloads.size()) - 1;
  return appended;
}

void StreamFiles::ReadLoop() {
  while (true) {
    absl::AnyInvocable<void(bool)> read;
    bool closing = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || !reads_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      closing = closing_;
      if (reads_.empty()) return;
      read = std::move(reads_.front());
      reads_.pop_front();
    }
    read(closing);
  }
}

absl::StatusOr<StreamFiles::Piece> StreamFiles::ReadPiece(const std::string& stream,
                                                          Position position, int64_t max_bytes) {
  for (int tries = 0; tries < kReadTries; ++tries) {
    CAPSTAN_ASSIGN_OR_RETURN(absl::optional<Piece> piece,
                             TryReadPiece(stream, position, max_bytes));
    if (piece.has_value()) return *std::move(piece);
  }
  return BusyError("the Stream changes while it is read");
}

absl::StatusOr<absl::optional<StreamFiles::Piece>> StreamFiles::TryReadPiece(
    const std::string& stream, Position position, int64_t max_bytes) {
  Piece piece;
  CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<OpenStream> open,
                           open_->Find(stream, /*make=*/false));
  if (open == nullptr) {
    piece.next_offset = std::max<int64_t>(1, position.offset);
    return piece;
  }
  const StreamExtent extent = open->Extent();
  const int64_t end = extent.next;
  int64_t from = std::max<int64_t>(1, position.offset);
  if (position.tail > 0) from = std::max(extent.first, end - position.tail);
  const segment_log::SegmentLog::Dropped dropped =
      open->is_small() ? segment_log::SegmentLog::Dropped() : open->log->dropped();
  if (from <= dropped.records) {
    // How many bytes only part of the dropped records had is not known.
    piece.records.push_back(GapRecordBefore(dropped.records + 1, dropped.records - from + 1,
                                            from == 1 ? dropped.bytes : 0));
    from = dropped.records + 1;
  }
  const auto entries =
      open->is_small() ? small_->Read(stream, from, max_bytes) : open->log->Read(from, max_bytes);
  if (status::Reason(entries.status()) == segment_log::kReasonDropped) return absl::nullopt;
  CAPSTAN_RETURN_IF_ERROR(entries.status());
  // Its rows are gone: it has moved.
  if (open->is_small() && entries->empty() && from < end) return absl::nullopt;
  for (const segment_log::SegmentLog::Entry& entry : *entries) {
    v1::Record record;
    if (!record.ParseFromString(entry.payload)) {
      return status::Error(
          absl::StatusCode::kDataLoss, "STREAM_DAMAGED",
          absl::StrCat("record ", entry.offset, " of ", stream, " can't be parsed"));
    }
    record.set_offset(entry.offset);
    piece.records.push_back(std::move(record));
    from = entry.offset + 1;
  }
  piece.next_offset = from;
  piece.end_offset = std::max(end, from);
  return piece;
}

void StreamFiles::FindRetention() {
  const RetentionRules rules = {.keep_bytes = options_.keep_bytes,
                                .keep_since = strand_->clock().Read().wall - options_.keep_for,
                                .keep_newest = open_->kept()};
  const auto found = [this](const Retention& retention) {
    absl::MutexLock lock(&mutex_);
    retentions_.push_back(retention);
    return !closing_;
  };
  FindOldLogs(options_.root, rules, found);
  const absl::Status silent = FindSilentStreams(small_.get(), rules, found);
  if (!silent.ok()) logger_->Warning("retention failed", {{"error", silent}});
}

void StreamFiles::DoRetentions(const std::vector<Retention>& retentions) {
  const absl::Time keep_since = strand_->clock().Read().wall - options_.keep_for;
  std::vector<std::string> whole;
  for (const Retention& retention : retentions) {
    if (retention.whole) {
      whole.push_back(retention.stream);
      continue;
    }
    auto open = open_->Find(retention.stream, /*make=*/false);
    absl::Status dropped = open.status();
    if (open.ok() && *open != nullptr && !(*open)->is_small()) {
      dropped = (*open)->log->Drop(options_.keep_bytes, keep_since);
    }
    if (!dropped.ok()) {
      logger_->Warning("retention failed", {{"stream", retention.stream}, {"error", dropped}});
    }
  }
  if (whole.empty()) return;
  // Nobody opens any meanwhile. Those that somebody reads are left for the next time.
  open_->Drop(whole, [&](const std::vector<std::string>& closed) { DropAll(closed, keep_since); });
}

void StreamFiles::DropAll(const std::vector<std::string>& streams, absl::Time keep_since) {
  std::vector<std::string> old;
  for (const std::string& stream : streams) {
    // It may have got something since it was found to be old.
    const absl::StatusOr<absl::Time> row = small_->LastWrite(stream);
    if (row.ok() && *row < keep_since && NewestSegment(open_->FolderOf(stream)) < keep_since) {
      old.push_back(stream);
    }
  }
  // A log that counts must not go before rows that would count then.
  for (const std::string& stream : old) small_->Remove(stream);
  const absl::Status removed = small_->Commit();
  if (!removed.ok()) {
    logger_->Warning("retention failed", {{"streams", old.size()}, {"error", removed}});
    return;
  }
  small_->GiveBackRoom();
  for (const std::string& stream : old) {
    RemoveLog(options_.root, open_->FolderOf(stream));
    logger_->Info("dropped a stream by age", {{"stream", stream}});
  }
}

}  // namespace capstan::telemetry
