#include "libs/segment_log/segment_log.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/segment_log/frame.h"
#include "libs/status/error.h"

namespace capstan::segment_log {
namespace {

namespace fs = ::std::filesystem;

class SegmentLogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }

  void Open(SegmentLog::Options options = {}) {
    log_.reset();
    repair_ = SegmentLog::Repair();
    headers_.clear();
    replayed_.clear();
    auto log = SegmentLog::Open(
        folder_, options, [this](absl::string_view header) { headers_.emplace_back(header); },
        [this](int64_t, absl::string_view payload) { replayed_.emplace_back(payload); }, &repair_);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }

  int64_t Append(const std::vector<std::string>& payloads) {
    const auto offset = log_->Append(payloads, [this] { return header_; });
    EXPECT_TRUE(offset.ok()) << offset.status();
    EXPECT_TRUE(log_->Sync().ok());
    return offset.value_or(0);
  }

  std::vector<std::string> ReadFrom(int64_t offset, int64_t max_bytes = 1 << 30) {
    std::vector<std::string> payloads;
    const auto entries = log_->Read(offset, max_bytes);
    EXPECT_TRUE(entries.ok()) << entries.status();
    if (!entries.ok()) return payloads;
    for (const SegmentLog::Entry& entry : *entries) {
      EXPECT_EQ(entry.offset, offset++);
      payloads.push_back(entry.payload);
    }
    return payloads;
  }

  std::string NewestFile() const {
    std::string newest;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".seg") newest = std::max(newest, entry.path().string());
    }
    return newest;
  }

  // What is in the kernel's memory alone is gone: the note of what is synced.
  void LoseNote() { fs::remove(folder_ + "/synced"); }
  static void Flip(const std::string& path, int64_t position, int bit = 0) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(position);
    const int byte = file.get();
    file.seekp(position);
    file.put(static_cast<char>(byte ^ (1 << bit)));
  }
  static std::string ReadFile(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  }

  std::string folder_;
  std::string header_ = "header";
  SegmentLog::Repair repair_;
  std::vector<std::string> headers_;
  std::vector<std::string> replayed_;
  std::unique_ptr<SegmentLog> log_;
};

TEST_F(SegmentLogTest, KeepsRecordsOverReopening) {
  Open();
  EXPECT_EQ(log_->first_offset(), 1);
  EXPECT_EQ(log_->next_offset(), 1);
  EXPECT_EQ(Append({"a", "", "c"}), 1);
  EXPECT_EQ(Append({std::string(1 << 20, 'd')}), 4);
  Open();
  EXPECT_EQ(repair_.torn_bytes, 0);
  EXPECT_EQ(headers_, std::vector<std::string>{"header"});
  EXPECT_EQ(replayed_.size(), 4u);
  EXPECT_EQ(log_->next_offset(), 5);
  EXPECT_EQ(ReadFrom(2), (std::vector<std::string>{"", "c", std::string(1 << 20, 'd')}));
  EXPECT_EQ(ReadFrom(1, 1), std::vector<std::string>{"a"});
  EXPECT_TRUE(ReadFrom(5).empty());
}

TEST_F(SegmentLogTest, WhatIsNotSyncedIsNotRead) {
  Open();
  ASSERT_TRUE(log_->Append({"a"}, [] { return ""; }).ok());
  EXPECT_TRUE(ReadFrom(1).empty());
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_EQ(ReadFrom(1).size(), 1u);
}

