#include "services/node_agent/log_shipper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "services/node_agent/ports/fake_ports.h"
#include "services/node_agent/shim/log_spill.h"
#include "services/node_agent/shim/process_identity.h"
#include "services/node_agent/shim/shim.h"

namespace capstan::node_agent {
namespace {

const session::TaskId kA{"job", 2, "w", 1};
constexpr char kLog[] = "projects/p/jobs/j/streams/log";
constexpr char kMetrics[] = "projects/p/jobs/j/streams/metrics";

class LogShipperTest : public testing::Test {
 protected:
  LogShipperTest()
      : strand_(&clock_), disk_(std::make_shared<store::MemoryImage>()), sink_(&strand_) {
    folder_ = testing::TempDir() + "/shipXXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    mkdir((folder_ + "/log").c_str(), 0700);
    mkdir((folder_ + "/metrics").c_str(), 0700);
    spill_ = std::make_unique<LogSpill>(folder_ + "/log", int64_t{1} << 20, &clock_);
    Restart();
  }
  ~LogShipperTest() override {
    shipper_.reset();
    store_->Crash();
  }

  void Restart() {
    shipper_.reset();
    store_ = std::make_unique<store::MemoryStore>(&strand_, disk_);
    shipper_ = std::make_unique<LogShipper>(
        LogShipper::Options{.producer = "c1/n1"}, &strand_, &strand_, store_.get(), &sink_,
        [this](const session::TaskId&) { ++shipped_; }, nullptr);
  }
  void Ship(bool ended) {
    shipper_->Ship(ShipLogs{kA, "projects/p/jobs/j", folder_, 3, ended});
    strand_.RunReady();
  }
  // As a shim that lives does.
  int LockAsShim() {
    const int lock = open((folder_ + "/" + kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
    return lock;
  }
  void WriteStatus(const capstan::nodeagent::v1::ShimStatus& status) {
    std::ofstream(folder_ + "/" + kStatusFile, std::ios::binary) << status.SerializeAsString();
  }
  void Metric(const std::string& line) {
    std::ofstream(folder_ + "/metrics/metrics.jsonl", std::ios::app) << line;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_;
  std::shared_ptr<store::MemoryImage> disk_;
  FakeLogSink sink_;
  std::string folder_;
  std::unique_ptr<LogSpill> spill_;
  std::unique_ptr<store::MemoryStore> store_;
  std::unique_ptr<LogShipper> shipper_;
  int shipped_ = 0;
};

TEST_F(LogShipperTest, ShipsLinesInOrderWithWhoWroteThem) {
  spill_->Write(1, "one\ntwo\n");
  spill_->Write(2, "oops\n");
  Ship(false);
  const auto& log = sink_.streams[kLog];
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[0].payload(), "one");
  EXPECT_EQ(log[2].payload(), "oops");
  EXPECT_EQ(log[2].attributes().at("stream"), "stderr");
  EXPECT_EQ(log[0].attributes().at("rank"), "3");
  EXPECT_EQ(log[0].key(), "2/w-1");
  EXPECT_LT(log[0].producer_sequence(), log[1].producer_sequence());
  spill_->Write(1, "three\n");
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(log.size(), 4u);
  EXPECT_EQ(shipped_, 0);
  Ship(true);
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(shipped_, 1);
  EXPECT_EQ(shipper_->open(), 0u);
  ASSERT_EQ(log.size(), 5u);
  EXPECT_EQ(log[4].kind(), "end");
  EXPECT_EQ(log[4].attributes().at("rank"), "3");
  EXPECT_EQ(log[4].producer_sequence(), log[3].producer_sequence() + 1);
}

TEST_F(LogShipperTest, TheLogIsClosedOnlyOnceAllOfItIsAcknowledged) {
  for (int i = 0; i < 3000; ++i)
    spill_->Write(1, "a line that is not short, so that it takes calls\n");
  Ship(true);
  strand_.Advance(absl::Seconds(5));
  const auto& log = sink_.streams[kLog];
  ASSERT_EQ(log.size(), 3001u);
  for (size_t i = 0; i < 3000; ++i) ASSERT_EQ(log[i].kind(), "log");
  EXPECT_EQ(log.back().kind(), "end");
  EXPECT_EQ(log.back().producer_sequence(), 3001);
}

TEST_F(LogShipperTest, ATaskThatWroteNothingHasAnEndToo) {
  Ship(true);
  strand_.Advance(absl::Seconds(1));
  ASSERT_EQ(sink_.streams[kLog].size(), 1u);
  EXPECT_EQ(sink_.streams[kLog][0].kind(), "end");
  EXPECT_GE(sink_.streams[kLog][0].producer_sequence(), 1);
  EXPECT_EQ(shipped_, 1);
}

// The Task was killed beside a shim that was stopped, and what it had said is still in its pipe.
TEST_F(LogShipperTest, TheLogIsNotClosedBeforeTheShimHasWrittenItsLast) {
  const int lock = LockAsShim();
  Ship(true);
  strand_.Advance(absl::Seconds(5));
  const auto& log = sink_.streams[kLog];
  EXPECT_TRUE(log.empty());
  spill_->Write(1, "one\n");
  strand_.Advance(absl::Seconds(8));
  spill_->Write(1, "two\n");
  // It tells the end before it has read all.
  capstan::nodeagent::v1::ShimStatus status;
  status.mutable_end()->set_cause(capstan::type::v1::TaskEnd::CAUSE_FENCED);
  WriteStatus(status);
  strand_.Advance(absl::Seconds(1));
  spill_->Write(1, "three\n");
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(shipped_, 0);
  ASSERT_EQ(log.size(), 3u);
  status.set_end_boottime_ns(1);
  WriteStatus(status);
  strand_.Advance(absl::Seconds(1));
  ASSERT_EQ(log.size(), 4u);
  EXPECT_EQ(log[2].payload(), "three");
  EXPECT_EQ(log[3].kind(), "end");
  EXPECT_EQ(log[3].producer_sequence(), 4);
  EXPECT_EQ(shipped_, 1);
  close(lock);
}

TEST_F(LogShipperTest, AShimThatHangsIsKilledAndTheLogClosed) {
  const int lock = LockAsShim();
  const pid_t shim = fork();
  if (shim == 0) {
    pause();
    _exit(0);
  }
  // The child alone holds it now.
  close(lock);
  capstan::nodeagent::v1::ShimStatus status;
  status.set_shim_pid(shim);
  status.set_shim_start_ticks(ProcessStartTicks(shim));
  WriteStatus(status);
  spill_->Write(1, "one\n");
  kill(shim, SIGSTOP);
  Ship(true);
  strand_.Advance(absl::Seconds(9));
  EXPECT_EQ(waitpid(shim, nullptr, WNOHANG), 0);
  EXPECT_EQ(shipped_, 0);
  strand_.Advance(absl::Seconds(2));
  int how = 0;
  EXPECT_EQ(waitpid(shim, &how, 0), shim);
  EXPECT_TRUE(WIFSIGNALED(how));
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(shipped_, 1);
  const auto& log = sink_.streams[kLog];
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[1].kind(), "end");
}

TEST_F(LogShipperTest, OutageLosesNothingAndARestartRepeatsUnderTheSameSequences) {
  sink_.failure = absl::UnavailableError("telemetry is away");
  for (int i = 0; i < 100; ++i) spill_->Write(1, "line " + std::to_string(i) + "\n");
  Ship(false);
  strand_.Advance(absl::Minutes(2));
  EXPECT_TRUE(sink_.streams.empty());
  Restart();
  sink_.failure = absl::OkStatus();
  Ship(true);
  strand_.Advance(absl::Minutes(1));
  const auto& log = sink_.streams[kLog];
  ASSERT_EQ(log.size(), 101u);
  EXPECT_EQ(log.back().kind(), "end");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(log[i].producer_sequence(), i + 1);
  EXPECT_EQ(shipped_, 1);
  // Shipped whole: another life reads on from the cursor and repeats nothing.
  Restart();
  Ship(true);
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(log.size(), 101u);
}

TEST_F(LogShipperTest, DroppedLinesBecomeAGapRecord) {
  const std::string line(60'000, 'x');
  for (int i = 0; i < 60; ++i) spill_->Write(1, line + "\n");
  Ship(true);
  strand_.Advance(absl::Seconds(1));
  const auto& log = sink_.streams[kLog];
  ASSERT_FALSE(log.empty());
  ASSERT_EQ(log[0].kind(), "gap");
  capstan::event::v1::GapRecord gap;
  ASSERT_TRUE(gap.ParseFromString(log[0].payload()));
  EXPECT_GT(gap.dropped_records(), 0);
  EXPECT_EQ(log[0].producer_sequence() + 1, log[1].producer_sequence());
  for (size_t i = 1; i < log.size(); ++i) {
    EXPECT_LT(log[i - 1].producer_sequence(), log[i].producer_sequence());
  }
}

// Lines and gaps as telemetry keeps them, which drops what it has by its sequence.
struct Kept {
  int64_t lines = 0;
  int64_t line_bytes = 0;
  int64_t gaps = 0;
  int64_t gap_lines = 0;
  int64_t gap_bytes = 0;
};

Kept Keep(const std::vector<capstan::telemetry::v1::Record>& records) {
  Kept kept;
  int64_t last = 0;
  for (const auto& record : records) {
    if (record.producer_sequence() <= last) continue;
    last = record.producer_sequence();
    if (record.kind() == "log") {
      ++kept.lines;
      kept.line_bytes += static_cast<int64_t>(record.payload().size());
    } else if (record.kind() == "gap") {
      capstan::event::v1::GapRecord gap;
      EXPECT_TRUE(gap.ParseFromString(record.payload()));
      ++kept.gaps;
      kept.gap_lines += gap.dropped_records();
      kept.gap_bytes += gap.dropped_bytes();
    }
  }
  return kept;
}

TEST_F(LogShipperTest, LinesAndGapsAddUpToWhatWasWritten) {
  int64_t written = 0;
  int64_t lines = 0;
  const auto write = [&](int count) {
    for (int i = 0; i < count; ++i) {
      // Of many lengths, empty lines among them.
      const std::string line(static_cast<size_t>(lines * 37 % 1500), 'x');
      spill_->Write(lines % 3 == 0 ? 2 : 1, line + "\n");
      written += static_cast<int64_t>(line.size());
      ++lines;
    }
  };
  write(200);
  Ship(false);
  // Three outages that outlast the spill, in the second of which the agent is made anew.
  for (int outage = 0; outage < 3; ++outage) {
    sink_.failure = absl::UnavailableError("telemetry is away");
    for (int i = 0; i < 10; ++i) {
      write(1000);
      if (outage == 1 && i == 5) {
        Restart();
        Ship(false);
      }
      strand_.Advance(absl::Seconds(1));
    }
    sink_.failure = absl::OkStatus();
    strand_.Advance(absl::Minutes(2));
    write(100);
    strand_.Advance(absl::Minutes(2));
    const Kept kept = Keep(sink_.streams[kLog]);
    EXPECT_GE(kept.gaps, outage + 1);
    EXPECT_EQ(kept.lines + kept.gap_lines, lines);
    EXPECT_EQ(kept.line_bytes + kept.gap_bytes, written);
  }
  spill_->Flush();
  Ship(true);
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(shipped_, 1);
  EXPECT_EQ(Keep(sink_.streams[kLog]).lines + Keep(sink_.streams[kLog]).gap_lines, lines);
}

TEST_F(LogShipperTest, LinesThatTelemetryHasAreInNoGap) {
  const std::string line(999, 'x');
  const auto write = [&](int count) {
    for (int i = 0; i < count; ++i) spill_->Write(1, line + "\n");
  };
  sink_.failure = absl::DeadlineExceededError("the answer was lost");
  sink_.stores_all_the_same = true;
  write(50);
  Ship(false);
  ASSERT_EQ(sink_.streams[kLog].size(), 50u);
  sink_.stores_all_the_same = false;
  // Those are dropped on the Node before it hears that they are stored.
  write(4950);
  strand_.Advance(absl::Minutes(1));
  sink_.failure = absl::OkStatus();
  Ship(true);
  strand_.Advance(absl::Minutes(2));
  const Kept kept = Keep(sink_.streams[kLog]);
  EXPECT_EQ(kept.gaps, 1);
  EXPECT_EQ(kept.lines + kept.gap_lines, 5000);
  EXPECT_EQ(kept.line_bytes + kept.gap_bytes, 5000 * 999);
}

TEST_F(LogShipperTest, MetricsAreWholeValidLinesOnly) {
  Metric("{\"step\": 1, \"name\": \"loss\", \"value\": 0.5}\nnonsense\n{\"step\": 2, \"name\"");
  Ship(false);
  EXPECT_EQ(sink_.streams[kMetrics].size(), 1u);
  Metric(": \"acc/top-1\", \"value\": 1}\n{\"step\": 1.5, \"name\": \"a\", \"value\": 1}\n");
  strand_.Advance(absl::Seconds(1));
  ASSERT_EQ(sink_.streams[kMetrics].size(), 2u);
  EXPECT_EQ(sink_.streams[kMetrics][1].kind(), "metric");
  EXPECT_EQ(sink_.streams[kMetrics][1].payload(),
            "{\"step\": 2, \"name\": \"acc/top-1\", \"value\": 1}");
}

TEST_F(LogShipperTest, MetricsFileThatIsALinkIsNotFollowed) {
  const std::string secret = folder_ + "/secret";
  std::ofstream(secret) << "{\"step\": 1, \"name\": \"secret\", \"value\": 1}\n";
  ASSERT_EQ(symlink(secret.c_str(), (folder_ + "/metrics/metrics.jsonl").c_str()), 0);
  Ship(true);
  strand_.Advance(absl::Seconds(1));
  EXPECT_TRUE(sink_.streams[kMetrics].empty());
  EXPECT_EQ(shipped_, 1);
}

}  // namespace
}  // namespace capstan::node_agent
