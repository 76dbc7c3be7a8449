// That the simulated Stream drops records as libs/segment_log does: a reader is told that they are
// gone once that is on disk, and until then gets them. And that it is read again after a write that
// failed, as StreamFiles does.
#include "integration/simulation/disk_streams.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/process.h"
#include "integration/simulation/world.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::simulation {
namespace {

// Three segments.
constexpr int64_t kEnd = 2 * DiskStreams::kRecords + 2;
// In some of them a crash comes before the disk has taken what was to be dropped, in others after.
constexpr uint64_t kSeeds = 20;

class Server final : public Process {
 public:
  Server(World* world, const MachineClock* clock, Disk* disk)
      : Process(world, "server", clock), disk_(disk) {}
  DiskStreams& streams() { return *streams_; }

 protected:
  void OnStart() override {
    streams_ = std::make_unique<DiskStreams>(this, disk_, &mutants_, [] {});
  }
  void OnCrash() override {
    streams_->Crash();
    streams_.reset();
  }
  void OnAlarm() override {}

 private:
  Disk* const disk_;
  const Mutants mutants_;
  std::unique_ptr<DiskStreams> streams_;
};

// Notes the offset of the first record of each response.
class FirstOffsets final : public telemetry::RecordSink {
 public:
  explicit FirstOffsets(std::shared_ptr<std::vector<int64_t>> offsets)
      : offsets_(std::move(offsets)) {}

  absl::Status Write(const telemetry::v1::ReadRecordsResponse& response) override {
    if (!response.records().empty()) offsets_->push_back(response.records(0).offset());
    return absl::OkStatus();
  }
  void NotifyDrained(Strand::Task) override {}
  void NotifyClosed(Strand::Task) override {}
  void Finish(const absl::Status&) override {}

 private:
  const std::shared_ptr<std::vector<int64_t>> offsets_;
};

class OneStream {
 public:
  explicit OneStream(uint64_t seed)
      : world_(seed), clock_(&world_), server_(&world_, &clock_, &disk_) {
    server_.Start();
    const absl::Status appended = Append(1, kEnd);
    EXPECT_TRUE(appended.ok()) << appended;
  }

  // Records of one producer, with these sequences.
  absl::Status Append(int64_t first, int64_t end) {
    std::vector<telemetry::v1::Record> records;
    for (int64_t i = first; i < end; ++i) {
      telemetry::v1::Record& record = records.emplace_back();
      record.set_producer("p");
      record.set_key("k");
      record.set_producer_sequence(i);
    }
    absl::Status status = absl::UnknownError("no answer");
    server_.streams().Append(
        {{"s", std::move(records)}},
        [&status](const telemetry::AppendResults& results) { status = results.front().status(); });
    RunFor(absl::Seconds(1));
    return status;
  }

  void RunFor(absl::Duration time) {
    bool over = false;
    world_.After(time, [&over] { over = true; });
    while (!over && world_.Step()) {
    }
  }
  int64_t First() {
    const auto first = std::make_shared<int64_t>(0);
    server_.streams().FindExtent("s",
                                 [first](const absl::StatusOr<telemetry::StreamExtent>& extent) {
                                   if (extent.ok()) *first = extent->first;
                                 });
    RunFor(absl::Milliseconds(10));
    return *first;
  }
  // Where a reader begins who asks for the first record.
  int64_t BeginsAt() {
    telemetry::v1::ReadRecordsRequest request;
    request.set_start_offset(1);
    const auto offsets = std::make_shared<std::vector<int64_t>>();
    server_.streams().OpenReader(request, std::make_unique<FirstOffsets>(offsets));
    RunFor(absl::Milliseconds(10));
    return offsets->empty() ? -1 : offsets->front();
  }

  void SetFailing(bool failing) { disk_.failing = failing; }
  int64_t NextOnDisk() const { return DiskStreams::ExtentOf(disk_).next; }
  int64_t FirstOnDisk() const { return DiskStreams::ExtentOf(disk_).first; }
  // Drops the first segment, on a disk that takes up to an hour for it.
  void Retain() {
    disk_.slowest = absl::Hours(1);
    server_.streams().Retain(/*most=*/1);
  }
  void Restart() {
    server_.Crash();
    server_.Start();
  }

 private:
  World world_;
  const MachineClock clock_;
  Disk disk_;
  Server server_;
};

TEST(DiskStreamsTest, WhatRetentionDropsIsThereUntilThatIsOnDisk) {
  OneStream stream(/*seed=*/1);
  stream.Retain();
  EXPECT_EQ(stream.First(), 1);
  EXPECT_EQ(stream.BeginsAt(), 1);
  EXPECT_EQ(stream.FirstOnDisk(), 1);
  stream.RunFor(absl::Hours(1));
  EXPECT_EQ(stream.First(), DiskStreams::kRecords + 1);
  // Says that all before was dropped.
  EXPECT_EQ(stream.BeginsAt(), DiskStreams::kRecords);
  EXPECT_EQ(stream.FirstOnDisk(), DiskStreams::kRecords + 1);
}

TEST(DiskStreamsTest, NothingThatWasToldGoneComesBackWithACrash) {
  int dropped = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneStream stream(seed);
    stream.Retain();
    const int64_t told = stream.First();
    stream.Restart();
    EXPECT_GE(stream.FirstOnDisk(), told) << "seed " << seed;
    EXPECT_EQ(stream.First(), stream.FirstOnDisk()) << "seed " << seed;
    dropped += stream.FirstOnDisk() > told ? 1 : 0;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_LT(dropped, static_cast<int>(kSeeds));
}

TEST(DiskStreamsTest, WhatFailedAndComesAgainIsThereOnce) {
  int there = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneStream stream(seed);
    stream.SetFailing(true);
    EXPECT_FALSE(stream.Append(kEnd, kEnd + 3).ok()) << "seed " << seed;
    there += stream.NextOnDisk() == kEnd + 3 ? 1 : 0;
    stream.SetFailing(false);
    EXPECT_TRUE(stream.Append(kEnd, kEnd + 3).ok()) << "seed " << seed;
    EXPECT_EQ(stream.NextOnDisk(), kEnd + 3) << "seed " << seed;
  }
  EXPECT_GT(there, 0);
  EXPECT_LT(there, static_cast<int>(kSeeds));
}

}  // namespace
}  // namespace capstan::simulation
