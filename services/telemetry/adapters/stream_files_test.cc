// Where Streams lie: small ones together, others in files of their own; and what a crash between
// the two leaves. What is read and dropped under load is in stream_load_test.cc.
#include "services/telemetry/adapters/stream_files.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/store/sqlite_connection.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"
#include "services/telemetry/adapters/small_streams.h"
#include "services/telemetry/core/stream_rules.h"
#include "services/telemetry/core/subscription_book.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::telemetry {
namespace {

namespace fs = ::std::filesystem;

constexpr char kEvents[] = "projects/p/jobs/j/streams/events";
constexpr int64_t kSmall = 2000;
constexpr absl::Duration kKeepFor = absl::Hours(10);

class StreamFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void TearDown() override {
    files_ = nullptr;
    strand_.Stop();
  }
  void Open(int64_t small_bytes = kSmall) {
    files_ = nullptr;
    auto files = StreamFiles::Open(
        {.root = folder_.path(), .small_bytes = small_bytes, .keep_for = kKeepFor}, &strand_,
        &logger_);
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
  }
  // A process that is away meanwhile.
  void WithSmall(const std::function<void(SmallStreams*)>& work) {
    files_ = nullptr;
    auto small = SmallStreams::Open(folder_.path() + "/small.sqlite");
    ASSERT_TRUE(small.ok()) << small.status();
    work(small->get());
    ASSERT_TRUE((*small)->Commit().ok());
  }

