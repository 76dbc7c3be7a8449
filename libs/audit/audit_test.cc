#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_file.h"
#include "libs/audit/audit_log.h"
#include "libs/status/error.h"
#include "libs/time/simulated_clock.h"

namespace capstan::audit {
namespace {

using event::v1::AuditRecord;

void Ignore(const AuditRecord&) {}

AuditEntry Entry(int i) {
  AuditEntry entry;
  entry.principal = "spiffe://test.capstan.dev/person/1000";
  entry.act = "/capstan.credentials.v1.JoinService/Join";
  entry.resource = absl::StrCat("nodes/", i);
  entry.outcome_code = i % 2 == 0 ? 0 : 7;
  entry.message = "done";
  return entry;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class AuditTest : public ::testing::Test {
 protected:
  AuditTest() {
    static int number = 0;
    path_ = absl::StrCat(::testing::TempDir(), "/audit", getpid(), "-", ++number);
  }

  std::unique_ptr<AuditLog> Open() {
    absl::StatusOr<std::unique_ptr<AuditLog>> log = AuditLog::Open(path_, "credentials", &clock_);
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }

  // Frames of a chain of `n` records, and its head.
  std::vector<std::string> Frames(int n, ChainHead* head) {
    std::vector<std::string> frames;
    const std::unique_ptr<AuditLog> log = Open();
    for (int i = 0; i < n; ++i) {
      const size_t before = ReadFile(path_).size();
      EXPECT_TRUE(log->Record(Entry(i)).ok());
      frames.push_back(ReadFile(path_).substr(before));
    }
    *head = log->head();
    return frames;
  }

  SimulatedClock clock_;
  std::string path_;
};

TEST_F(AuditTest, RecordsAreOnDiskAndChained) {
  const std::unique_ptr<AuditLog> log = Open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(log->Record(Entry(i)).ok());
  std::vector<AuditRecord> records;
  const auto content = VerifyFile(path_, "credentials", log->head(),
                                  [&](const AuditRecord& record) { records.push_back(record); });
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->head, log->head());
  EXPECT_EQ(content->torn_bytes, 0);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[2].sequence(), 3);
  EXPECT_EQ(records[2].resource(), "nodes/2");
  EXPECT_EQ(records[0].previous_hash(), std::string(32, '\0'));
}

TEST_F(AuditTest, TheChainGoesOnAfterAReopen) {
  Open()->Record(Entry(0)).IgnoreError();
  Open()->Record(Entry(1)).IgnoreError();
  const auto content = VerifyFile(path_, "credentials", absl::nullopt, Ignore);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->head.sequence, 2);
}

TEST_F(AuditTest, EveryFlippedBitIsFound) {
  ChainHead head;
  const std::vector<std::string> frames = Frames(4, &head);
  const std::string good = absl::StrCat(frames[0], frames[1], frames[2], frames[3]);
  ASSERT_TRUE(VerifyChain(good, "credentials", head, Ignore).ok());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const auto content = VerifyChain(bad, "credentials", head, Ignore);
    ASSERT_EQ(status::Reason(content.status()), "AUDIT_CHAIN_BROKEN") << "bit " << bit;
    // The record that holds the bit is the first bad one.
    size_t record = 1;
    for (size_t end = frames[0].size(); bit / 8 >= end; end += frames[record++].size()) {
    }
    EXPECT_EQ(status::GetErrorInfo(content.status())->metadata.at("sequence"), absl::StrCat(record))
        << "bit " << bit;
  }
}

TEST_F(AuditTest, RemovalReorderInsertionAndTruncationAreFound) {
  ChainHead head;
  const std::vector<std::string> f = Frames(4, &head);
  const auto broken = [&](const std::string& bytes) {
    return status::Reason(VerifyChain(bytes, "credentials", head, Ignore).status()) ==
           "AUDIT_CHAIN_BROKEN";
  };
  for (size_t removed = 0; removed < 4; ++removed) {
    std::string bytes;
    for (size_t i = 0; i < 4; ++i) {
      if (i != removed) bytes += f[i];
    }
    EXPECT_TRUE(broken(bytes)) << removed;
  }
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = a + 1; b < 4; ++b) {
      std::vector<std::string> swapped = f;
      std::swap(swapped[a], swapped[b]);
      EXPECT_TRUE(broken(absl::StrCat(swapped[0], swapped[1], swapped[2], swapped[3])));
    }
  }
  EXPECT_TRUE(broken(absl::StrCat(f[0], f[1], f[1], f[2], f[3])));
  const std::string good = absl::StrCat(f[0], f[1], f[2], f[3]);
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_TRUE(broken(good.substr(0, length))) << length;
  }
}

