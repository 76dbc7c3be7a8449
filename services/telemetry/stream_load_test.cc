// Streams under what goes wrong while much is written: retention that drops what readers have not
// had, readers that are slow or take nothing at all, producers that send everything twice, a disk
// that fills up. Whatever happens, each key's records come in order, and nothing is missing without
// a gap record where it was.
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/event/v1/job_event.pb.h"
#include "services/telemetry/adapters/stream_files.h"
#include "services/telemetry/core/stream_rules.h"
#include "services/telemetry/engine.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::telemetry {
namespace {

constexpr char kLog[] = "projects/p/jobs/j/streams/log";
constexpr int kKeys = 4;

// What a reader has got. Takes one response, then none until Take is called, unless `eager`.
class Reader final : public RecordSink {
 public:
  struct Got {
    absl::Mutex mutex;
    std::vector<v1::Record> records ABSL_GUARDED_BY(mutex);
    bool full ABSL_GUARDED_BY(mutex) = false;
    Strand::Task drained ABSL_GUARDED_BY(mutex);
    bool caught_up ABSL_GUARDED_BY(mutex) = false;
    absl::Notification ended;
  };

  Reader(std::shared_ptr<Got> got, Strand* strand, bool eager)
      : got_(std::move(got)), strand_(strand), eager_(eager) {}
  ~Reader() override {
    if (!got_->ended.HasBeenNotified()) got_->ended.Notify();
  }

  absl::Status Write(const v1::ReadRecordsResponse& response) override {
    absl::MutexLock lock(&got_->mutex);
    if (got_->full) return absl::ResourceExhaustedError("slow");
    got_->records.insert(got_->records.end(), response.records().begin(), response.records().end());
    got_->caught_up |= response.caught_up();
    got_->full = !eager_;
    return absl::OkStatus();
  }
  void NotifyDrained(Strand::Task task) override {
    absl::MutexLock lock(&got_->mutex);
    if (got_->full) {
      got_->drained = std::move(task);
    } else {
      strand_->Post(std::move(task));
    }
  }
  void NotifyClosed(Strand::Task) override {}
  void Finish(const absl::Status&) override { got_->ended.Notify(); }

  // What a slow one does now and then.
  static void Take(Got* got, Strand* strand) {
    absl::MutexLock lock(&got->mutex);
    got->full = false;
    if (got->drained) strand->Post(std::exchange(got->drained, nullptr));
  }