TEST_F(SegmentLogTest, SplitsIntoSegmentsAndReadsAcrossThem) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SetUp();
    Random random(seed);
    Open({.segment_bytes = 20000});
    std::vector<std::string> all;
    while (all.size() < 2000) {
      std::vector<std::string> some;
      for (uint64_t i = random.Below(20) + 1; i > 0; --i) {
        some.push_back(absl::StrCat(all.size() + some.size(), std::string(random.Below(300), 'x')));
      }
      header_ = absl::StrCat("state before ", all.size() + 1);
      EXPECT_EQ(Append(some), static_cast<int64_t>(all.size()) + 1);
      all.insert(all.end(), some.begin(), some.end());
      if (random.OneIn(30)) Open({.segment_bytes = 20000});
    }
    Open({.segment_bytes = 20000});
    // The header tells the state at which its segment began.
    EXPECT_EQ(headers_.at(0), absl::StrCat("state before ", all.size() - replayed_.size() + 1));
    EXPECT_EQ(ReadFrom(1), all);
    for (int i = 0; i < 50; ++i) {
      const int64_t from = random.Between(1, static_cast<int64_t>(all.size()));
      const auto some = ReadFrom(from, 5000);
      ASSERT_FALSE(some.empty());
      for (size_t k = 0; k < some.size(); ++k) ASSERT_EQ(some[k], all[from - 1 + k]);
    }
  }
}

TEST_F(SegmentLogTest, RepairsATailTornAtAnyByte) {
  Open();
  Append({"first"});
  const auto whole = fs::file_size(NewestFile());
  Append({"second record"});
  const auto longer = fs::file_size(NewestFile());
  std::ifstream in(NewestFile(), std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(in)), {});
  for (auto cut = whole; cut < longer; ++cut) {
    log_.reset();
    LoseNote();
    fs::resize_file(NewestFile(), cut);
    Open();
    EXPECT_EQ(repair_.torn_bytes, static_cast<int64_t>(cut - whole));
    EXPECT_EQ(ReadFrom(1), std::vector<std::string>{"first"});
    if (cut > whole) {
      std::ifstream torn(NewestFile() + ".torn", std::ios::binary);
      EXPECT_EQ(std::string((std::istreambuf_iterator<char>(torn)), {}),
                content.substr(whole, cut - whole));
    }
    EXPECT_EQ(Append({"second record"}), 2);
    EXPECT_EQ(ReadFrom(1).size(), 2u);
  }
  // A tail of zeros, as a file system may leave after a power cut.
  log_.reset();
  LoseNote();
  fs::resize_file(NewestFile(), longer + 4096);
  Open();
  EXPECT_EQ(repair_.torn_bytes, 4096);
  EXPECT_EQ(ReadFrom(1).size(), 2u);
}

TEST_F(SegmentLogTest, ASegmentTornInItsHeaderNeverWas) {
  Open({.segment_bytes = 100});
  Append({std::string(200, 'x')});
  header_ = "newer";
  Append({"lost"});
  log_.reset();
  LoseNote();
  fs::resize_file(NewestFile(), 5);
  Open({.segment_bytes = 100});
  EXPECT_EQ(headers_, std::vector<std::string>{"header"});
  EXPECT_EQ(replayed_.size(), 1u);
  EXPECT_EQ(repair_.torn_bytes, 5);
  EXPECT_EQ(Append({"again"}), 2);
  EXPECT_EQ(ReadFrom(2), std::vector<std::string>{"again"});
}

TEST_F(SegmentLogTest, WhatWasSyncedIsNeverTakenForTorn) {
  Open();
  Append({"a"});
  const auto whole = static_cast<int64_t>(fs::file_size(NewestFile()));
  Append({"b"});
  Append({"c"});
  log_.reset();
  const std::string file = NewestFile();
  Flip(file, whole + 9);
  const std::string content = ReadFile(file);
  for (int life = 0; life < 2; ++life) {
    Open();
    EXPECT_EQ(repair_.torn_bytes, 0);
    EXPECT_EQ(repair_.damaged_records, life == 0 ? 2 : 0);
    EXPECT_EQ(ReadFrom(1, 1), std::vector<std::string>{"a"});
    const absl::Status damaged = log_->Read(2, 1).status();
    EXPECT_EQ(status::Reason(damaged), kReasonDamaged);
    EXPECT_EQ(status::GetErrorInfo(damaged)->metadata["path"], file);
    EXPECT_EQ(status::GetErrorInfo(damaged)->metadata["next_offset"], "4");
    EXPECT_EQ(ReadFile(file), content) << "left as it is";
    EXPECT_FALSE(fs::exists(file + ".torn"));
    // Their offsets are not given again.
    EXPECT_EQ(life == 0 ? Append({"d"}) : 4, 4);
    EXPECT_EQ(ReadFrom(4), std::vector<std::string>{"d"});
  }
}

