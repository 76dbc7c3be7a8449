#ifndef CAPSTAN_SERVICES_TELEMETRY_TESTING_FAKE_STREAMS_H_
#define CAPSTAN_SERVICES_TELEMETRY_TESTING_FAKE_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/telemetry/core/stream_rules.h"
#include "services/telemetry/core/subscription_book.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::telemetry {

// One Stream as the disk has it.
struct StreamOnDisk {
  int64_t first = 1;
  std::deque<v1::Record> records;

  int64_t next() const { return first + static_cast<int64_t>(records.size()); }
  void Append(const std::string& payload, const std::string& kind = "log") {
    v1::Record record;
    record.set_offset(next());
    record.set_kind(kind);
    record.set_producer("shim");
    record.set_payload(payload);
    records.push_back(std::move(record));
  }
  // At least one record stays.
  void Drop(int64_t up_to) {
    while (records.size() > 1 && first <= up_to) {
      records.pop_front();
      ++first;
    }
  }
};
using StreamDisk = std::map<std::string, StreamOnDisk>;

// Streams as the engine over files serves them, a few records at a time.
class FakeStreams final : public Streams {
 public:
  FakeStreams(StreamDisk* disk, Strand* strand, size_t piece)
      : disk_(disk), strand_(strand), piece_(piece) {}

  void Append(std::vector<StreamAppend>, absl::AnyInvocable<void(AppendResults)>) override {}
  void OpenReader(v1::ReadRecordsRequest request, std::unique_ptr<RecordSink> sink) override {
    const int id = next_id_++;
    Reader& reader = readers_[id];
    reader.position = request.start_offset();
    reader.request = std::move(request);
    reader.sink = std::move(sink);
    reader.sink->NotifyClosed([this, id] { readers_.erase(id); });
    Later([this, id] { Pump(id); });
  }
  void FindExtent(std::string stream,
                  absl::AnyInvocable<void(absl::StatusOr<StreamExtent>)> done) override {
    ++lookups_;
    Later([this, stream = std::move(stream), done = std::move(done)]() mutable {
      if (!failure_.ok()) return done(failure_);
      const auto it = disk_->find(stream);
      if (it == disk_->end()) return done(StreamExtent());
      done(StreamExtent{it->second.first, it->second.next()});
    });
  }
  void KeepNewest(std::set<std::string> streams) override { kept_ = std::move(streams); }

  // As after an append.
  void PumpAll() {
    for (const auto& [id, reader] : std::map<int, int64_t>(Ids())) Pump(id);
  }
  // From now on what is read waits for Step.
  void Hold() { holding_ = true; }
  void Step() {
    if (waiting_.empty()) return;
    strand_->Post(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  void Fail(absl::Status failure) { failure_ = std::move(failure); }
  const std::set<std::string>& kept() const { return kept_; }
  int lookups() const { return lookups_; }
  size_t readers() const { return readers_.size(); }

 private:
  struct Reader {
    v1::ReadRecordsRequest request;
    std::unique_ptr<RecordSink> sink;
    int64_t position = 1;
    bool waiting = false;
  };

  void Later(Strand::Task task) {
    if (!holding_) return strand_->Post(std::move(task));
    waiting_.push_back(std::move(task));
  }
  std::map<int, int64_t> Ids() const {
    std::map<int, int64_t> ids;
    for (const auto& [id, reader] : readers_) ids[id] = reader.position;
    return ids;
  }
  void Pump(int id) {
    const auto it = readers_.find(id);
    if (it == readers_.end() || it->second.waiting) return;
    Reader& reader = it->second;
    const StreamOnDisk& stream = (*disk_)[reader.request.stream()];
    v1::ReadRecordsResponse response;
    int64_t position = reader.position;
    if (position < stream.first) {
      *response.add_records() =
          GapRecordBefore(stream.first, stream.first - position, /*dropped_bytes=*/0);
      position = stream.first;
    }
    for (size_t i = 0; i < piece_ && position < stream.next(); ++i, ++position) {
      *response.add_records() = stream.records[position - stream.first];
    }
    response.set_caught_up(position >= stream.next());
    const absl::Status written = reader.sink->Write(response);
    if (absl::IsResourceExhausted(written)) {
      reader.waiting = true;
      reader.sink->NotifyDrained([this, id] {
        const auto drained = readers_.find(id);
        if (drained == readers_.end()) return;
        drained->second.waiting = false;
        Pump(id);
      });
      return;
    }
    if (!written.ok()) {
      readers_.erase(it);
      return;
    }
    reader.position = position;
    if (position < stream.next()) {
      Later([this, id] { Pump(id); });
    } else if (!reader.request.follow()) {
      reader.sink->Finish(absl::OkStatus());
      readers_.erase(it);
    }
  }

  StreamDisk* const disk_;
  Strand* const strand_;
  const size_t piece_;
  std::map<int, Reader> readers_;
  std::set<std::string> kept_;
  absl::Status failure_;
  bool holding_ = false;
  std::deque<Strand::Task> waiting_;
  int next_id_ = 1;
  int lookups_ = 0;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_TESTING_FAKE_STREAMS_H_
