#include "services/telemetry/adapters/stream_files.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
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

absl::Status ClosingError() { return absl::UnavailableError("telemetry is stopping"); }

absl::Status BusyError(const char* what) {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kResourceExhausted, "TELEMETRY_BUSY", what),
      absl::Milliseconds(200));
}

struct Folder {
  int64_t bytes = 0;
  absl::Time oldest = absl::InfiniteFuture();
  absl::Time newest = absl::InfinitePast();
  int segments = 0;
};

absl::Time TimeOf(const fs::directory_entry& entry) {
  std::error_code error;
  const auto time = entry.last_write_time(error);
  if (error) return absl::InfiniteFuture();
  return absl::FromChrono(std::chrono::file_clock::to_sys(time));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamFiles>> StreamFiles::Open(Options options, Strand* strand,
                                                               const log::Logger* logger) {
  std::error_code error;
  fs::create_directories(options.root, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("making ", options.root));
  auto files = std::unique_ptr<StreamFiles>(new StreamFiles(std::move(options), strand, logger));
  CAPSTAN_ASSIGN_OR_RETURN(files->lock_, store::FileLock::Acquire(files->options_.root + "/.lock"));
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
            closing ? absl::StatusOr<StreamExtent>(ClosingError()) : ExtentOf(stream);
        strand_->Post([shared, extent = std::move(extent)] { (*shared)(extent); });
      });
      return;
    }
  }
  strand_->Post([shared, refusal] { (*shared)(refusal); });
}

absl::StatusOr<StreamExtent> StreamFiles::ExtentOf(const std::string& stream) {
  {
    absl::MutexLock lock(&open_mutex_);
    const auto it = extents_.find(stream);
    if (it != extents_.end()) return it->second;
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<OpenStream> open, Find(stream, /*make=*/false));
  if (open == nullptr) return StreamExtent();
  // In this order: a drop in between must not put the beginning behind the end.
  const int64_t next = open->log->next_offset();
  return StreamExtent{std::min(open->log->first_offset(), next), next};
}

void StreamFiles::KeepNewest(std::set<std::string> streams) {
  absl::MutexLock lock(&open_mutex_);
  keep_newest_ = std::move(streams);
  for (auto it = extents_.begin(); it != extents_.end();) {
    it = keep_newest_.count(it->first) > 0 ? std::next(it) : extents_.erase(it);
  }
}

void StreamFiles::Close(std::map<std::string, std::shared_ptr<OpenStream>>::iterator open) {
  if (keep_newest_.count(open->first) > 0) {
    const segment_log::SegmentLog& log = *open->second->log;
    extents_[open->first] = {log.first_offset(), log.next_offset()};
  }
  open_.erase(open);
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

absl::StatusOr<std::shared_ptr<StreamFiles::OpenStream>> StreamFiles::Find(
    const std::string& stream, bool make) {
  absl::MutexLock lock(&open_mutex_);
  const auto it = open_.find(stream);
  if (it != open_.end()) {
    it->second->last_used = ++uses_;
    return it->second;
  }
  std::error_code error;
  if (!make && !fs::exists(FolderOf(stream), error)) return std::shared_ptr<OpenStream>();
  while (open_.size() >= options_.max_open) {
    auto oldest = open_.end();
    for (auto candidate = open_.begin(); candidate != open_.end(); ++candidate) {
      // One that a thread works with stays.
      if (candidate->second.use_count() > 1) continue;
      if (oldest == open_.end() || candidate->second->last_used < oldest->second->last_used) {
        oldest = candidate;
      }
    }
    if (oldest == open_.end()) break;
    Close(oldest);
  }
  auto opened = std::make_shared<OpenStream>();
  bool readable = true;
  segment_log::SegmentLog::Repair repair;
  CAPSTAN_ASSIGN_OR_RETURN(
      opened->log,
      segment_log::SegmentLog::Open(
          FolderOf(stream), {.segment_bytes = options_.segment_bytes},
          [&](absl::string_view bytes) {
            core::StreamHeader header;
            readable &= header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
            opened->producers.Load(header);
          },
          [&](int64_t, absl::string_view bytes) {
            v1::Record record;
            readable &= record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
            opened->producers.Advance(record.producer(), record.key(), record.producer_sequence());
          },
          &repair));
  if (repair.torn_bytes > 0) {
    logger_->Warning("cut an unfinished append off a stream",
                     {{"stream", stream}, {"bytes", repair.torn_bytes}});
  }
  if (repair.damaged_records > 0) {
    logger_->Error("records that were on disk can't be read any more",
                   {{"stream", stream}, {"records", repair.damaged_records}});
  }
  if (!readable) {
    return status::Error(absl::StatusCode::kDataLoss, "STREAM_DAMAGED",
                         absl::StrCat("records of ", stream, " can't be parsed"));
  }
  opened->last_used = ++uses_;
  extents_.erase(stream);
  open_[stream] = opened;
  return opened;
}

void StreamFiles::Forget(const std::string& stream) {
  absl::MutexLock lock(&open_mutex_);
  open_.erase(stream);
}

void StreamFiles::WriteLoop() {
  while (true) {
    std::vector<PendingCall> group;
    std::deque<Retention> retentions;
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
      retentions.swap(retentions_);
    }
    if (!group.empty()) WriteGroup(std::move(group));
    for (const Retention& retention : retentions) DoRetention(retention);
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
      auto found = Find(append.stream, /*make=*/true);
      if (!found.ok()) {
        answer.results.push_back(found.status());
        continue;
      }
      Touched& stream = touched[append.stream];
      stream.open = *found;
      stream.appends.emplace_back(answers->size(), answer.results.size());
      answer.results.push_back(WriteOne(**found, std::move(append.records)));
    }
    answer.done = std::move(call.done);
    answers->push_back(std::move(answer));
  }
  CrashPoint(crash::kTelemetryWritten);
  std::vector<Touched*> syncing;
  for (auto& [name, stream] : touched) syncing.push_back(&stream);
  syncers_.Run(syncing.size(),
               [&](size_t i) { syncing[i]->synced = syncing[i]->open->log->Sync(); });
  for (const auto& [name, stream] : touched) {
    if (stream.synced.ok()) continue;
    logger_->Error("a stream can't be written", {{"stream", name}, {"error", stream.synced}});
    // What its producers are believed to have sent is not there: it is read again from the disk.
    Forget(name);
    for (const auto& [answer, result] : stream.appends) {
      (*answers)[answer].results[result] = stream.synced;
    }
  }
  CrashPoint(crash::kTelemetrySynced);
  strand_->Post([answers] {
    for (Answer& answer : *answers) answer.done(std::move(answer.results));
  });
}

