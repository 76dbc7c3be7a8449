#ifndef CAPSTAN_INTEGRATION_SIMULATION_DISK_STREAMS_H_
#define CAPSTAN_INTEGRATION_SIMULATION_DISK_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/telemetry/core/producer_index.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::simulation {

// Streams of one life of telemetry: one Stream, whose segments are on a simulated disk, with the
// real producer index before it. Offsets, segments and retention are as libs/segment_log has them;
// after a write that failed the Stream is read again from the disk, as StreamFiles does.
class DiskStreams final : public telemetry::Streams {
 public:
  // Keys on the disk: one for each record, the newest segment's header, the first offset kept.
  static constexpr char kRecordPrefix[] = "record/";
  static constexpr char kHeaderKey[] = "header";
  static constexpr char kFirstKey[] = "first";
  // Of a segment.
  static constexpr int64_t kRecords = 40;
  static std::string RecordKey(int64_t offset);
  // What is kept on a disk now.
  static telemetry::StreamExtent ExtentOf(const Disk& disk);

  // `stored` runs whenever the Stream has changed on the disk.
  DiskStreams(Process* process, Disk* disk, const Mutants* mutants, std::function<void()> stored);
  // The life is over: the append under way may or may not have taken effect.
  void Crash() { pipe_->Crash(); }

  void Append(std::vector<telemetry::StreamAppend> appends,
              absl::AnyInvocable<void(telemetry::AppendResults)> done) override;
  void OpenReader(telemetry::v1::ReadRecordsRequest request,
                  std::unique_ptr<telemetry::RecordSink> sink) override;
  void FindExtent(std::string stream,
                  absl::AnyInvocable<void(absl::StatusOr<telemetry::StreamExtent>)> done) override;
  void KeepNewest(std::set<std::string> streams) override { keep_ = !streams.empty(); }

  // Drops the oldest segment, if more than `most` are kept.
  void Retain(int64_t most);

 private:
  struct Reader {
    telemetry::v1::ReadRecordsRequest request;
    std::unique_ptr<telemetry::RecordSink> sink;
    int64_t position = 1;
    bool waiting = false;
  };

  struct PendingAppend {
    size_t results = 0;
    absl::AnyInvocable<void(telemetry::AppendResults)> done;
  };

  // Reads what is on the disk.
  void Open();
  // A write has failed: those that were to come behind it fail too.
  void Reopen();
  void PumpSoon(int64_t id);
  void Pump(int64_t id);
  void PumpAll();
  template <typename F>
  auto WhileAlive(F f);

  Process* const process_;
  Disk* const disk_;
  const Mutants* const mutants_;
  const std::function<void()> stored_;
  telemetry::ProducerIndex index_;
  std::unique_ptr<CommitPipe> pipe_;
  // Appends on their way to the disk, in order.
  std::deque<PendingAppend> appends_;
  bool keep_ = false;
  // What readers may get is below `stored_next_`; what was taken and is on its way, below `next_`.
  int64_t first_ = 1;
  int64_t stored_next_ = 1;
  int64_t next_ = 1;
  std::map<int64_t, telemetry::v1::Record> records_;
  int64_t next_reader_ = 1;
  std::map<int64_t, Reader> readers_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_DISK_STREAMS_H_
