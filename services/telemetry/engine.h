#ifndef CAPSTAN_SERVICES_TELEMETRY_ENGINE_H_
#define CAPSTAN_SERVICES_TELEMETRY_ENGINE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/telemetry/adapters/stream_files.h"
#include "services/telemetry/core/subscription_book.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::telemetry {

// Carries records from producers to files and from files to readers. A reader's pace is its own:
// what it has not taken stays on disk, so that neither memory nor other readers feel it. On its
// strand only, destruction included; StreamFiles' callbacks are ignored afterwards.
class Engine final : public Streams {
 public:
  struct Options {
    size_t max_readers = 2000;
    absl::Duration retain_every = absl::Minutes(5);
  };

  // All must outlive it.
  Engine(Options options, StreamFiles* files, Strand* strand, metrics::Registry* metrics);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Begins to drop what is too old, at once and then now and then.
  void Start();

  void Append(std::vector<StreamAppend> appends,
              absl::AnyInvocable<void(AppendResults)> done) override;
  void OpenReader(v1::ReadRecordsRequest request, std::unique_ptr<RecordSink> sink) override;
  void FindExtent(std::string stream,
                  absl::AnyInvocable<void(absl::StatusOr<StreamExtent>)> done) override;
  void KeepNewest(std::set<std::string> streams) override;

  // Ends all readers with UNAVAILABLE; no new ones are taken.
  void Stop();

  size_t readers() const { return readers_.size(); }

 private:
  struct Reader {
    v1::ReadRecordsRequest request;
    std::unique_ptr<RecordSink> sink;
    StreamFiles::Position position;
    // Behind what was there when the reader came; 0 until known.
    int64_t caught_up_at = 0;
    bool caught_up = false;
    // A read or a slow peer is being waited for.
    bool busy = false;
    // Records came while it was busy.
    bool more = false;
    // Not taken yet by a slow peer.
    v1::ReadRecordsResponse pending;
  };

  // What is known of an append when its answer comes.
  struct Sent {
    std::string stream;
    int64_t records = 0;
    int64_t bytes = 0;
  };

  void Answered(const Sent& sent, const absl::StatusOr<Appended>& result);
  void Retain();
  void Pump(int64_t id);
  void OnPiece(int64_t id, StreamFiles::Piece piece);
  void Deliver(int64_t id);
  void End(int64_t id, const absl::Status& status);
  void Remove(int64_t id);

  template <typename F>
  auto WhileAlive(F f);

  const Options options_;
  StreamFiles* const files_;
  Strand* const strand_;
  metrics::Counter appended_records_;
  metrics::Counter appended_bytes_;
  metrics::Counter duplicate_records_;
  metrics::Counter failed_appends_;
  metrics::Gauge open_readers_;
  int64_t next_reader_ = 1;
  bool stopped_ = false;
  std::map<int64_t, Reader> readers_;
  std::map<std::string, std::set<int64_t>> by_stream_;
  Strand::TimerId retain_timer_ = 0;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_ENGINE_H_
