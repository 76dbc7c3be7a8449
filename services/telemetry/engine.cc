#include "services/telemetry/engine.h"

#include <algorithm>
#include <utility>

#include "libs/status/error.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::telemetry {
namespace {

// Of one read and one response, and of those of all readers together: one who is slow holds one of
// them and what its connection has taken, several times as large in memory as on disk.
constexpr int64_t kMaxPieceBytes = 256 << 10;
constexpr int64_t kMinPieceBytes = 4 << 10;
constexpr int64_t kAllPiecesBytes = 2 << 20;

}  // namespace

template <typename F>
auto Engine::WhileAlive(F f) {
  return [alive = std::weak_ptr<char>(alive_), f = std::move(f)](auto&&... args) mutable {
    if (alive.lock()) f(std::forward<decltype(args)>(args)...);
  };
}

Engine::Engine(Options options, StreamFiles* files, Strand* strand, metrics::Registry* metrics)
    : options_(options),
      files_(files),
      strand_(strand),
      appended_records_(
          metrics->AddCounter("appended_records_total", "Records appended to Streams.")),
      appended_bytes_(
          metrics->AddCounter("appended_bytes_total", "Payload bytes appended to Streams.")),
      duplicate_records_(metrics->AddCounter("duplicate_records_total",
                                             "Records dropped since they were there already.")),
      failed_appends_(metrics->AddCounter("failed_appends_total", "Appends that failed.")),
      open_readers_(metrics->AddGauge("open_readers", "Readers of Streams connected now.")) {}

Engine::~Engine() {
  if (retain_timer_ != 0) strand_->Cancel(retain_timer_);
}

void Engine::Start() { Retain(); }

void Engine::Retain() {
  files_->Retain();
  retain_timer_ = strand_->RunAfter(options_.retain_every, WhileAlive([this] { Retain(); }));
}

void Engine::Append(std::vector<StreamAppend> appends,
                    absl::AnyInvocable<void(AppendResults)> done) {
  std::vector<Sent> sent;
  for (const StreamAppend& append : appends) {
    sent.push_back({append.stream, static_cast<int64_t>(append.records.size())});
    for (const v1::Record& record : append.records) {
      sent.back().bytes += static_cast<int64_t>(record.payload().size());
    }
  }
  files_->Append(std::move(appends),
                 [this, alive = std::weak_ptr<char>(alive_), sent = std::move(sent),
                  done = std::move(done)](AppendResults results) mutable {
                   for (size_t i = 0; i < sent.size() && alive.lock(); ++i) {
                     Answered(sent[i], results[i]);
                   }
                   done(std::move(results));
                 });
}

void Engine::Answered(const Sent& sent, const absl::StatusOr<Appended>& result) {
  if (!result.ok()) return failed_appends_.Increment();
  appended_records_.Increment(static_cast<double>(sent.records - result->duplicates));
  appended_bytes_.Increment(static_cast<double>(sent.bytes));
  duplicate_records_.Increment(result->duplicates);
  const auto following = by_stream_.find(sent.stream);
  if (following == by_stream_.end()) return;
  for (const int64_t id : std::set<int64_t>(following->second)) Pump(id);
}

void Engine::OpenReader(v1::ReadRecordsRequest request, std::unique_ptr<RecordSink> sink) {
  if (stopped_) return sink->Finish(absl::UnavailableError("telemetry is stopping"));
  if (readers_.size() >= options_.max_readers) {
    return sink->Finish(
        status::WithRetryDelay(status::Error(absl::StatusCode::kResourceExhausted,
                                             "TOO_MANY_READERS", "too many readers are connected"),
                               absl::Seconds(5)));
  }
  const int64_t id = next_reader_++;
  Reader& reader = readers_[id];
  reader.position = {request.start_offset(), request.tail()};
  reader.sink = std::move(sink);
  by_stream_[request.stream()].insert(id);
  reader.request = std::move(request);
  open_readers_.Set(static_cast<double>(readers_.size()));
  reader.sink->NotifyClosed(WhileAlive([this, id] { Remove(id); }));
  Pump(id);
}

void Engine::FindExtent(std::string stream,
                        absl::AnyInvocable<void(absl::StatusOr<StreamExtent>)> done) {
  files_->FindExtent(std::move(stream), WhileAlive(std::move(done)));
}

void Engine::KeepNewest(std::set<std::string> streams) { files_->KeepNewest(std::move(streams)); }

void Engine::Pump(int64_t id) {
  const auto it = readers_.find(id);
  if (it == readers_.end()) return;
  Reader& reader = it->second;
  if (reader.busy) {
    reader.more = true;
    return;
  }
  reader.busy = true;
  reader.more = false;
  const int64_t share = kAllPiecesBytes / static_cast<int64_t>(readers_.size());
  const int64_t piece_bytes = std::clamp(share, kMinPieceBytes, kMaxPieceBytes);
  files_->Read(reader.request.stream(), reader.position, piece_bytes,
               WhileAlive([this, id](absl::StatusOr<StreamFiles::Piece> piece) {
                 if (piece.ok()) return OnPiece(id, *std::move(piece));
                 End(id, piece.status());
               }));
}

void Engine::OnPiece(int64_t id, StreamFiles::Piece piece) {
  const auto it = readers_.find(id);
  if (it == readers_.end()) return;
  Reader& reader = it->second;
  reader.position = {piece.next_offset, 0};
  if (reader.caught_up_at == 0) reader.caught_up_at = piece.end_offset;
  for (v1::Record& record : piece.records) {
    if (Matches(record, reader.request)) *reader.pending.add_records() = std::move(record);
  }
  if (piece.next_offset < piece.end_offset) reader.more = true;
  if (!reader.caught_up && piece.next_offset >= reader.caught_up_at) {
    reader.caught_up = true;
    reader.pending.set_caught_up(true);
  }
  Deliver(id);
}

void Engine::Deliver(int64_t id) {
  const auto it = readers_.find(id);
  if (it == readers_.end()) return;
  Reader& reader = it->second;
  if (reader.pending.records_size() > 0 || reader.pending.caught_up()) {
    const absl::Status written = reader.sink->Write(reader.pending);
    if (written.code() == absl::StatusCode::kResourceExhausted) {
      return reader.sink->NotifyDrained(WhileAlive([this, id] { Deliver(id); }));
    }
    if (!written.ok()) return Remove(id);
    // Clear would keep the records' memory.
    reader.pending = v1::ReadRecordsResponse();
  }
  if (reader.caught_up && !reader.request.follow()) return End(id, absl::OkStatus());
  if (!reader.more) {
    reader.busy = false;
    return;
  }
  // Nothing is read ahead for one who does not read.
  reader.sink->NotifyDrained(WhileAlive([this, id] {
    const auto drained = readers_.find(id);
    if (drained == readers_.end()) return;
    drained->second.busy = false;
    Pump(id);
  }));
}

void Engine::End(int64_t id, const absl::Status& status) {
  const auto it = readers_.find(id);
  if (it == readers_.end()) return;
  it->second.sink->Finish(status);
  Remove(id);
}

void Engine::Remove(int64_t id) {
  const auto it = readers_.find(id);
  if (it == readers_.end()) return;
  const auto following = by_stream_.find(it->second.request.stream());
  following->second.erase(id);
  if (following->second.empty()) by_stream_.erase(following);
  readers_.erase(it);
  open_readers_.Set(static_cast<double>(readers_.size()));
}

void Engine::Stop() {
  stopped_ = true;
  while (!readers_.empty()) {
    End(readers_.begin()->first, absl::UnavailableError("telemetry is stopping"));
  }
}

}  // namespace capstan::telemetry
