// Callers and a watcher of a real three-member etcd while its members are killed and stopped, by
// seeds; what they saw must have an order that explains it, and no event may be missed.
//
// CAPSTAN_HISTORIES and CAPSTAN_ROUNDS are how many; the soak target has more.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "integration/etcd/cluster_fixture.h"
#include "integration/etcd/history.h"
#include "integration/etcd/open_store.h"
#include "integration/etcd/test_store.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/store/store.h"
#include "tools/testenv/etcd_server.h"

#ifndef CAPSTAN_HISTORIES
#define CAPSTAN_HISTORIES 2
#define CAPSTAN_ROUNDS 3
#endif

namespace capstan::store {
namespace {

constexpr int kHistories = CAPSTAN_HISTORIES;
constexpr int kRounds = CAPSTAN_ROUNDS;
constexpr int kCallers = 4;
constexpr int kFaults = 4;
// Between faults, while there is one, and while it ends.
constexpr int kCalls = 20;
constexpr absl::Duration kPatience = absl::Seconds(30);

// Follows a range for as long as it lives, and never loses its place.
class Follower {
 public:
  Follower(Store* store, const std::string& root, int64_t start) {
    watch_ = store->StartWatch({.key = root, .end = PrefixEnd(root), .start_revision = start},
                               [this](absl::StatusOr<WatchBatch> batch) {
                                 absl::MutexLock lock(&mutex_);
                                 if (!batch.ok()) {
                                   error_ = batch.status();
                                   return;
                                 }
                                 for (const WatchEvent& event : batch->events) {
                                   if (event.kv.mod_revision <= revision_)
                                     disorder_ = absl::StrCat(event.kv.mod_revision);
                                   // Nothing deletes here: a version that is left out is an event
                                   // that was missed.
                                   int64_t& version = versions_[event.kv.key];
                                   if (event.kv.version != ++version) {
                                     disorder_ =
                                         absl::StrCat(event.kv.key, " goes from version ",
                                                      version - 1, " to ", event.kv.version);
                                   }
                                   seen_[event.kv.mod_revision] = event.kv.key;
                                 }
                                 revision_ = std::max(revision_, batch->revision);
                               });
  }

  bool Await(int64_t revision) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return revision_ >= revision || !error_.ok();
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), kPatience) && error_.ok();
  }
  std::map<int64_t, std::string> seen() const {
    absl::MutexLock lock(&mutex_);
    return seen_;
  }
  std::string disorder() const {
    absl::MutexLock lock(&mutex_);
    return error_.ok() ? disorder_ : error_.ToString();
  }

 private:
  mutable absl::Mutex mutex_;
  int64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::string disorder_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> versions_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, std::string> seen_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Watch> watch_;
};

class EtcdFaultsTest : public EtcdClusterTest {
 protected:
  static EtcdOptions Options() {
    EtcdOptions options = OptionsFor(*etcd_);
    options.attempt_timeout = absl::Seconds(1);
    return options;
  }

  // One member fails, and is well again after a while of calls; once in four times another one
  // fails meanwhile, so that nothing can be done.
  static void Fault(Random* random, History* history) {
    std::vector<int> members = {static_cast<int>(random->Below(3))};
    const bool two = random->OneIn(4);
    if (two) members.push_back((members[0] + 1) % 3);
    const bool kill = random->OneIn(2);
    for (const int member : members) kill ? etcd_->Kill(member) : etcd_->Stop(member);
    history->Allow(kCalls);
    history->Await(two ? absl::Milliseconds(500) : absl::Milliseconds(2500));
    for (const int member : members) {
      if (!kill) {
        etcd_->Continue(member);
      } else {
        ASSERT_TRUE(etcd_->Begin(member).ok());
      }
    }
    history->Allow(kCalls);
    if (!kill) return;
    for (const int member : members) {
      const absl::Status ready = etcd_->WaitReady(member);
      ASSERT_TRUE(ready.ok()) << ready;
    }
  }
};