TEST_F(SegmentLogTest, ATailThatWasSyncedAndIsGoneIsNamed) {
  Open();
  Append({"a"});
  const auto whole = fs::file_size(NewestFile());
  Append({"b"});
  log_.reset();
  fs::resize_file(NewestFile(), whole);
  Open();
  EXPECT_EQ(repair_.damaged_records, 1);
  EXPECT_EQ(status::Reason(log_->Read(2, 1).status()), kReasonDamaged);
  EXPECT_EQ(Append({"c"}), 3);
}

TEST_F(SegmentLogTest, WhatIsNotSyncedIsTornAlsoBehindWhatIs) {
  Open();
  Append({"a"});
  ASSERT_TRUE(log_->Append({"b"}, [] { return ""; }).ok());
  log_.reset();
  fs::resize_file(NewestFile(), fs::file_size(NewestFile()) - 1);
  Open();
  EXPECT_EQ(repair_.damaged_records, 0);
  EXPECT_GT(repair_.torn_bytes, 0);
  EXPECT_EQ(Append({"b"}), 2);
}

TEST_F(SegmentLogTest, ASegmentWhoseHeaderIsDamagedIsGoneOnBehind) {
  Open({.segment_bytes = 100});
  Append({std::string(200, 'x')});
  header_ = "newer";
  Append({"2"});
  Append({"3"});
  log_.reset();
  Flip(NewestFile(), 9);
  Open({.segment_bytes = 100});
  EXPECT_EQ(headers_, std::vector<std::string>{"header"}) << "of the one before";
  EXPECT_EQ(repair_.damaged_records, 2);
  EXPECT_EQ(ReadFrom(1, 1), std::vector<std::string>{std::string(200, 'x')});
  EXPECT_EQ(status::Reason(log_->Read(2, 1).status()), kReasonDamaged);
  EXPECT_EQ(Append({"4"}), 4);
  Open({.segment_bytes = 100});
  EXPECT_EQ(repair_.damaged_records, 0);
  EXPECT_EQ(ReadFrom(4), std::vector<std::string>{"4"});
}

TEST_F(SegmentLogTest, ALogWhoseFilesAreGoneGoesOnBehindThem) {
  Open();
  Append({"a", "b"});
  log_.reset();
  fs::remove(NewestFile());
  Open();
  EXPECT_EQ(repair_.damaged_records, 2);
  EXPECT_EQ(status::Reason(log_->Read(1, 1).status()), kReasonDamaged);
  EXPECT_EQ(Append({"c"}), 3);
  EXPECT_EQ(ReadFrom(3), std::vector<std::string>{"c"});
}

// Every bit of a log and of its note: whatever flips, each record that was synced can be read or is
// named as damaged, and no offset is given twice.
TEST_F(SegmentLogTest, NoBitThatFlipsLosesARecordUnnamed) {
  Open();
  for (const char* payload : {"one", "two", "three"}) Append({payload});
  log_.reset();
  const std::string kept = folder_ + ".kept";
  fs::remove_all(kept);
  fs::copy(folder_, kept);
  const std::vector<std::string> all = {"one", "two", "three"};
  for (const std::string& name :
       {fs::path(NewestFile()).filename().string(), std::string("synced")}) {
    const auto bytes = static_cast<int64_t>(fs::file_size(kept + "/" + name));
    for (int64_t bit = 0; bit < bytes * 8; ++bit) {
      fs::remove_all(folder_);
      fs::copy(kept, folder_);
      Flip(folder_ + "/" + name, bit / 8, static_cast<int>(bit % 8));
      Open();
      ASSERT_EQ(log_->next_offset(), 4) << name << " bit " << bit;
      for (int64_t offset = 1; offset <= 3; ++offset) {
        const auto entries = log_->Read(offset, 1);
        if (entries.ok()) {
          ASSERT_EQ(entries->front().offset, offset);
          ASSERT_EQ(entries->front().payload, all[offset - 1]) << name << " bit " << bit;
        } else {
          ASSERT_EQ(status::Reason(entries.status()), kReasonDamaged) << entries.status();
        }
      }
      ASSERT_EQ(Append({"four"}), 4);
      ASSERT_EQ(ReadFrom(4), std::vector<std::string>{"four"});
    }
  }
}

