#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/shim/log_frame.h"
#include "services/node_agent/shim/log_reader.h"
#include "services/node_agent/shim/log_spill.h"

namespace capstan::node_agent {
namespace {

constexpr int64_t kLimit = 1 << 20;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(getenv("TEST_TMPDIR"), "/logXXXXXX");
    folder_ = mkdtemp(pattern.data());
  }

  std::vector<std::string> Segments() {
    std::vector<std::string> names;
    DIR* dir = opendir(folder_.c_str());
    while (const dirent* entry = readdir(dir)) {
      if (ParseLogSegmentName(entry->d_name) >= 0) names.push_back(entry->d_name);
    }
    closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }
  int64_t TotalBytes() {
    int64_t total = 0;
    for (const std::string& name : Segments()) {
      struct stat st;
      EXPECT_EQ(stat(absl::StrCat(folder_, "/", name).c_str(), &st), 0);
      total += st.st_size;
    }
    return total;
  }
  std::vector<capstan::nodeagent::v1::ShimLogRecord> ReadAllRecords(LogCursor* cursor) {
    std::vector<capstan::nodeagent::v1::ShimLogRecord> records;
    while (true) {
      absl::StatusOr<LogBatch> batch = ReadLog(folder_, *cursor, 1000);
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (batch->records.empty()) return records;
      for (auto& record : batch->records) records.push_back(std::move(record));
      *cursor = batch->next;
    }
  }

  SimulatedClock clock_;
  std::string folder_;
};

TEST_F(LogTest, KeepsLinesOfBothStreamsInOrder) {
  LogSpill spill(folder_, kLimit, &clock_);
  spill.Write(1, "one\ntw");
  spill.Write(2, "err\n");
  spill.Write(1, "o\n\nunfinished");
  spill.Flush();
  LogCursor cursor;
  const auto records = ReadAllRecords(&cursor);
  ASSERT_EQ(records.size(), 5u);
  const std::vector<std::string> lines = {"one", "err", "two", "", "unfinished"};
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(records[i].line(), lines[i]);
    EXPECT_EQ(records[i].sequence(), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(records[i].fd(), i == 1 ? 2 : 1);
  }
}

TEST_F(LogTest, CutsLongLinesIntoPiecesThatJoin) {
  LogSpill spill(folder_, kLimit, &clock_);
  const std::string line(kLogLineLimit * 2 + 10, 'x');
  spill.Write(1, line + "\nnext\n");
  LogCursor cursor;
  const auto records = ReadAllRecords(&cursor);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_TRUE(records[0].partial());
  EXPECT_TRUE(records[1].partial());
  EXPECT_FALSE(records[2].partial());
  EXPECT_EQ(records[0].line() + records[1].line() + records[2].line(), line);
  EXPECT_EQ(records[3].line(), "next");
}

TEST_F(LogTest, StaysBelowItsBoundAndSaysWhatIsGone) {
  LogSpill spill(folder_, kLimit, &clock_);
  const std::string line(999, 'a');
  int64_t written = 0;
  for (int i = 0; i < 5000; ++i) {
    spill.Write(1, line + "\n");
    written += 999;
    ASSERT_LE(TotalBytes(), kLimit);
  }
  LogCursor cursor;
  const auto records = ReadAllRecords(&cursor);
  ASSERT_FALSE(records.empty());
  EXPECT_GT(records.front().sequence(), 1) << "the jump shows where the gap is";
  EXPECT_EQ(records.back().sequence(), 5000);
  const int64_t kept = static_cast<int64_t>(records.size()) * 999;
  EXPECT_EQ(records.front().position(), written - kept);
  for (size_t i = 1; i < records.size(); ++i) {
    EXPECT_EQ(records[i].position(), records[i - 1].position() + 999);
  }
}

TEST_F(LogTest, ALossAtTheEndIsShownOnceThereIsRoom) {
  LogSpill spill(folder_, kLimit, &clock_);
  spill.Write(1, "first\n");
  // Files can't grow any more, as on a full disk.
  struct rlimit before_full = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before_full), 0);
  const auto old_action = signal(SIGXFSZ, SIG_IGN);
  struct rlimit full = before_full;
  full.rlim_cur = static_cast<rlim_t>(TotalBytes());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  spill.Write(1, "lost\n\n");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before_full), 0);
  signal(SIGXFSZ, old_action);
  spill.Flush();
  LogCursor cursor;
  const auto records = ReadAllRecords(&cursor);
  ASSERT_GE(records.size(), 2u);
  const auto& before = records[records.size() - 2];
  EXPECT_EQ(records.back().sequence(), before.sequence() + 3);
  EXPECT_EQ(records.back().position(),
            before.position() + static_cast<int64_t>(before.line().size()) + 4);
}

TEST_F(LogTest, WhatHasBeenShippedIsNoLoss) {
  LogSpill spill(folder_, kLimit, &clock_);
  LogCursor cursor;
  int64_t count = 0;
  for (int i = 0; i < 5000; ++i) {
    spill.Write(1, std::string(999, 'a') + "\n");
    if (i % 100 != 0) continue;
    for (const auto& record : ReadAllRecords(&cursor)) {
      EXPECT_EQ(record.sequence(), ++count);
      EXPECT_EQ(record.dropped_bytes(), 0);
    }
    ASSERT_TRUE(RemoveShippedSegments(folder_, cursor).ok());
  }
  ReadAllRecords(&cursor);
  EXPECT_EQ(cursor.next_sequence, 5001);
}

TEST_F(LogTest, ATornTailIsWaitedForAndThenRead) {
  LogSpill spill(folder_, kLimit, &clock_);
  spill.Write(1, "whole\nlast\n");
  const std::string path = absl::StrCat(folder_, "/", Segments().at(0));
  struct stat st;
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (off_t cut = 1; cut < 20; ++cut) {
    ASSERT_EQ(truncate(path.c_str(), st.st_size - cut), 0);
    LogCursor cursor;
    ASSERT_EQ(ReadAllRecords(&cursor).size(), 1u);
    std::ofstream(path, std::ios::binary) << bytes;
    const auto rest = ReadAllRecords(&cursor);
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(rest[0].line(), "last");
  }
}

TEST_F(LogTest, DamageEndsASegmentButNotTheLog) {
  LogSpill spill(folder_, kLimit, &clock_);
  for (int i = 0; i < 300; ++i) spill.Write(1, std::string(999, 'a') + "\n");
  ASSERT_GE(Segments().size(), 2u);
  const std::string path = absl::StrCat(folder_, "/", Segments().at(0));
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(5000);
  file << "damage";
  file.close();
  LogCursor cursor;
  const auto records = ReadAllRecords(&cursor);
  EXPECT_EQ(records.back().sequence(), 300);
  EXPECT_LT(records.size(), 300u);
}

}  // namespace
}  // namespace capstan::node_agent