TEST_F(EtcdFaultsTest, HistoriesAreLinearisableWhileMembersDieAndStop) {
  OpenStore store(Options());
  ASSERT_NE(store.get(), nullptr);
  History::Counts total;
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    const std::string root = absl::StrCat("/", seed, "/");
    const auto before = store.Range({.key = root});
    ASSERT_TRUE(before.ok()) << before.status();
    Follower follower(store.get(), root, before->revision + 1);
    History history;
    std::vector<std::thread> callers;
    for (int c = 0; c < kCallers; ++c) {
      callers.emplace_back(
          [&, c] { history.RunCaller(store.get(), root, seed * 100 + static_cast<uint64_t>(c)); });
    }
    Random random(seed);
    for (int i = 0; i < kFaults; ++i) {
      history.Allow(kCalls);
      history.Await(kPatience);
      Fault(&random, &history);
    }
    history.End();
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(history.Contradiction(), "") << "seed " << seed;

    const auto after = store.Range({.key = root, .end = PrefixEnd(root)});
    ASSERT_TRUE(after.ok()) << after.status();
    int64_t last = before->revision;
    for (const KeyValue& kv : after->kvs) last = std::max(last, kv.mod_revision);
    EXPECT_TRUE(follower.Await(last)) << "seed " << seed;
    EXPECT_EQ(follower.disorder(), "") << "seed " << seed;
    const std::map<int64_t, std::string> seen = follower.seen();
    for (const auto& [revision, key] : history.writes()) {
      const auto event = seen.find(revision);
      ASSERT_NE(event, seen.end()) << "seed " << seed << ": no event of revision " << revision;
      EXPECT_EQ(event->second, key);
    }
    const History::Counts counts = history.counts();
    total.answered += counts.answered;
    total.refused += counts.refused;
    total.settled += counts.settled;
    total.unknown += counts.unknown;
    // Failures cost some calls, not the store.
    EXPECT_GT(counts.answered, 2 * kFaults * kCalls) << "seed " << seed;
  }
  std::printf("%d histories: %d calls answered, %d refused, %d settled, %d unknown\n", kHistories,
              total.answered, total.refused, total.settled, total.unknown);
}

// A transaction that a stopped member holds must not take effect after a later one, whenever the
// member goes on. Without the fence some do: 4 of 600 in a trial.
TEST_F(EtcdFaultsTest, ALateTransactionDoesNotOvertakeALaterOne) {
  constexpr int kStores = 20;
  EtcdOptions options = Options();
  options.attempt_timeout = absl::Milliseconds(400);
  int held = 0;
  for (int round = 0; round < kRounds; ++round) {
    // Each uses the first member.
    std::vector<std::unique_ptr<OpenStore>> stores;
    for (int i = 0; i < kStores; ++i) stores.push_back(std::make_unique<OpenStore>(options));
    const auto key = [&](int i) { return absl::StrCat("/late/", round, "/", i); };
    etcd_->Stop(0);
    std::vector<absl::StatusOr<TxnResult>> late(kStores, absl::UnknownError("not answered"));
    absl::BlockingCounter waiting(kStores);
    for (int i = 0; i < kStores; ++i) {
      ASSERT_NE(stores[i]->get(), nullptr);
      stores[i]->get()->Txn({.then = {Put{key(i), "late"}}},
                            [&, i](absl::StatusOr<TxnResult> result) {
                              late[i] = std::move(result);
                              waiting.DecrementCount();
                            });
    }
    waiting.Wait();
    std::vector<int64_t> later(kStores);
    for (int i = 0; i < kStores; ++i) {
      if (const auto info = status::GetErrorInfo(late[i].status()); info.has_value()) {
        held += info->metadata.at("settled") == "true" ? 1 : 0;
      }
      absl::StatusOr<TxnResult> result = absl::UnknownError("not tried");
      for (int tries = 0; tries < 10 && !result.ok(); ++tries) {
        result = stores[i]->Txn({.then = {Put{key(i), "later"}}});
      }
      ASSERT_TRUE(result.ok()) << result.status();
      later[i] = result->revision;
    }
    etcd_->Continue(0);
    // What the member still had to do is done before it answers others.
    EtcdOptions first = Options();
    first.endpoints.resize(1);
    OpenStore through_first(first);
    ASSERT_NE(through_first.get(), nullptr);
    const auto end = through_first.Txn({.then = {Put{"/end", ""}}});
    ASSERT_TRUE(end.ok()) << end.status();
    for (int i = 0; i < kStores; ++i) {
      const auto found = stores[i]->Range({.key = key(i)});
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->kvs.size(), 1u);
      EXPECT_EQ(found->kvs[0].value, "later") << "round " << round << ", store " << i;
      EXPECT_EQ(found->kvs[0].mod_revision, later[i]);
    }
  }
  // The test is of nothing otherwise.
  EXPECT_GT(held, kRounds * kStores / 2);
}

}  // namespace
}  // namespace capstan::store