absl::StatusOr<Appended> StreamFiles::WriteOne(OpenStream& stream,
                                               std::vector<v1::Record> records) {
  Appended appended;
  std::vector<std::string> payloads;
  std::vector<const v1::Record*> fresh;
  std::map<std::pair<std::string, std::string>, int64_t> in_call;
  for (v1::Record& record : records) {
    int64_t& highest = in_call[{record.producer(), record.key()}];
    if (record.producer_sequence() <= highest ||
        !stream.producers.IsNew(record.producer(), record.key(), record.producer_sequence())) {
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
    appended.last_offset = stream.log->next_offset() - 1;
    return appended;
  }
  CAPSTAN_ASSIGN_OR_RETURN(const int64_t first, stream.log->Append(payloads, [&] {
    return stream.producers.ToHeader().SerializeAsString();
  }));
  for (const v1::Record* record : fresh) {
    stream.producers.Advance(record->producer(), record->key(), record->producer_sequence());
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
  Piece piece;
  CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<OpenStream> open, Find(stream, /*make=*/false));
  if (open == nullptr) {
    piece.next_offset = std::max<int64_t>(1, position.offset);
    return piece;
  }
  const int64_t end = open->log->next_offset();
  int64_t from = std::max<int64_t>(1, position.offset);
  if (position.tail > 0) from = std::max(open->log->first_offset(), end - position.tail);
  const segment_log::SegmentLog::Dropped dropped = open->log->dropped();
  if (from <= dropped.records) {
    // How many bytes only part of the dropped records had is not known.
    piece.records.push_back(GapRecordBefore(dropped.records + 1, dropped.records - from + 1,
                                            from == 1 ? dropped.bytes : 0));
    from = dropped.records + 1;
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto entries, open->log->Read(from, max_bytes));
  for (const segment_log::SegmentLog::Entry& entry : entries) {
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
  const absl::Time keep_since = strand_->clock().Read().wall - options_.keep_for;
  std::map<std::string, Folder> folders;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(options_.root, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->path().extension() != ".seg") continue;
    Folder& folder = folders[it->path().parent_path().lexically_relative(options_.root).string()];
    const absl::Time time = TimeOf(*it);
    std::error_code size_error;
    const auto size = it->file_size(size_error);
    if (!size_error) folder.bytes += static_cast<int64_t>(size);
    folder.oldest = std::min(folder.oldest, time);
    folder.newest = std::max(folder.newest, time);
    ++folder.segments;
  }
  std::set<std::string> keep_newest;
  {
    absl::MutexLock lock(&open_mutex_);
    keep_newest = keep_newest_;
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& [stream, folder] : folders) {
    if (stream == kAuditStream || !IsStreamName(stream)) continue;
    const bool whole = folder.newest < keep_since && keep_newest.count(stream) == 0;
    const bool part =
        folder.segments > 1 && (folder.bytes > options_.keep_bytes || folder.oldest < keep_since);
    if (whole || part) retentions_.push_back({stream, whole});
  }
}

void StreamFiles::DoRetention(const Retention& retention) {
  const absl::Time keep_since = strand_->clock().Read().wall - options_.keep_for;
  if (retention.whole) {
    absl::MutexLock lock(&open_mutex_);
    if (keep_newest_.count(retention.stream) > 0) return;
    const auto it = open_.find(retention.stream);
    // Someone reads it: next time.
    if (it != open_.end() && it->second.use_count() > 1) return;
    if (it != open_.end()) open_.erase(it);
    std::error_code error;
    fs::remove_all(FolderOf(retention.stream), error);
    logger_->Info("dropped a stream by age", {{"stream", retention.stream}});
    return;
  }
  auto open = Find(retention.stream, /*make=*/false);
  absl::Status dropped = open.status();
  if (open.ok() && *open != nullptr) dropped = (*open)->log->Drop(options_.keep_bytes, keep_since);
  if (!dropped.ok()) {
    logger_->Warning("retention failed", {{"stream", retention.stream}, {"error", dropped}});
  }
}

}  // namespace capstan::telemetry
