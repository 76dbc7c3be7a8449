// How Streams lie below their folder: as segments of libs/segment_log, and small ones together.
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/golden/sqlite_dump.h"
#include "libs/log/testing_sink.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "libs/time/simulated_clock.h"
#include "services/telemetry/adapters/stream_files.h"
#include "services/telemetry/ports/streams.h"

namespace capstan::telemetry {
namespace {

constexpr char kPackage[] = "services/telemetry/adapters";
constexpr int64_t kSmallBytes = 32 << 10;
constexpr char kStream[] = "projects/p/jobs/j/streams/log";

v1::Record Record(int64_t sequence, const std::string& payload) {
  v1::Record record;
  record.set_kind("log");
  record.set_producer("shim@7");
  record.set_key("w-0");
  record.set_producer_sequence(sequence);
  record.set_payload(payload);
  return record;
}

class StoredStreamsTest : public ::testing::Test {
 protected:
  StoredStreamsTest() : strand_("streams", &clock_), logger_("test", &clock_, &sink_) {}
  ~StoredStreamsTest() override {
    files_.reset();
    strand_.Stop();
  }

  void Open(const std::string& root, int64_t small_bytes) {
    files_.reset();
    auto opened = StreamFiles::Open({.root = root, .small_bytes = small_bytes}, &strand_, &logger_);
    ASSERT_TRUE(opened.ok()) << opened.status() << golden::kMustRead;
    files_ = *std::move(opened);
  }
  Appended Append(std::vector<v1::Record> records) {
    Appended appended;
    absl::Notification done;
    files_->Append({{kStream, std::move(records)}}, [&](const AppendResults& results) {
      EXPECT_TRUE(results.front().ok()) << results.front().status() << golden::kMustRead;
      if (results.front().ok()) appended = *results.front();
      done.Notify();
    });
    done.WaitForNotification();
    return appended;
  }
  std::vector<std::string> Payloads() {
    std::vector<std::string> payloads;
    absl::Notification done;
    files_->Read(kStream, {1, 0}, 1 << 20, [&](absl::StatusOr<StreamFiles::Piece> piece) {
      EXPECT_TRUE(piece.ok()) << piece.status() << golden::kMustRead;
      if (piece.ok()) {
        for (const v1::Record& record : piece->records) payloads.push_back(record.payload());
      }
      done.Notify();
    });
    done.WaitForNotification();
    return payloads;
  }

  // What was released is all there and goes on, wherever this version would put the Stream.
  void ExpectReleasedIsReadAndGoesOn(const std::string& root) {
    Open(root, kSmallBytes);
    EXPECT_EQ(Payloads(), (std::vector<std::string>{"one", "two"}));
    // How far the producer had come is known too.
    const Appended appended = Append({Record(4, "one"), Record(9, "two"), Record(10, "three")});
    EXPECT_EQ(appended.duplicates, 2) << golden::kMustRead;
    EXPECT_EQ(appended.last_offset, 3);
    EXPECT_EQ(Payloads(), (std::vector<std::string>{"one", "two", "three"}));
    files_.reset();
  }
  void Write(const std::string& root, int64_t small_bytes) {
    Open(root, small_bytes);
    Append({Record(4, "one")});
    Append({Record(9, "two")});
    files_.reset();
  }

  SimulatedClock clock_{Now{absl::FromUnixSeconds(1'700'000'000), BootTime()}};
  ThreadStrand strand_;
  log::TestingSink sink_;
  log::Logger logger_;
  std::unique_ptr<StreamFiles> files_;
};

TEST_F(StoredStreamsTest, ReleasedSegmentsAreReadAndGoOn) {
  const golden::Format format(kPackage, "streams", "folder");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    const std::string root = folder.path() + "/streams";
    ASSERT_EQ(mkdir(root.c_str(), 0755), 0);
    ASSERT_EQ(mkdir((root + "/projects").c_str(), 0755), 0);
    golden::RestoreFolder(version.bytes, root + "/projects");
    ExpectReleasedIsReadAndGoesOn(root);
  }
  const TemporaryFolder folder;
  Write(folder.path(), /*small_bytes=*/0);
  format.ExpectWritten(golden::DumpFolder(folder.path() + "/projects"));
}

TEST_F(StoredStreamsTest, ReleasedSmallStreamsAreReadAndGoOn) {
  const golden::Format format(kPackage, "small_streams", "sql");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    golden::RestoreSqlite(version.bytes, folder.path() + "/small.sqlite");
    ExpectReleasedIsReadAndGoesOn(folder.path());
  }
  const TemporaryFolder folder;
  Write(folder.path(), kSmallBytes);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/projects"));
  format.ExpectWritten(golden::DumpSqlite(folder.path() + "/small.sqlite"));
}

}  // namespace
}  // namespace capstan::telemetry