TEST_F(AuditTest, ARewrittenChainIsFoundByItsHead) {
  ChainHead head;
  Frames(3, &head);
  const std::string first = path_;
  path_ += "-other";
  ChainHead other_head;
  clock_.Advance(absl::Seconds(1));
  const std::vector<std::string> f = Frames(3, &other_head);
  const std::string other = absl::StrCat(f[0], f[1], f[2]);
  EXPECT_TRUE(VerifyChain(other, "credentials", other_head, Ignore).ok());
  EXPECT_FALSE(VerifyChain(other, "credentials", head, Ignore).ok());
  EXPECT_FALSE(VerifyChain(other, "scheduler", other_head, Ignore).ok());
}

TEST_F(AuditTest, AnOlderHeadIsStillInALongerChain) {
  ChainHead head;
  Frames(2, &head);
  Open()->Record(Entry(2)).IgnoreError();
  EXPECT_TRUE(VerifyFile(path_, "credentials", head, Ignore).ok());
}

TEST_F(AuditTest, ATornEndIsPutAsideAtEveryLength) {
  ChainHead head;
  const std::vector<std::string> f = Frames(3, &head);
  for (size_t kept = 1; kept < f[2].size(); ++kept) {
    WriteFile(path_, absl::StrCat(f[0], f[1], f[2].substr(0, kept)));
    const std::unique_ptr<AuditLog> log = Open();
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(log->head().sequence, 2);
    EXPECT_EQ(ReadFile(path_), absl::StrCat(f[0], f[1]));
    EXPECT_EQ(ReadFile(absl::StrCat(path_, ".torn-", f[0].size() + f[1].size())),
              f[2].substr(0, kept));
    EXPECT_TRUE(log->Record(Entry(9)).ok());
  }
  // A file system may grow the file before it fills it.
  WriteFile(path_, absl::StrCat(f[0], std::string(100, '\0')));
  EXPECT_EQ(Open()->head().sequence, 1);
}

TEST_F(AuditTest, ABrokenChainIsNotOpened) {
  ChainHead head;
  const std::vector<std::string> f = Frames(3, &head);
  WriteFile(path_, absl::StrCat(f[0], f[2]));
  EXPECT_EQ(AuditLog::Open(path_, "credentials", &clock_).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(AuditTest, OneProcessAtATime) {
  const std::unique_ptr<AuditLog> log = Open();
  EXPECT_EQ(AuditLog::Open(path_, "credentials", &clock_).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(AuditTest, ADiskThatFailsFailsForGood) {
  const std::unique_ptr<AuditLog> log = Open();
  ASSERT_TRUE(log->Record(Entry(0)).ok());
  // As on a full disk: the next record is written in part.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  rlimit limit = old_limit;
  limit.rlim_cur = ReadFile(path_).size() + 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status failed = log->Record(Entry(1));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  EXPECT_EQ(status::Reason(failed), "AUDIT_UNAVAILABLE");
  EXPECT_EQ(status::Reason(log->Record(Entry(2))), "AUDIT_UNAVAILABLE");
  EXPECT_EQ(log->head().sequence, 1);
  const auto content = VerifyFile(path_, "credentials", log->head(), Ignore);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->head.sequence, 1);
  EXPECT_EQ(content->torn_bytes, 10);
}

TEST_F(AuditTest, ThreadsShareSyncsAndLoseNothing) {
  const std::unique_ptr<AuditLog> log = Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(log->Record(Entry(i)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto content = VerifyFile(path_, "credentials", log->head(), Ignore);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->head.sequence, 400);
}

}  // namespace
}  // namespace capstan::audit
