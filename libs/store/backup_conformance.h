// What backup and restore must do on every adapter of Store, as parameterised tests. An adapter's
// test includes this header and instantiates BackupConformanceTest with a function that makes a
// BackupBench.
#ifndef CAPSTAN_LIBS_STORE_BACKUP_CONFORMANCE_H_
#define CAPSTAN_LIBS_STORE_BACKUP_CONFORMANCE_H_

#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/store/backup.h"
#include "libs/store/backup_file.h"
#include "libs/store/blocking_store.h"
#include "libs/store/store.h"

namespace capstan::store {

// One store of the service `thing`, which is open or closed, on a strand that runs by itself.
class BackupBench {
 public:
  virtual ~BackupBench() = default;
  // As a service opens it.
  virtual absl::Status Open() = 0;
  virtual void Close() = 0;
  // Of the open store.
  virtual Store* store() = 0;
  // As stored; the store is open.
  virtual int64_t incarnation() = 0;
  // May be taken while the store is open, and outlives neither.
  virtual std::unique_ptr<BackupSource> Source() = 0;
  // While it is closed.
  virtual std::unique_ptr<RestoreTarget> Target() = 0;
};

// Fails once it has written so often, as if it were killed there.
class CutOffTarget final : public RestoreTarget {
 public:
  CutOffTarget(RestoreTarget* target, int writes) : target_(target), writes_(writes) {}
  absl::StatusOr<State> Inspect() override { return target_->Inspect(); }
  absl::Status Begin() override { return target_->Begin(); }
  absl::Status Write(std::vector<Put> puts) override {
    if (writes_-- <= 0) return absl::AbortedError("cut off");
    return target_->Write(std::move(puts));
  }
  absl::Status Finish(int64_t) override { return absl::AbortedError("cut off at its end"); }