TEST_F(SegmentLogTest, ASegmentThatIsGoneIsNamedNotSkipped) {
  Open({.segment_bytes = 1});
  for (const char* payload : {"1", "2", "3"}) Append({payload});
  log_.reset();
  ASSERT_TRUE(fs::remove(absl::StrCat(folder_, "/00000000000000000001.seg")));
  Open({.segment_bytes = 1});
  EXPECT_EQ(status::Reason(log_->Read(1, 100).status()), kReasonDamaged);
  EXPECT_EQ(ReadFrom(2), (std::vector<std::string>{"2", "3"}));
}

TEST_F(SegmentLogTest, AHeaderThatCouldNotBeReadBackIsRefused) {
  Open();
  header_ = std::string(kMaxFramePayload + 1, 'h');
  EXPECT_FALSE(log_->Append({"1"}, [this] { return header_; }).ok());
  header_ = std::string(kMaxFramePayload, 'h');
  EXPECT_EQ(Append({"1"}), 1);
  Open();
  EXPECT_EQ(ReadFrom(1), std::vector<std::string>{"1"});
  EXPECT_EQ(headers_, std::vector<std::string>{header_});
}

TEST_F(SegmentLogTest, AHeaderLongerThanASegmentDoesNotStopTheLog) {
  fs::create_directories(folder_);
  std::string bytes;
  AppendFrame(FrameKind::kHeader, std::string(100, 'h'), &bytes);
  std::ofstream file(absl::StrCat(folder_, "/00000000000000000001.seg"), std::ios::binary);
  file << bytes;
  file.close();
  Open({.segment_bytes = 10});
  EXPECT_EQ(Append({"1"}), 1);
  EXPECT_EQ(Append({"2"}), 2);
  Open({.segment_bytes = 10});
  EXPECT_EQ(ReadFrom(1), (std::vector<std::string>{"1", "2"}));
}

TEST_F(SegmentLogTest, OffsetsBeyondAllCountingAreDamage) {
  fs::create_directories(folder_);
  std::ofstream file(absl::StrCat(folder_, "/dropped"));
  file << "9223372036854775807 1\n";
  file.close();
  SegmentLog::Repair repair;
  const auto log = SegmentLog::Open(
      folder_, {}, [](absl::string_view) {}, [](int64_t, absl::string_view) {}, &repair);
  EXPECT_EQ(status::Reason(log.status()), kReasonDamaged);
}

