// A real process that writes to a SqliteStore is killed with SIGKILL, again and again on the same
// file, and nothing that it was told is stored may be missing afterwards.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/store/sqlite_store.h"
#include "libs/store/testing/pumped_strand.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::store {
namespace {

constexpr int kChains = 8;

// What the child tells about each acknowledged transaction; less than PIPE_BUF, so never torn.
struct Acknowledgement {
  int64_t chain;
  int64_t number;
  int64_t revision;
};

std::string LeftKey(int64_t chain) { return absl::StrCat("/left/", chain); }
std::string RightKey(int64_t chain) { return absl::StrCat("/right/", chain); }

// Of the two, the one that the newest number put is there.
std::string ParityKey(int64_t chain, int64_t number) {
  return absl::StrCat("/parity/", chain, "/", number % 2);
}

// Writes without end: each chain puts its next number under two keys in one transaction, moves a
// third one, and tells when that is acknowledged.
[[noreturn]] void WriteUntilKilled(const std::string& path, SqliteStore::Options options,
                                   std::array<int64_t, kChains> next, int fd) {
  SystemClock clock;
  ThreadStrand strand("crash", &clock);
  auto store = SqliteStore::Open(path, &strand, options);
  if (!store.ok()) ::_exit(3);
  std::function<void(int64_t)> step = [&](int64_t chain) {
    const int64_t number = next[chain]++;
    const std::string value = absl::StrCat(number, ":", std::string(number % 3000, 'x'));
    TxnRequest txn;
    txn.then.push_back(Put{LeftKey(chain), value});
    txn.then.push_back(Put{RightKey(chain), value});
    txn.then.push_back(Delete{ParityKey(chain, number + 1), ""});
    txn.then.push_back(Put{ParityKey(chain, number), ""});
    (*store)->Txn(std::move(txn), [&, chain, number](absl::StatusOr<TxnResult> result) {
      if (!result.ok()) ::_exit(4);
      const Acknowledgement ack{chain, number, result->revision};
      if (::write(fd, &ack, sizeof(ack)) != sizeof(ack)) ::_exit(5);
      step(chain);
    });
  };
  strand.Post([&] {
    for (int64_t chain = 0; chain < kChains; ++chain) step(chain);
  });
  absl::Notification never;
  never.WaitForNotification();
  ::_exit(6);
}

class SqliteCrashTest : public testing::Test {
 protected:
  // Runs the writer until `acknowledgements` have come, kills it, and takes in what else it told.
  void RunAndKill(const std::string& path, SqliteStore::Options options, int acknowledgements) {
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    std::array<int64_t, kChains> next = acknowledged_;
    for (int64_t& number : next) number += 2;  // one may have been stored unacknowledged
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(fds[0]);
      WriteUntilKilled(path, options, next, fds[1]);
    }
    ::close(fds[1]);
    Acknowledgement ack;
    int read = 0;
    while (::read(fds[0], &ack, sizeof(ack)) == sizeof(ack)) {
      acknowledged_[ack.chain] = ack.number;
      last_revision_ = std::max(last_revision_, ack.revision);
      if (++read == acknowledgements) {
        ASSERT_EQ(::kill(child, SIGKILL), 0);
      }
    }
    ::close(fds[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
    total_ += read;
  }

  RangeResult ReadAll(Store* store, int64_t revision = 0) {
    absl::StatusOr<RangeResult> result = absl::UnknownError("");
    bool done = false;
    store->Range({.key = "/", .end = PrefixEnd("/"), .limit = kMaxRangeLimit, .revision = revision},
                 [&](absl::StatusOr<RangeResult> got) {
                   result = std::move(got);
                   done = true;
                 });
    EXPECT_TRUE(strand_.RunUntil([&] { return done; }));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : RangeResult();
  }

  // Every acknowledged number is there, on both sides, in one revision.
  void CheckState(const RangeResult& all) {
    std::map<std::string, KeyValue> by_key;
    for (const KeyValue& kv : all.kvs) by_key[kv.key] = kv;
    ASSERT_GE(all.revision, last_revision_);
    ASSERT_EQ(all.kvs.size() % 3, 0u) << "half a transaction";
    for (int64_t chain = 0; chain < kChains; ++chain) {
      const auto left = by_key.find(LeftKey(chain));
      if (left == by_key.end()) {
        ASSERT_EQ(acknowledged_[chain], 0);
        continue;
      }
      ASSERT_EQ(left->second.value, by_key[RightKey(chain)].value);
      ASSERT_EQ(left->second.mod_revision, by_key[RightKey(chain)].mod_revision);
      const int64_t number = std::stoll(left->second.value);
      ASSERT_GE(number, acknowledged_[chain]) << "an acknowledged write is lost";
      // At most the one transaction that was under way.
      ASSERT_LE(number, acknowledged_[chain] + 2);
      acknowledged_[chain] = number;
    }
  }

  PumpedStrand strand_;
  std::array<int64_t, kChains> acknowledged_{};
  int64_t last_revision_ = 0;
  int64_t total_ = 0;
};

TEST_F(SqliteCrashTest, AcknowledgedWritesSurviveAndRevisionsHaveNoGap) {
  const std::string path = testing::TempDir() + "/crash.db";
  Random random(1);
  for (int round = 0; round < 25; ++round) {
    ASSERT_NO_FATAL_FAILURE(
        RunAndKill(path, {.keep_revisions = 0}, static_cast<int>(random.Between(1, 120))));
    auto store = SqliteStore::Open(path, &strand_);
    ASSERT_TRUE(store.ok()) << store.status();
    const RangeResult all = ReadAll(store->get());
    ASSERT_NO_FATAL_FAILURE(CheckState(all));
    // Each revision from the first on, with all the changes of its transaction.
    std::map<int64_t, int> changes;
    int64_t seen = 0;
    auto watch = (*store)->StartWatch({.key = "/", .end = PrefixEnd("/"), .start_revision = 1},
                                      [&](absl::StatusOr<WatchBatch> batch) {
                                        ASSERT_TRUE(batch.ok()) << batch.status();
                                        for (const WatchEvent& event : batch->events)
                                          ++changes[event.kv.mod_revision];
                                        seen = batch->revision;
                                      });
    ASSERT_TRUE(strand_.RunUntil([&] { return seen == all.revision; }));
    int64_t expected = 2;
    for (const auto& [revision, count] : changes) {
      ASSERT_EQ(revision, expected++);
      ASSERT_GE(count, 3);
    }
    ASSERT_EQ(expected, all.revision + 1);
  }
  EXPECT_GT(total_, 500);
}

TEST_F(SqliteCrashTest, CompactionMayBeKilledAnywhere) {
  const std::string path = testing::TempDir() + "/compacted.db";
  Random random(2);
  for (int round = 0; round < 15; ++round) {
    ASSERT_NO_FATAL_FAILURE(
        RunAndKill(path, {.keep_revisions = 20}, static_cast<int>(random.Between(1, 200))));
    auto store = SqliteStore::Open(path, &strand_);
    ASSERT_TRUE(store.ok()) << store.status();
    const RangeResult all = ReadAll(store->get());
    ASSERT_NO_FATAL_FAILURE(CheckState(all));
    EXPECT_EQ(ReadAll(store->get(), all.revision).kvs, all.kvs);
  }
}

}  // namespace
}  // namespace capstan::store
