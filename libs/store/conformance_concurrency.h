// Part of conformance.h: concurrent callers, whose histories must be linearisable.
#ifndef CAPSTAN_LIBS_STORE_CONFORMANCE_CONCURRENCY_H_
#define CAPSTAN_LIBS_STORE_CONFORMANCE_CONCURRENCY_H_

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "libs/store/conformance.h"
#include "libs/store/testing/linearizability.h"

namespace capstan::store {

// What concurrent callers did, on one logical clock.
struct ConcurrentHistory {
  struct Revision {
    int64_t called_at;
    int64_t returned_at;
    int64_t revision;
    bool wrote;
  };
  absl::Mutex mutex;
  std::map<std::string, std::vector<RegisterOperation>> by_key ABSL_GUARDED_BY(mutex);
  std::vector<Revision> revisions ABSL_GUARDED_BY(mutex);
  std::atomic<int64_t> clock{0};
};

// One caller: reads, writes and compare-and-sets on a few keys, one after another.
inline void RunCaller(Store* store, const std::string& root, uint64_t seed, int operations,
                      ConcurrentHistory* history) {
  using Kind = RegisterOperation::Kind;
  Random random(seed);
  std::string last_seen;
  for (int i = 0; i < operations; ++i) {
    const std::string key = absl::StrCat(root, random.Below(3));
    RegisterOperation op;
    op.kind = static_cast<Kind>(random.Below(3));
    TxnRequest txn;
    const std::string fresh = absl::StrCat(seed, "-", i);
    if (op.kind == Kind::kWrite) {
      op.value = fresh;
      txn.then.push_back(Put{key, fresh});
    } else if (op.kind == Kind::kCompareAndSet) {
      op.value = last_seen;
      op.desired = fresh;
      txn.compares.push_back({.key = key, .target = Compare::Target::kValue, .value = last_seen});
      txn.then.push_back(Put{key, fresh});
      txn.otherwise.push_back(RangeRequest{.key = key});
    }
    absl::Notification done;
    int64_t revision = 0;
    op.called_at = ++history->clock;
    if (op.kind == Kind::kRead) {
      store->Range({.key = key}, [&](absl::StatusOr<RangeResult> result) {
        ASSERT_TRUE(result.ok()) << result.status();
        op.value = result->kvs.empty() ? "" : result->kvs[0].value;
        last_seen = op.value;
        revision = result->revision;
        done.Notify();
      });
    } else {
      store->Txn(std::move(txn), [&](absl::StatusOr<TxnResult> result) {
        ASSERT_TRUE(result.ok()) << result.status();
        op.succeeded = result->succeeded;
        revision = result->revision;
        done.Notify();
      });
    }
    done.WaitForNotification();
    op.returned_at = ++history->clock;
    absl::MutexLock lock(&history->mutex);
    const bool wrote = op.kind == Kind::kWrite || (op.kind == Kind::kCompareAndSet && op.succeeded);
    history->revisions.push_back({op.called_at, op.returned_at, revision, wrote});
    history->by_key[key].push_back(std::move(op));
  }
}

TEST_P(StoreConformanceTest, ConcurrentHistoriesAreLinearisable) {
  constexpr int kCallers = 4;
  constexpr int kOperations = 40;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ConcurrentHistory history;
    std::atomic<int> running{kCallers};
    std::vector<std::thread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back([&, c] {
        RunCaller(store_.get(), absl::StrCat("/", seed, "/"), seed * 100 + c, kOperations,
                  &history);
        --running;
        // Wakes the pump.
        strand_.Post([] {});
      });
    }
    EXPECT_TRUE(strand_.RunUntil([&] { return running == 0; }));
    for (std::thread& caller : callers) caller.join();
    absl::MutexLock lock(&history.mutex);
    for (const auto& [key, operations] : history.by_key) {
      EXPECT_TRUE(IsLinearizable(operations)) << "seed " << seed << " key " << key;
    }
    // Revisions order all keys together: what returned before another was called is not newer.
    for (const auto& a : history.revisions) {
      for (const auto& b : history.revisions) {
        if (a.returned_at >= b.called_at) continue;
        EXPECT_LE(a.revision, b.revision) << "seed " << seed;
        if (b.wrote) {
          EXPECT_LT(a.revision, b.revision) << "seed " << seed;
        }
      }
    }
  }
}

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_CONFORMANCE_CONCURRENCY_H_