TEST_F(SegmentLogTest, ADamagedRecordIsNamedNotSkipped) {
  Open({.segment_bytes = 1000});
  for (int i = 0; i < 30; ++i) Append({std::string(100, 'x')});
  log_.reset();
  const std::string oldest = absl::StrCat(folder_, "/", std::string(19, '0'), "1.seg");
  std::fstream file(oldest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(200);
  file.put('!');
  file.close();
  Open({.segment_bytes = 1000});
  const auto read = log_->Read(1, 1 << 20);
  EXPECT_EQ(status::Reason(read.status()), kReasonDamaged);
  EXPECT_EQ(status::GetErrorInfo(read.status())->metadata["path"], oldest);
  EXPECT_FALSE(ReadFrom(20).empty());
}

TEST_F(SegmentLogTest, RetentionDropsWholeSegmentsAndRemembersHowMuch) {
  Open({.segment_bytes = 1000});
  for (int i = 0; i < 100; ++i) Append({std::string(100, 'x')});
  const int64_t before = log_->bytes();
  ASSERT_TRUE(log_->Drop(3000, absl::InfinitePast()).ok());
  EXPECT_LE(log_->bytes(), 3000);
  const int64_t first = log_->first_offset();
  EXPECT_GT(first, 60);
  EXPECT_EQ(log_->dropped().records, first - 1);
  EXPECT_EQ(log_->dropped().bytes, before - log_->bytes());
  EXPECT_EQ(status::Reason(log_->Read(first - 1, 1).status()), kReasonDropped);
  EXPECT_EQ(ReadFrom(first).size(), static_cast<size_t>(101 - first));
  const int64_t bytes = log_->dropped().bytes;
  Open({.segment_bytes = 1000});
  EXPECT_EQ(log_->first_offset(), first);
  EXPECT_EQ(log_->dropped().bytes, bytes);
  // By age everything but the newest segment goes.
  ASSERT_TRUE(log_->Drop(1 << 30, absl::InfiniteFuture()).ok());
  EXPECT_GT(log_->first_offset(), first);
  EXPECT_LT(log_->bytes(), 1200);
  EXPECT_EQ(log_->next_offset(), 101);
}

TEST_F(SegmentLogTest, GivesNoOffsetBeyondTheLast) {
  fs::create_directories(folder_);
  std::ofstream(folder_ + "/dropped") << SegmentLog::kMaxOffset - 2 << " 0\n";
  Open();
  EXPECT_EQ(Append({"a"}), SegmentLog::kMaxOffset - 1);
  const auto header = [] { return std::string("header"); };
  EXPECT_EQ(log_->Append({"b", "c"}, header).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Append({"b"}), SegmentLog::kMaxOffset);
  EXPECT_EQ(log_->Append({}, header).status().code(), absl::StatusCode::kOutOfRange);
  Open();
  EXPECT_EQ(replayed_, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(log_->next_offset(), SegmentLog::kMaxOffset + 1);
}

TEST_F(SegmentLogTest, RetentionCutOffByACrashIsFinishedByTheNextOpen) {
  Open({.segment_bytes = 1000});
  for (int i = 0; i < 30; ++i) Append({std::string(100, 'x')});
  const std::string oldest = absl::StrCat(folder_, "/", std::string(19, '0'), "1.seg");
  fs::copy_file(oldest, folder_ + "/saved");
  ASSERT_TRUE(log_->Drop(1500, absl::InfinitePast()).ok());
  const int64_t first = log_->first_offset();
  log_.reset();
  fs::rename(folder_ + "/saved", oldest);
  Open({.segment_bytes = 1000});
  EXPECT_EQ(log_->first_offset(), first);
  EXPECT_FALSE(fs::exists(oldest));
}

// A real process appends until it is killed; every acknowledged record is there, once, in order.
TEST_F(SegmentLogTest, AcknowledgedRecordsSurviveAKill) {
  Random random(7);
  int64_t acknowledged = 0;
  for (int round = 0; round < 20; ++round) {
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(fds[0]);
      Open({.segment_bytes = 50000});
      while (true) {
        const int64_t next = log_->next_offset();
        std::vector<std::string> some;
        for (int64_t i = next; i < next + 1 + next % 5; ++i) {
          some.push_back(absl::StrCat(i, ":", std::string(i * 37 % 5000, 'x')));
        }
        if (!log_->Append(some, [] { return "header"; }).ok() || !log_->Sync().ok()) ::_exit(3);
        const int64_t last = next + static_cast<int64_t>(some.size()) - 1;
        if (::write(fds[1], &last, sizeof(last)) != sizeof(last)) ::_exit(4);
      }
    }
    ::close(fds[1]);
    int64_t last = 0;
    const int64_t wanted = random.Between(1, 60);
    for (int64_t got = 1; ::read(fds[0], &last, sizeof(last)) == sizeof(last); ++got) {
      acknowledged = last;
      if (got == wanted) {
        ASSERT_EQ(::kill(child, SIGKILL), 0);
      }
    }
    ::close(fds[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    Open({.segment_bytes = 50000});
    const std::vector<std::string> all = ReadFrom(1);
    ASSERT_GE(static_cast<int64_t>(all.size()), acknowledged);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i].substr(0, all[i].find(':')), absl::StrCat(i + 1));
    }
    log_.reset();
  }
  EXPECT_GT(acknowledged, 200);
}

}  // namespace
}  // namespace capstan::segment_log