 private:
  RestoreTarget* const target_;
  int writes_;
};

class BackupConformanceTest
    : public testing::TestWithParam<std::function<std::unique_ptr<BackupBench>()>> {
 protected:
  using Contents = std::map<std::string, std::string>;
  static constexpr char kPrefix[] = "/capstan/thing/v1/";

  BackupConformanceTest() : bench_(GetParam()()) {
    static int made = 0;
    file_ = absl::StrCat(testing::TempDir(), "/backup-", getpid(), "-", made++);
    EXPECT_TRUE(bench_->Open().ok());
  }
  ~BackupConformanceTest() override { unlink(file_.c_str()); }

  static std::string Key(int i) { return absl::StrFormat("%srecords/%06d", kPrefix, i); }

  void Commit(BackupBench* bench, std::vector<Op> ops) {
    const auto result = BlockingStore(bench->store()).Txn({.then = std::move(ops)});
    ASSERT_TRUE(result.ok()) << result.status();
  }
  // Records with any bytes, of sizes up to 20 KB, some deleted again.
  void Fill(BackupBench* bench, int records, uint64_t seed) {
    Random random(seed);
    std::vector<Op> ops;
    for (int i = 0; i < records; ++i) {
      std::string value(random.Below(i % 50 == 0 ? 20000 : 200), '\0');
      for (char& byte : value) byte = static_cast<char>(random.Below(256));
      ops.emplace_back(Put{Key(i), std::move(value)});
      if (ops.size() == 50) Commit(bench, std::exchange(ops, {}));
    }
    if (!ops.empty()) Commit(bench, std::move(ops));
    for (int i = 0; i < records; i += 17) Commit(bench, {Delete{Key(i), ""}});
  }
  Contents Read(BackupBench* bench) {
    Contents contents;
    BlockingStore store(bench->store());
    RangeRequest page{.key = kPrefix, .end = PrefixEnd(kPrefix), .limit = 500};
    while (true) {
      const auto found = store.Range(page);
      EXPECT_TRUE(found.ok()) << found.status();
      if (!found.ok()) return contents;
      for (const KeyValue& kv : found->kvs) contents[kv.key] = kv.value;
      if (!found->more) return contents;
      page.key = found->kvs.back().key + '\0';
    }
  }
  Contents ReadFile() {
    Contents contents;
    const auto read = ReadBackupFile(
        file_, [](const auto&) { return absl::OkStatus(); },
        [&](const backup::v1::BackupRecord& record) {
          contents[record.key()] = record.value();
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read.status();
    return contents;
  }
  absl::StatusOr<backup::v1::BackupHeader> Backup(BackupProgress progress = nullptr) {
    return WriteBackup(bench_->Source().get(), {.service = "thing",
                                                .path = file_,
                                                .now = absl::FromUnixSeconds(1000),
                                                .progress = std::move(progress)});
  }
  absl::StatusOr<RestoreResult> Restore(RestoreTarget* target, bool force = false,
                                        std::string service = "thing", int schema = 1) {
    return RestoreBackup(target, {.path = file_,
                                  .service = std::move(service),
                                  .schema = schema,
                                  .force = force,
                                  .now = absl::FromUnixSeconds(2000)});
  }

  const std::unique_ptr<BackupBench> bench_;
  std::string file_;
};

TEST_P(BackupConformanceTest, ARestoredStoreHoldsWhatWasThereUnderAHigherIncarnation) {
  Fill(bench_.get(), 700, 1);
  const Contents before = Read(bench_.get());
  const int64_t old_incarnation = bench_->incarnation();
  const auto header = Backup();
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->service(), "thing");
  EXPECT_EQ(header->store_incarnation(), old_incarnation);
  EXPECT_EQ(header->record_count(), static_cast<int64_t>(before.size()));
  EXPECT_EQ(ReadFile(), before);

  const auto other = GetParam()();
  {
    const auto target = other->Target();
    const auto restored = Restore(target.get());
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_GT(restored->incarnation, old_incarnation);
  }
  ASSERT_TRUE(other->Open().ok());
  EXPECT_EQ(Read(other.get()), before);
  EXPECT_GT(other->incarnation(), old_incarnation);
}

TEST_P(BackupConformanceTest, AnEmptyStoreCanBeBackedUpToo) {
  const auto header = Backup();
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->record_count(), 0);
  bench_->Close();
  const auto restored = Restore(bench_->Target().get());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_TRUE(bench_->Open().ok());
}

TEST_P(BackupConformanceTest, WhatHangsOnALeaseStaysOut) {
  absl::Notification granted;
  LeaseId lease = 0;
  bench_->store()->GrantLease(absl::Seconds(60), [&](absl::StatusOr<LeaseId> got) {
    ASSERT_TRUE(got.ok()) << got.status();
    lease = *got;
    granted.Notify();
  });
  granted.WaitForNotification();
  Commit(bench_.get(), {Put{Key(1), "kept"}, Put{Key(2), "leased", lease}});
  ASSERT_TRUE(Backup().ok());
  EXPECT_EQ(ReadFile(), (Contents{{Key(1), "kept"}}));
}

// Between any two records that are read the service commits: each time all pairs at once, so that a
// mixture of revisions would show.
TEST_P(BackupConformanceTest, ABackupIsOfOneRevisionWhileTheServiceWrites) {
  constexpr int kPairs = 40;
  const auto put_all = [&](const std::string& value) {
    std::vector<Op> ops;
    for (int i = 0; i < kPairs; ++i) {
      ops.emplace_back(Put{Key(i), value + std::string(1000, 'x')});
      ops.emplace_back(Put{Key(100000 + i), value + std::string(1000, 'x')});
    }
    Commit(bench_.get(), std::move(ops));
  };
  put_all("0 ");
  Fill(bench_.get(), 300, 2);
  put_all("1 ");
  int writes = 1;
  const auto header = Backup([&](int64_t records, int64_t) {
    if (records % 20 == 0) put_all(absl::StrCat(++writes, " "));
  });
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_GT(writes, 10);
  for (const auto& [key, value] : ReadFile()) {
    const bool paired = key < Key(kPairs) || key >= Key(100000);
    if (paired) {
      EXPECT_EQ(value.substr(0, 2), "1 ") << key;
    }
  }
  // And the service has not noticed.
  EXPECT_EQ(Read(bench_.get())[Key(0)].substr(0, 3), absl::StrCat(writes, " ").substr(0, 3));
}

TEST_P(BackupConformanceTest, WhatIsThereIsReplacedOnlyByForce) {
  Fill(bench_.get(), 200, 3);
  const Contents before = Read(bench_.get());
  ASSERT_TRUE(Backup().ok());
  Fill(bench_.get(), 400, 4);
  Commit(bench_.get(), {Put{absl::StrCat(kPrefix, "zzz"), "made after the backup"}});
  const Contents after = Read(bench_.get());
  const int64_t incarnation = bench_->incarnation();
  bench_->Close();

  EXPECT_EQ(status::Reason(Restore(bench_->Target().get()).status()), kReasonStoreNotEmpty);
  ASSERT_TRUE(bench_->Open().ok());
  EXPECT_EQ(Read(bench_.get()), after);
  EXPECT_EQ(bench_->incarnation(), incarnation);
  bench_->Close();

  const auto restored = Restore(bench_->Target().get(), /*force=*/true);
  ASSERT_TRUE(restored.ok()) << restored.status();
  ASSERT_TRUE(bench_->Open().ok());
  EXPECT_EQ(Read(bench_.get()), before);
  EXPECT_EQ(bench_->incarnation(), restored->incarnation);
  EXPECT_GT(bench_->incarnation(), incarnation);
}

TEST_P(BackupConformanceTest, ForeignNewerTornAndAlteredFilesTouchNothing) {
  Fill(bench_.get(), 300, 5);
  ASSERT_TRUE(Backup().ok());
  Commit(bench_.get(), {Put{Key(1), "newer"}});
  const Contents after = Read(bench_.get());
  bench_->Close();
  const auto refused = [&](std::string service = "thing", int schema = 1) {
    return status::Reason(
        Restore(bench_->Target().get(), true, std::move(service), schema).status());
  };
  EXPECT_EQ(refused("other"), kReasonForeignBackup);
  EXPECT_EQ(refused("thing", 0), kReasonBackupTooNew);

  std::ifstream in(file_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto write = [&](const std::string& bytes) {
    std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (const size_t length :
       {size_t{0}, size_t{100}, kBackupHeaderBytes, whole.size() / 2, whole.size() - 1}) {
    write(whole.substr(0, length));
    EXPECT_EQ(refused(), kReasonBackupCorrupt) << length;
  }
  for (size_t at = 3; at < whole.size(); at += whole.size() / 23) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 0x10);
    write(altered);
    EXPECT_EQ(refused(), kReasonBackupCorrupt) << at;
  }
  write(whole + "x");
  EXPECT_EQ(refused(), kReasonBackupCorrupt);
  ASSERT_TRUE(bench_->Open().ok());
  EXPECT_EQ(Read(bench_.get()), after);
}

TEST_P(BackupConformanceTest, HalfARestoreIsNoStoreAndIsBegunAgain) {
  Fill(bench_.get(), 600, 6);
  const Contents before = Read(bench_.get());
  ASSERT_TRUE(Backup().ok());
  bench_->Close();
  for (const int writes : {0, 1, 3, 1000}) {
    const auto target = bench_->Target();
    CutOffTarget cut(target.get(), writes);
    EXPECT_EQ(Restore(&cut, /*force=*/true).status().code(), absl::StatusCode::kAborted);
  }
  EXPECT_EQ(status::Reason(bench_->Open()), kReasonRestoreUnfinished);
  const auto restored = Restore(bench_->Target().get());
  ASSERT_TRUE(restored.ok()) << restored.status();
  ASSERT_TRUE(bench_->Open().ok());
  EXPECT_EQ(Read(bench_.get()), before);
  EXPECT_EQ(bench_->incarnation(), restored->incarnation);
}

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_BACKUP_CONFORMANCE_H_