  static v1::Record RecordOf(int64_t sequence, size_t bytes = 10) {
    v1::Record record;
    record.set_kind("event");
    record.set_producer("scheduler");
    record.set_producer_sequence(sequence);
    record.set_payload(absl::StrCat(sequence, std::string(bytes, 'x')));
    return record;
  }
  // Sequences from `first` to `last` in one append.
  absl::StatusOr<Appended> Append(const std::string& stream, int64_t first, int64_t last,
                                  size_t bytes = 10) {
    std::vector<v1::Record> records;
    for (int64_t i = first; i <= last; ++i) records.push_back(RecordOf(i, bytes));
    absl::Notification done;
    absl::StatusOr<Appended> result = absl::UnknownError("");
    std::vector<StreamAppend> appends;
    appends.push_back({stream, std::move(records)});
    files_->Append(std::move(appends), [&](AppendResults results) {
      result = std::move(results.front());
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  StreamFiles::Piece Read(const std::string& stream, StreamFiles::Position position = {1, 0}) {
    absl::Notification done;
    absl::StatusOr<StreamFiles::Piece> piece = absl::UnknownError("");
    files_->Read(stream, position, 1 << 20, [&](absl::StatusOr<StreamFiles::Piece> got) {
      piece = std::move(got);
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_TRUE(piece.ok()) << piece.status();
    return piece.ok() ? *std::move(piece) : StreamFiles::Piece();
  }
  // Expects sequences 1 to `last` under the same offsets.
  void ExpectAll(const std::string& stream, int64_t last) {
    const StreamFiles::Piece piece = Read(stream);
    ASSERT_EQ(static_cast<int64_t>(piece.records.size()), last) << stream;
    for (int64_t i = 1; i <= last; ++i) {
      EXPECT_EQ(piece.records[i - 1].offset(), i);
      EXPECT_EQ(piece.records[i - 1].producer_sequence(), i);
    }
    EXPECT_EQ(piece.end_offset, last + 1);
    EXPECT_EQ(Extent(stream), (StreamExtent{1, last + 1}));
    const StreamFiles::Piece tail = Read(stream, {0, 1});
    ASSERT_EQ(tail.records.size(), 1u);
    EXPECT_EQ(tail.records[0].offset(), last);
  }
  StreamExtent Extent(const std::string& stream) {
    absl::Notification done;
    StreamExtent extent;
    files_->FindExtent(stream, [&](absl::StatusOr<StreamExtent> found) {
      EXPECT_TRUE(found.ok()) << found.status();
      if (found.ok()) extent = *found;
      done.Notify();
    });
    done.WaitForNotification();
    return extent;
  }
  void Retain() {
    files_->Retain();
    AwaitRetention();
  }
  void AwaitRetention() {
    // Behind it in the readers' queue, and then in the writer's.
    Extent("projects/p/jobs/none/streams/events");
    ASSERT_TRUE(Append("projects/p/jobs/other/streams/log", 1, 1).ok());
    ASSERT_TRUE(Append("projects/p/jobs/other/streams/log", 1, 1).ok());
  }
  bool HasFolder(const std::string& stream) const {
    return fs::exists(folder_.path() + "/" + stream);
  }

  const TemporaryFolder folder_;
  // Begins with the machine's, which the files' times are of.
  SimulatedClock clock_{SystemClock().Read()};
  ThreadStrand strand_{"telemetry", &clock_};
  log::TestingSink sink_;
  log::Logger logger_{"telemetry", &clock_, &sink_};
  std::unique_ptr<StreamFiles> files_;
};

TEST_F(StreamFilesTest, FewBytesTakeNoFileOfTheirOwn) {
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(Append(absl::StrCat("projects/p/jobs/j", i, "/streams/events"), 1, 3).ok());
  }
  EXPECT_FALSE(HasFolder("projects"));
  for (int start = 0; start < 2; ++start) {
    for (int i = 0; i < 300; ++i)
      ExpectAll(absl::StrCat("projects/p/jobs/j", i, "/streams/events"), 3);
    Open();
  }
}

TEST_F(StreamFilesTest, TheAuditTrailHasFilesOfItsOwn) {
  ASSERT_TRUE(Append(kAuditStream, 1, 1).ok());
  EXPECT_TRUE(HasFolder(kAuditStream));
}

TEST_F(StreamFilesTest, WhatWasSentBeforeIsKnownWhereverTheStreamLies) {
  for (int64_t last = 3; last <= 60; last += 3) {
    // Some come again with each, also over a start, and in both places.
    const auto appended = Append(kEvents, std::max<int64_t>(1, last - 7), last, 30);
    ASSERT_TRUE(appended.ok()) << appended.status();
    EXPECT_EQ(appended->last_offset, last);
    EXPECT_EQ(appended->duplicates, std::min<int64_t>(5, last - 3));
    if (last % 9 == 0) Open();
    ExpectAll(kEvents, last);
    const auto again = Append(kEvents, 1, last, 30);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->last_offset, last);
    EXPECT_EQ(again->duplicates, last);
  }
  EXPECT_TRUE(HasFolder(kEvents));
  WithSmall([](SmallStreams* small) {
    EXPECT_EQ(*small->LastWrite(kEvents), absl::InfinitePast()) << "its rows are gone";
  });
}

TEST_F(StreamFilesTest, OneLongAppendGoesToAFileAtOnce) {
  ASSERT_TRUE(Append(kEvents, 1, 10, 1000).ok());
  EXPECT_TRUE(HasFolder(kEvents));
  ExpectAll(kEvents, 10);
}

TEST_F(StreamFilesTest, RowsThatAreInTheLogAsWellCountOnce) {
  ASSERT_TRUE(Append(kEvents, 1, 30, 100).ok());
  ASSERT_TRUE(HasFolder(kEvents));
  // As a crash leaves it, behind the sync of the log and before the rows are gone.
  WithSmall([](SmallStreams* small) {
    small->Append(kEvents, 1, {RecordOf(1).SerializeAsString(), RecordOf(2).SerializeAsString()},
                  absl::UnixEpoch());
  });
  Open();
  ExpectAll(kEvents, 30);
  ASSERT_TRUE(Append(kEvents, 29, 31, 100).ok());
  ExpectAll(kEvents, 31);
  WithSmall([](SmallStreams* small) {
    EXPECT_EQ(*small->LastWrite(kEvents), absl::InfinitePast()) << "they are gone now";
  });
}

TEST_F(StreamFilesTest, ALogThatHoldsLessThanTheRowsIsBegunAnew) {
  ASSERT_TRUE(Append(kEvents, 1, 3, 1000).ok());
  ASSERT_TRUE(HasFolder(kEvents));
  // As a power cut leaves it that came before the sync of the log.
  WithSmall([](SmallStreams* small) {
    std::vector<std::string> payloads;
    for (int i = 1; i <= 5; ++i) payloads.push_back(RecordOf(i, 300).SerializeAsString());
    small->Append(kEvents, 1, payloads, absl::UnixEpoch());
  });
  for (int start = 0; start < 2; ++start) {
    Open();
    ExpectAll(kEvents, 5);
  }
  ASSERT_TRUE(Append(kEvents, 5, 9, 300).ok());
  for (int start = 0; start < 2; ++start) {
    ExpectAll(kEvents, 9);
    EXPECT_EQ(Read(kEvents).records[2].payload().size(), 301u) << "not what the old log had";
    Open();
  }
}

TEST_F(StreamFilesTest, AProgramThatMakesNoSmallOnesGoesOnWithThem) {
  ASSERT_TRUE(Append(kEvents, 1, 3).ok());
  Open(/*small_bytes=*/0);
  ExpectAll(kEvents, 3);
  ASSERT_TRUE(Append(kEvents, 2, 4).ok());
  EXPECT_TRUE(HasFolder(kEvents));
  ExpectAll(kEvents, 4);
  Open();
  ASSERT_TRUE(Append(kEvents, 5, 5).ok());
  ExpectAll(kEvents, 5);
}

TEST_F(StreamFilesTest, ADamagedRowHidesNothingElse) {
  ASSERT_TRUE(Append(kEvents, 1, 2).ok());
  WithSmall([](SmallStreams* small) { small->Append(kEvents, 3, {}, absl::UnixEpoch()); });
  {
    auto db = store::SqliteConnection::Open(folder_.path() + "/small.sqlite", true, false);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Execute("UPDATE pieces SET records = 2 WHERE first = 3").ok());
  }
  Open();
  // Offsets 3 and 4 are not given again; nor can it move, with a hole.
  for (int64_t i = 5; i <= 40; ++i) {
    const auto appended = Append(kEvents, i, i, 100);
    ASSERT_TRUE(appended.ok()) << appended.status();
    EXPECT_EQ(appended->last_offset, i);
  }
  EXPECT_EQ(Read(kEvents).records.size(), 2u);
  EXPECT_EQ(Read(kEvents, {5, 0}).records.size(), 36u);
  const auto logged = sink_.records();
  EXPECT_EQ(std::count_if(logged.begin(), logged.end(),
                          [](const log::Record& record) {
                            return record.message ==
                                   "records that were on disk can't be read any more";
                          }),
            1);
}

TEST_F(StreamFilesTest, RetentionTakesStreamsThatAreSilentForTooLong) {
  const std::string kept = "projects/p/jobs/kept/streams/events";
  const std::string old_log = "projects/p/jobs/old/streams/log";
  ASSERT_TRUE(Append(kEvents, 1, 3).ok());
  ASSERT_TRUE(Append(kept, 1, 3).ok());
  ASSERT_TRUE(Append(old_log, 1, 9, 1000).ok());
  files_->KeepNewest({kept});
  clock_.Advance(kKeepFor - absl::Minutes(1));
  Retain();
  ExpectAll(kEvents, 3);
  // It goes on: none of it leaves.
  ASSERT_TRUE(Append(kEvents, 4, 4).ok());
  clock_.Advance(absl::Minutes(2));
  Retain();
  ExpectAll(kEvents, 4);
  ExpectAll(kept, 3);
  clock_.Advance(kKeepFor);
  Retain();
  EXPECT_EQ(Extent(kEvents), (StreamExtent{1, 1}));
  ExpectAll(kept, 3);
  EXPECT_FALSE(HasFolder(old_log));
  EXPECT_FALSE(HasFolder("projects")) << "nor what was around it";
  Open();
  EXPECT_EQ(Extent(kEvents), (StreamExtent{1, 1}));
  // Anew from the beginning.
  ASSERT_TRUE(Append(kEvents, 1, 2).ok());
  ExpectAll(kEvents, 2);
}

TEST_F(StreamFilesTest, WhatComesWhileRetentionIsAtWorkStays) {
  // A log's age is by the machine's clock.
  Open(/*small_bytes=*/1 << 20);
  for (int64_t i = 1; i <= 200; ++i) {
    clock_.Advance(kKeepFor + absl::Minutes(1));
    files_->Retain();
    ASSERT_TRUE(Append(kEvents, i, i).ok());
    AwaitRetention();
    const StreamFiles::Piece piece = Read(kEvents);
    ASSERT_FALSE(piece.records.empty()) << i;
    ASSERT_EQ(piece.records.back().producer_sequence(), i);
  }
}

}  // namespace
}  // namespace capstan::telemetry
