#include "integration/simulation/disk_streams.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/store/store.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/core/stream_rules.h"

namespace capstan::simulation {
namespace {

// Records of one response.
constexpr int kPiece = 15;

int64_t FirstOf(const Disk& disk) {
  const auto stored = disk.records.find(DiskStreams::kFirstKey);
  int64_t first = 1;
  if (stored != disk.records.end() && !absl::SimpleAtoi(stored->second, &first)) first = 1;
  return first;
}

}  // namespace

std::string DiskStreams::RecordKey(int64_t offset) {
  return absl::StrFormat("%s%012d", kRecordPrefix, offset);
}

telemetry::StreamExtent DiskStreams::ExtentOf(const Disk& disk) {
  telemetry::StreamExtent extent;
  extent.first = FirstOf(disk);
  extent.next = extent.first;
  auto end = disk.records.lower_bound(store::PrefixEnd(kRecordPrefix));
  if (end != disk.records.begin()) {
    --end;
    int64_t last = 0;
    if (absl::StartsWith(end->first, kRecordPrefix) &&
        absl::SimpleAtoi(end->first.substr(sizeof(kRecordPrefix) - 1), &last)) {
      extent.next = last + 1;
    }
  }
  return extent;
}

template <typename F>
auto DiskStreams::WhileAlive(F f) {
  return [alive = std::weak_ptr<char>(alive_), f = std::move(f)] {
    if (!alive.expired()) f();
  };
}

DiskStreams::DiskStreams(Process* process, Disk* disk, const Mutants* mutants,
                         std::function<void()> stored)
    : process_(process), disk_(disk), mutants_(mutants), stored_(std::move(stored)) {
  Open();
}

void DiskStreams::Open() {
  CommitPipe::Options options;
  options.on_failed = [this] { Reopen(); };
  pipe_ = std::make_unique<CommitPipe>(process_, disk_, std::move(options));
  index_ = telemetry::ProducerIndex();
  records_.clear();
  const telemetry::StreamExtent extent = ExtentOf(*disk_);
  first_ = extent.first;
  next_ = stored_next_ = extent.next;
  // The header of the newest segment, and what comes after it.
  telemetry::core::StreamHeader header;
  const auto stored_header = disk_->records.find(kHeaderKey);
  if (stored_header != disk_->records.end()) header.ParseFromString(stored_header->second);
  if (!mutants_->telemetry_forgets_producers) index_.Load(header);
  const int64_t newest = std::max<int64_t>(next_ - 2, 0) / kRecords * kRecords + 1;
  for (int64_t offset = first_; offset < next_; ++offset) {
    telemetry::v1::Record& record = records_[offset];
    const auto stored_record = disk_->records.find(RecordKey(offset));
    if (stored_record == disk_->records.end() || !record.ParseFromString(stored_record->second)) {
      process_->world().Violate(absl::StrCat("record at offset ", offset, " can't be read"));
      continue;
    }
    if (offset < newest || mutants_->telemetry_forgets_producers) continue;
    index_.Advance(record.producer(), record.key(), record.producer_sequence());
  }
}

void DiskStreams::Reopen() {
  process_->world().Log(process_->name(), "reads its Stream again: a write failed");
  std::deque<PendingAppend> failed = std::exchange(appends_, {});
  Open();
  stored_();
  PumpAll();
  for (PendingAppend& append : failed) {
    append.done(telemetry::AppendResults(
        append.results, absl::InternalError("simulated: the disk can't be written")));
  }
}

void DiskStreams::Append(std::vector<telemetry::StreamAppend> appends,
                         absl::AnyInvocable<void(telemetry::AppendResults)> done) {
  std::vector<store::Put> puts;
  telemetry::AppendResults results;
  for (telemetry::StreamAppend& append : appends) {
    telemetry::Appended appended;
    for (telemetry::v1::Record& record : append.records) {
      if (!index_.IsNew(record.producer(), record.key(), record.producer_sequence())) {
        ++appended.duplicates;
        continue;
      }
      // A new segment begins with how far each producer had come by then.
      if (next_ % kRecords == 1) {
        puts.push_back({.key = kHeaderKey, .value = index_.ToHeader().SerializeAsString()});
      }
      index_.Advance(record.producer(), record.key(), record.producer_sequence());
      record.set_offset(next_);
      puts.push_back({.key = RecordKey(next_), .value = record.SerializeAsString()});
      records_[next_++] = std::move(record);
    }
    appended.last_offset = next_ - 1;
    results.push_back(appended);
  }
  appends_.push_back({results.size(), std::move(done)});
  pipe_->Submit(std::move(puts), {}, [this, next = next_, results = std::move(results)](int64_t) {
    PendingAppend append = std::move(appends_.front());
    appends_.pop_front();
    stored_next_ = std::max(stored_next_, next);
    stored_();
    PumpAll();
    append.done(results);
  });
  if (mutants_->telemetry_shows_unstored) {
    stored_next_ = next_;
    PumpAll();
  }
}

void DiskStreams::Retain(int64_t most) {
  if (stored_next_ - first_ <= most * kRecords) return;
  const int64_t first = (first_ - 1) / kRecords * kRecords + kRecords + 1;
  std::vector<store::Delete> dropped;
  for (int64_t offset = first_; offset < first; ++offset) {
    dropped.push_back({.key = RecordKey(offset), .end = ""});
  }
  // As the log does: until it is on disk that they are dropped, the records are there for all who
  // ask. Who was told that they are gone could find them again after a crash.
  pipe_->Submit({{.key = kFirstKey, .value = absl::StrCat(first)}}, std::move(dropped),
                [this, first](int64_t) {
                  process_->world().Fault("retention");
                  process_->world().Log(process_->name(),
                                        absl::StrCat("keeps what is from ", first));
                  // If this takes long, it is decided again meanwhile, alike.
                  first_ = first;
                  records_.erase(records_.begin(), records_.lower_bound(first));
                  stored_();
                });
}

void DiskStreams::FindExtent(
    std::string, absl::AnyInvocable<void(absl::StatusOr<telemetry::StreamExtent>)> done) {
  process_->Later(
      process_->world().random().Between(absl::Microseconds(100), absl::Milliseconds(3)),
      WhileAlive([this, done = std::make_shared<decltype(done)>(std::move(done))] {
        (*done)(telemetry::StreamExtent{first_, stored_next_});
      }));
}

void DiskStreams::OpenReader(telemetry::v1::ReadRecordsRequest request,
                             std::unique_ptr<telemetry::RecordSink> sink) {
  const int64_t id = next_reader_++;
  Reader& reader = readers_[id];
  reader.position = request.start_offset();
  reader.request = std::move(request);
  reader.sink = std::move(sink);
  reader.sink->NotifyClosed(WhileAlive([this, id] { readers_.erase(id); }));
  PumpSoon(id);
}

void DiskStreams::PumpSoon(int64_t id) {
  process_->Later(
      process_->world().random().Between(absl::Microseconds(100), absl::Milliseconds(3)),
      WhileAlive([this, id] { Pump(id); }));
}

void DiskStreams::PumpAll() {
  std::vector<int64_t> ids;
  for (const auto& [id, reader] : readers_) ids.push_back(id);
  for (const int64_t id : ids) Pump(id);
}

void DiskStreams::Pump(int64_t id) {
  const auto it = readers_.find(id);
  if (it == readers_.end() || it->second.waiting) return;
  Reader& reader = it->second;
  telemetry::v1::ReadRecordsResponse response;
  int64_t position = reader.position;
  if (position < first_) {
    *response.add_records() =
        telemetry::GapRecordBefore(first_, first_ - position, /*dropped_bytes=*/0);
  }
  position = std::max(position, first_);
  for (int i = 0; i < kPiece && position < stored_next_; ++i, ++position) {
    *response.add_records() = records_.at(position);
  }
  response.set_caught_up(position >= stored_next_);
  if (position == reader.position && reader.request.follow()) return;
  const absl::Status written = reader.sink->Write(response);
  if (absl::IsResourceExhausted(written)) {
    reader.waiting = true;
    return reader.sink->NotifyDrained(WhileAlive([this, id] {
      const auto drained = readers_.find(id);
      if (drained == readers_.end()) return;
      drained->second.waiting = false;
      Pump(id);
    }));
  }
  if (!written.ok()) {
    readers_.erase(id);
    return;
  }
  reader.position = position;
  if (position < stored_next_) PumpSoon(id);
}

}  // namespace capstan::simulation