 private:
  const std::shared_ptr<Got> got_;
  Strand* const strand_;
  const bool eager_;
};

int64_t SequenceOf(const v1::Record& record) { return record.producer_sequence(); }

// Checks what a reader got from the beginning of the Stream: offsets rise by one, or a gap record
// says how many are gone; each key's sequences rise by one, or a gap came since.
void CheckReader(const std::vector<v1::Record>& records) {
  int64_t next = 1;
  std::map<std::string, int64_t> last;
  bool gap_since = false;
  std::map<std::string, bool> gap;
  for (const v1::Record& record : records) {
    if (IsRetentionGap(record)) {
      ASSERT_GE(record.offset(), next) << "a gap that holds nothing";
      event::v1::GapRecord said;
      ASSERT_TRUE(said.ParseFromString(record.payload()));
      EXPECT_EQ(said.dropped_records(), record.offset() - next + 1) << "all that it stands for";
      next = record.offset() + 1;
      gap_since = true;
      for (auto& [key, missing] : gap) missing = true;
      continue;
    }
    ASSERT_EQ(record.offset(), next) << "records are missing, and no gap says so";
    ++next;
    const auto known = last.find(record.key());
    if (known == last.end()) {
      EXPECT_TRUE(gap_since || SequenceOf(record) == 1) << record.key();
    } else if (gap[record.key()]) {
      EXPECT_GT(SequenceOf(record), known->second) << record.key();
    } else {
      EXPECT_EQ(SequenceOf(record), known->second + 1) << record.key();
    }
    last[record.key()] = SequenceOf(record);
    gap[record.key()] = false;
  }
}

class StreamLoadTest : public ::testing::TestWithParam<int> {
 protected:
  void Open(StreamFiles::Options options, absl::Duration retain_every) {
    auto files = StreamFiles::Open(std::move(options), &strand_, &logger_);
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
    Run([&] {
      engine_ = std::make_unique<Engine>(Engine::Options{.retain_every = retain_every},
                                         files_.get(), &strand_, &metrics_);
      engine_->Start();
    });
  }
  void Close() {
    Run([this] {
      if (engine_ == nullptr) return;
      engine_->Stop();
      engine_ = nullptr;
    });
    files_ = nullptr;
  }
  void TearDown() override {
    Close();
    strand_.Stop();
  }
  void Run(const std::function<void()>& work) {
    absl::Notification done;
    strand_.Post([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }

  static v1::Record RecordOf(int key, int64_t sequence, size_t bytes) {
    v1::Record record;
    record.set_kind("log");
    record.set_producer("/node/local/n1:shim");
    record.set_key(absl::StrCat("w-", key));
    record.set_producer_sequence(sequence);
    record.set_payload(std::string(bytes, static_cast<char>('a' + sequence % 26)));
    return record;
  }
  absl::StatusOr<Appended> Append(std::vector<v1::Record> records) {
    absl::Notification done;
    absl::StatusOr<Appended> result = absl::InternalError("");
    strand_.Post([&, records = std::move(records)]() mutable {
      engine_->Append({{kLog, std::move(records)}}, [&](AppendResults results) {
        result = std::move(results.front());
        done.Notify();
      });
    });
    done.WaitForNotification();
    return result;
  }
  std::shared_ptr<Reader::Got> Follow(bool eager, bool follow = true) {
    auto got = std::make_shared<Reader::Got>();
    Run([&] {
      v1::ReadRecordsRequest request;
      request.set_stream(kLog);
      request.set_follow(follow);
      engine_->OpenReader(request, std::make_unique<Reader>(got, &strand_, eager));
    });
    return got;
  }
  std::vector<v1::Record> ReadAll() {
    const auto got = Follow(/*eager=*/true, /*follow=*/false);
    got->ended.WaitForNotification();
    absl::MutexLock lock(&got->mutex);
    return got->records;
  }

  SystemClock clock_;
  ThreadStrand strand_{"telemetry", &clock_};
  log::TestingSink sink_;
  log::Logger logger_{"telemetry", &clock_, &sink_};
  metrics::Registry metrics_{"telemetry"};
  std::unique_ptr<StreamFiles> files_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(StreamLoadTest, NothingIsMissingWithoutAGapRecord) {
  const TemporaryFolder folder;
  // In every other seed it begins as a small one.
  const StreamFiles::Options options = {.root = folder.path(),
                                        .segment_bytes = 8 << 10,
                                        .small_bytes = GetParam() % 2 * (GetParam() << 11),
                                        .keep_bytes = 64 << 10};
  Open(options, absl::Milliseconds(1));
  Random random(static_cast<uint64_t>(GetParam()));
  const auto below = [&random](uint64_t bound) { return random.Next() % bound; };
  const auto fast = Follow(/*eager=*/true);
  const auto slow = Follow(/*eager=*/false);
  const auto dead = Follow(/*eager=*/false);
  std::map<int, int64_t> sent;
  constexpr int kBatches = 300;
  for (int batch = 0; batch < kBatches; ++batch) {
    std::vector<v1::Record> records;
    const auto count = 1 + below(8);
    for (uint64_t i = 0; i < count; ++i) {
      const int key = static_cast<int>(below(kKeys));
      records.push_back(RecordOf(key, ++sent[key], below(1500)));
    }
    const auto first = Append(records);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(first->duplicates, 0);
    if (below(4) == 0) {
      // Its answer was lost.
      const auto again = Append(records);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->duplicates, static_cast<int32_t>(records.size()));
    }
    if (below(3) == 0) Reader::Take(slow.get(), &strand_);
  }
  int64_t total = 0;
  for (const auto& [key, last] : sent) total += last;
  const auto at_end = [total](Reader::Got* got) {
    absl::MutexLock lock(&got->mutex);
    return !got->records.empty() && got->records.back().offset() == total;
  };
  const BootTime end = clock_.Read().boot + absl::Seconds(60);
  while (!(at_end(fast.get()) && at_end(slow.get())) && clock_.Read().boot < end) {
    Reader::Take(slow.get(), &strand_);
    Run([] {});
  }
  EXPECT_TRUE(at_end(fast.get()));
  EXPECT_TRUE(at_end(slow.get()));
  for (Reader::Got* got : {fast.get(), slow.get(), dead.get()}) {
    absl::MutexLock lock(&got->mutex);
    CheckReader(got->records);
  }
  const std::vector<v1::Record> late = ReadAll();
  ASSERT_FALSE(late.empty());
  EXPECT_TRUE(IsRetentionGap(late.front())) << "retention had something to do";
  CheckReader(late);
  Close();
  // Also over a restart.
  Open(options, absl::Milliseconds(1));
  CheckReader(ReadAll());
}

INSTANTIATE_TEST_SUITE_P(Seeds, StreamLoadTest, ::testing::Range(1, 21));

// A file system of its own that is 1 MiB large, in a mount namespace of the test's.
class FullDiskTest : public StreamLoadTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: mounts a small file system";
    // Threads that are made from here on are in the namespace, among them those that use the disk.
    ASSERT_EQ(unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m"), 0);
  }
  void TearDown() override {
    StreamLoadTest::TearDown();
    if (geteuid() == 0) umount2(folder_.path().c_str(), MNT_DETACH);
  }

  const TemporaryFolder folder_;
};

TEST_P(FullDiskTest, WhatIsNotOnDiskIsNotAcknowledgedAndReadingGoesOn) {
  const std::string filler = folder_.path() + "/filler";
  std::ofstream(filler) << std::string(300 << 10, 'f');
  const StreamFiles::Options options = {
      .root = folder_.path() + "/streams", .segment_bytes = 64 << 10, .small_bytes = GetParam()};
  std::filesystem::create_directories(options.root);
  Open(options, absl::Minutes(5));
  std::map<int, int64_t> acknowledged;
  const auto send = [&](int key) {
    // Also what was refused before comes again, under its own sequence.
    const absl::Status status = Append({RecordOf(key, acknowledged[key] + 1, 3000),
                                        RecordOf(key, acknowledged[key] + 2, 10)})
                                    .status();
    if (status.ok()) acknowledged[key] += 2;
    return status;
  };
  absl::Status full;
  for (int i = 0; full.ok() && i < 1000; ++i) full = send(i % kKeys);
  ASSERT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(status::Reason(full), "NO_SPACE");
  const auto expect_all = [&] {
    const std::vector<v1::Record> records = ReadAll();
    CheckReader(records);
    std::map<int, int64_t> there;
    for (const v1::Record& record : records) ++there[record.key().back() - '0'];
    EXPECT_EQ(there, acknowledged);
  };
  expect_all();
  EXPECT_FALSE(send(1).ok());
  // A service that starts on a full disk reads too.
  Close();
  Open(options, absl::Minutes(5));
  expect_all();
  EXPECT_FALSE(send(2).ok());
  std::filesystem::remove(filler);
  for (int i = 0; i < 20; ++i) {
    const absl::Status status = send(i % kKeys);
    ASSERT_TRUE(status.ok()) << status;
  }
  expect_all();
}

// Bytes after which the Stream has a log of its own.
INSTANTIATE_TEST_SUITE_P(Small, FullDiskTest, ::testing::Values(0, 5 << 10, 40 << 10));

TEST_F(FullDiskTest, SmallStreamsAreReadAndGoOnOnceThereIsRoom) {
  const std::string filler = folder_.path() + "/filler";
  std::ofstream(filler) << std::string(300 << 10, 'f');
  const StreamFiles::Options options = {.root = folder_.path() + "/streams",
                                        .small_bytes = 10 << 20};
  std::filesystem::create_directories(options.root);
  Open(options, absl::Minutes(5));
  int64_t acknowledged = 0;
  const auto send = [&] {
    const absl::Status status = Append({RecordOf(0, acknowledged + 1, 3000)}).status();
    if (status.ok()) ++acknowledged;
    return status;
  };
  const auto expect_all = [&] {
    const std::vector<v1::Record> records = ReadAll();
    CheckReader(records);
    EXPECT_EQ(static_cast<int64_t>(records.size()), acknowledged);
  };
  absl::Status full;
  while (full.ok() && acknowledged < 1000) full = send();
  ASSERT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(status::Reason(full), "NO_SPACE");
  EXPECT_GT(acknowledged, 10);
  expect_all();
  Close();
  Open(options, absl::Minutes(5));
  expect_all();
  std::filesystem::remove(filler);
  for (int i = 0; i < 8; ++i) {
    const absl::Status status = send();
    ASSERT_TRUE(status.ok()) << status;
  }
  expect_all();
}

}  // namespace
}  // namespace capstan::telemetry
