// Concurrent callers of a SqliteStore whose process is killed with SIGKILL, again and again on the
// same file: some order of all calls over all its lives must explain what they saw.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/store/sqlite_store.h"
#include "libs/store/store.h"
#include "libs/store/testing/linearizability.h"
#include "libs/store/testing/pumped_strand.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::store {
namespace {

using Kind = RegisterOperation::Kind;

constexpr uint64_t kHistories = 100;
constexpr int kLives = 4;
constexpr int kCallers = 4;
constexpr int kKeys = 3;
constexpr size_t kMostCalls = 1'000;

// A number that no two calls share; 0 is absent.
using Value = int64_t;

std::string ToText(Value value) { return value == 0 ? "" : absl::StrCat(value); }
Value FromText(const std::string& text) { return text.empty() ? 0 : std::stoll(text); }
std::string KeyOf(int key) { return absl::StrCat("/key/", key); }

struct Call {
  enum class State { kNotMade, kMade, kAnswered };
  // Set last, so that a caller who dies leaves either nothing or a whole step.
  std::atomic<State> state{State::kNotMade};
  Kind kind = Kind::kRead;
  int key = 0;
  int64_t called_at = 0;
  int64_t returned_at = 0;
  int64_t revision = 0;
  Value value = 0;
  Value desired = 0;
  bool succeeded = false;
};

// In memory that outlives the process of the callers.
struct Log {
  std::atomic<int64_t> clock{0};
  std::atomic<size_t> begun{0};
  std::array<Call, kMostCalls> calls{};
};

// Makes one call after another until the process is killed; a byte in `fd` for each answer.
void RunCaller(Store* store, Log* log, uint64_t seed, int fd) {
  Random random(seed);
  Value last_seen = 0;
  while (true) {
    const size_t number = log->begun++;
    if (number >= kMostCalls) ::_exit(3);
    Call& call = log->calls[number];
    call.kind = static_cast<Kind>(random.Below(3));
    call.key = static_cast<int>(random.Below(kKeys));
    const std::string key = KeyOf(call.key);
    const auto fresh = static_cast<Value>(number) + 1;
    TxnRequest txn;
    if (call.kind == Kind::kWrite) {
      call.value = fresh;
      txn.then.push_back(Put{key, ToText(fresh)});
    } else if (call.kind == Kind::kCompareAndSet) {
      call.value = last_seen;
      call.desired = fresh;
      txn.compares.push_back(
          {.key = key, .target = Compare::Target::kValue, .value = ToText(last_seen)});
      txn.then.push_back(Put{key, ToText(fresh)});
    }
    absl::Notification done;
    call.called_at = ++log->clock;
    call.state = Call::State::kMade;
    if (call.kind == Kind::kRead) {
      store->Range({.key = key}, [&](absl::StatusOr<RangeResult> result) {
        if (!result.ok()) ::_exit(4);
        call.value = result->kvs.empty() ? 0 : FromText(result->kvs[0].value);
        call.revision = result->revision;
        done.Notify();
      });
    } else {
      store->Txn(std::move(txn), [&](absl::StatusOr<TxnResult> result) {
        if (!result.ok()) ::_exit(4);
        call.succeeded = result->succeeded;
        call.revision = result->revision;
        done.Notify();
      });
    }
    done.WaitForNotification();
    if (call.kind == Kind::kRead) last_seen = call.value;
    call.returned_at = ++log->clock;
    call.state = Call::State::kAnswered;
    if (::write(fd, "", 1) != 1) ::_exit(5);
  }
}

[[noreturn]] void CallUntilKilled(const std::string& path, Log* log, uint64_t seed, int fd) {
  SystemClock clock;
  ThreadStrand strand("history", &clock);
  auto store = SqliteStore::Open(path, &strand);
  if (!store.ok()) ::_exit(6);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back(RunCaller, store->get(), log, seed * kCallers + caller, fd);
  }
  for (std::thread& caller : callers) caller.join();
  ::_exit(7);
}

class SqliteHistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    void* memory =
        mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    log_ = static_cast<Log*>(memory);
  }
  ~SqliteHistoryTest() override { munmap(log_, sizeof(Log)); }

  void RunAndKill(const std::string& path, uint64_t seed, int answers) {
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(fds[0]);
      CallUntilKilled(path, log_, seed, fds[1]);
    }
    ::close(fds[1]);
    char answered;
    int read = 0;
    while (::read(fds[0], &answered, 1) == 1) {
      if (++read == answers) {
        ASSERT_EQ(::kill(child, SIGKILL), 0);
      }
    }
    ::close(fds[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the callers ended by themselves: " << WEXITSTATUS(status);
    // What was not answered has happened by now, or never will.
    for (Call& call : log_->calls) {
      if (call.state != Call::State::kMade || call.returned_at != 0) continue;
      call.returned_at = ++log_->clock;
      ++unanswered_;
    }
  }

  // Appends what a caller reads who comes after all.
  void ReadAtTheEnd(const std::string& path, std::vector<std::vector<RegisterOperation>>* by_key) {
    auto store = SqliteStore::Open(path, &strand_);
    ASSERT_TRUE(store.ok()) << store.status();
    for (int key = 0; key < kKeys; ++key) {
      RegisterOperation last;
      last.called_at = ++log_->clock;
      bool done = false;
      (*store)->Range({.key = KeyOf(key)}, [&](absl::StatusOr<RangeResult> result) {
        ASSERT_TRUE(result.ok()) << result.status();
        last.value = result->kvs.empty() ? "" : result->kvs[0].value;
        done = true;
      });
      ASSERT_TRUE(strand_.RunUntil([&] { return done; }));
      last.returned_at = ++log_->clock;
      (*by_key)[key].push_back(std::move(last));
    }
  }

  std::vector<std::vector<RegisterOperation>> ByKey() const {
    std::vector<std::vector<RegisterOperation>> by_key(kKeys);
    for (const Call& call : log_->calls) {
      if (call.state == Call::State::kNotMade) continue;
      const bool answered = call.state == Call::State::kAnswered;
      // Nobody was told anything.
      if (!answered && call.kind == Kind::kRead) continue;
      by_key[call.key].push_back({.kind = call.kind,
                                  .called_at = call.called_at,
                                  .returned_at = call.returned_at,
                                  .value = ToText(call.value),
                                  .desired = ToText(call.desired),
                                  .succeeded = call.succeeded,
                                  .settled_unknown = !answered});
    }
    return by_key;
  }

  // Revisions order all keys together: what was answered before another was called is not newer.
  void CheckRevisions() const {
    for (const Call& a : log_->calls) {
      if (a.state != Call::State::kAnswered) continue;
      for (const Call& b : log_->calls) {
        if (b.state != Call::State::kAnswered || a.returned_at >= b.called_at) continue;
        const bool wrote =
            b.kind == Kind::kWrite || (b.kind == Kind::kCompareAndSet && b.succeeded);
        ASSERT_LT(a.revision, b.revision + (wrote ? 0 : 1));
      }
    }
  }

  Log* log_ = nullptr;
  PumpedStrand strand_;
  int answered_ = 0;
  int unanswered_ = 0;
};

TEST_F(SqliteHistoryTest, HistoriesOverManyDeathsAreLinearisable) {
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    new (log_) Log();
    const std::string path = absl::StrCat(testing::TempDir(), "/history-", seed, ".db");
    Random random(seed);
    for (int life = 0; life < kLives; ++life) {
      ASSERT_NO_FATAL_FAILURE(
          RunAndKill(path, seed * kLives + life, static_cast<int>(random.Between(1, 40))));
    }
    auto by_key = ByKey();
    ASSERT_NO_FATAL_FAILURE(ReadAtTheEnd(path, &by_key));
    for (int key = 0; key < kKeys; ++key) {
      answered_ += static_cast<int>(by_key[key].size());
      ASSERT_TRUE(IsLinearizable(by_key[key])) << KeyOf(key);
    }
    ASSERT_NO_FATAL_FAILURE(CheckRevisions());
  }
  std::printf("%d histories: %d calls, %d unanswered\n", static_cast<int>(kHistories), answered_,
              unanswered_);
  EXPECT_GT(answered_, 3'000);
  EXPECT_GT(unanswered_, 200);
}

}  // namespace
}  // namespace capstan::store
