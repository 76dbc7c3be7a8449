#include "libs/kube/reconciler/reconciler.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/informer/toy_api_server.h"
#include "libs/kube/reconciler/ownership.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);

ObjectKey Key(std::string name) { return {"default", std::move(name)}; }

std::vector<OwnerReference> OwnersOf(const Toy& toy) {
  if (toy.owner.empty()) return {};
  return {{"example.org/v1", "Toy", toy.owner, "uid", true, false}};
}

// What the reconciler did, and a wait for it.
class Calls {
 public:
  void Note(const ObjectKey& key, std::string what = "") {
    absl::MutexLock lock(&mutex_);
    ++counts_[key.name];
    order_.push_back(key.name);
    last_[key.name] = std::move(what);
  }
  int count(const std::string& name) const {
    absl::MutexLock lock(&mutex_);
    const auto found = counts_.find(name);
    return found == counts_.end() ? 0 : found->second;
  }
  std::vector<std::string> order() const {
    absl::MutexLock lock(&mutex_);
    return order_;
  }
  std::map<std::string, std::string> last() const {
    absl::MutexLock lock(&mutex_);
    return last_;
  }
  bool Await(const std::string& name, int count) {
    const auto reached = [&]()
                             ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return counts_[name] >= count; };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), kDeadline);
  }
  bool AwaitLast(const std::string& name, const std::string& what) {
    const auto reached = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return last_[name] == what; };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), kDeadline);
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, int> counts_;
  std::vector<std::string> order_;
  std::map<std::string, std::string> last_;
};

class ReconcilerTest : public testing::Test {
 protected:
  ReconcilerTest() {
    InformerOptions<Toy> options;
    options.scope.type = ToyType();
    options.list_watch.reflector.initial_backoff = absl::Milliseconds(1);
    options.list_watch.reflector.max_backoff = absl::Milliseconds(5);
    toys_ = std::make_unique<Informer<Toy>>(
        options, &codec_, InformerDependencies{&server_, &strand_, 7, absl::nullopt, nullptr});
  }
  ~ReconcilerTest() override {
    reconciler_ = nullptr;
    toys_ = nullptr;
    server_strand_.Stop();
  }

  void Make(ReconcileFunction reconcile, ReconcilerOptions options = {.name = "toys"},
            metrics::Registry* metrics = nullptr) {
    reconciler_ = std::make_unique<Reconciler>(
        std::move(options), std::move(reconcile),
        ReconcilerDependencies{&strand_, log::Logger("test", &clock_, &sink_), metrics});
  }

  const SystemClock clock_;
  log::TestingSink sink_;
  ThreadStrand server_strand_{"server", &clock_};
  ToyApiServer server_{5, absl::Microseconds(100), &server_strand_};
  ThreadStrand strand_{"strand", &clock_};
  ToyCodec codec_;
  std::unique_ptr<Informer<Toy>> toys_;
  Calls calls_;
  std::unique_ptr<Reconciler> reconciler_;
};

TEST_F(ReconcilerTest, BeginsWhenAllSourcesHaveToldWhatThereWas) {
  server_.Write("a", "red");
  server_.Write("b", "red");
  InformerOptions<Toy> options;
  options.scope.type = ToyType();
  options.scope.label_selector = "color=blue";
  Informer<Toy> blue(options, &codec_, {&server_, &strand_, 8, absl::nullopt, nullptr});
  absl::Notification begun;
  Make([&](const ObjectKey& key) -> absl::StatusOr<ReconcileResult> {
    if (!begun.HasBeenNotified()) begun.Notify();
    EXPECT_TRUE(blue.synced());
    calls_.Note(key);
    return ReconcileResult{};
  });
  reconciler_->WatchOwn<Toy>(toys_.get());
  reconciler_->WatchOwn<Toy>(&blue);
  reconciler_->Start();
  toys_->Start();
  ASSERT_TRUE(toys_->AwaitSynced(kDeadline).ok());
  // What changes before the others have come waits too, and goes first then.
  server_.Write("z", "red");
  while (reconciler_->stats().adds < 3) {
    absl::Notification turn;
    strand_.Post([&] { turn.Notify(); });
    turn.WaitForNotification();
  }
  EXPECT_FALSE(begun.HasBeenNotified());
  blue.Start();
  ASSERT_TRUE(calls_.Await("b", 1));
  EXPECT_EQ(calls_.order(), (std::vector<std::string>{"z", "a", "b"}));
  reconciler_->Stop();
}

TEST_F(ReconcilerTest, MapsObjectsToTheirOwnersAndLeavesOutWhatIsOfNoInterest) {
  server_.Write("owner", "red");
  Make([&](const ObjectKey& key) -> absl::StatusOr<ReconcileResult> {
    calls_.Note(key);
    return ReconcileResult{};
  });
  reconciler_->WatchOwned<Toy>(toys_.get(), OwnersOf, "example.org", "Toy",
                               /*owner_has_namespace=*/true, [](const CacheChange<Toy>& change) {
                                 return change.after == nullptr || change.after->color != "grey";
                               });
  reconciler_->Start();
  toys_->Start();
  server_.Write("part", "red", "owner");
  ASSERT_TRUE(calls_.Await("owner", 1));
  // From one owner to another: both have to know.
  server_.Write("part", "red", "other");
  ASSERT_TRUE(calls_.Await("other", 1));
  ASSERT_TRUE(calls_.Await("owner", 2));
  server_.Write("dull", "grey", "grey-owner");
  server_.Delete("part");
  ASSERT_TRUE(calls_.Await("other", 2));
  EXPECT_EQ(calls_.count("grey-owner"), 0);
  EXPECT_EQ(calls_.count("part"), 0);
}

TEST_F(ReconcilerTest, WorksOnAllKeysAgainWhereToldTo) {
  server_.Write("a", "red");
  server_.Write("b", "grey");
  Make(
      [&](const ObjectKey& key) -> absl::StatusOr<ReconcileResult> {
        calls_.Note(key);
        return ReconcileResult{};
      },
      {.name = "toys", .resync = absl::Milliseconds(1)});
  reconciler_->WatchOwn<Toy>(toys_.get(), [](const CacheChange<Toy>& change) {
    return change.before == nullptr || change.after == nullptr || change.after->color != "grey";
  });
  reconciler_->Start();
  toys_->Start();
  ASSERT_TRUE(calls_.Await("a", 5));
  EXPECT_LE(calls_.count("b"), 1);
}

TEST_F(ReconcilerTest, TriesAgainAndLogsAnErrorOncePerChange) {
  metrics::Registry registry("test");
  Make(
      [&](const ObjectKey& key) -> absl::StatusOr<ReconcileResult> {
        calls_.Note(key);
        const int call = calls_.count(key.name);
        if (call <= 3) return status::Error(absl::StatusCode::kUnavailable, "FIRST", "no");
        if (call <= 6) return status::Error(absl::StatusCode::kUnavailable, "SECOND", "no");
        return ReconcileResult{call < 9 ? absl::make_optional(absl::Milliseconds(1))
                                        : absl::nullopt};
      },
      {.name = "toys", .queue = {.initial_backoff = absl::Microseconds(10)}}, &registry);
  reconciler_->Start();
  reconciler_->Add(Key("a"));
  ASSERT_TRUE(calls_.Await("a", 9)) << "requeue_after is not kept";
  reconciler_->Stop(/*drain=*/true);
  EXPECT_EQ(calls_.count("a"), 9);
  const std::vector<log::Record> records = sink_.records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].message, "reconcile failed");
  EXPECT_EQ(records[1].message, "reconcile failed");
  EXPECT_EQ(records[2].message, "reconciled again");
  EXPECT_TRUE(reconciler_->failing().empty());
  EXPECT_TRUE(absl::StrContains(
      registry.RenderText(),
      "capstan_test_kube_reconciles_total{reconciler=\"toys\",result=\"error\"} 6"));
  reconciler_ = nullptr;
}

TEST_F(ReconcilerTest, StopDrainsOrDropsAndNothingRunsAfterwards) {
  for (const bool drain : {true, false}) {
    Calls calls;
    absl::Notification begun, release;
    Reconciler reconciler({.name = "toys"},
                          [&](const ObjectKey& key) -> absl::StatusOr<ReconcileResult> {
                            calls.Note(key);
                            if (!begun.HasBeenNotified()) {
                              begun.Notify();
                              release.WaitForNotificationWithTimeout(kDeadline);
                            }
                            return absl::UnavailableError("again");
                          },
                          {&strand_, absl::nullopt, nullptr});
    reconciler.Start();
    reconciler.Add(Key("a"));
    ASSERT_TRUE(begun.WaitForNotificationWithTimeout(kDeadline));
    EXPECT_EQ(reconciler.running().size(), 1u);
    reconciler.Add(Key("b"));
    ThreadStrand stopper("stopper", &clock_);
    absl::Notification stopped;
    stopper.Post([&] {
      reconciler.Stop(drain);
      stopped.Notify();
    });
    EXPECT_FALSE(stopped.HasBeenNotified()) << "it did not wait for the call that runs";
    // What is ready is dropped at once, though a call runs.
    while (!drain && reconciler.stats().depth > 0) std::this_thread::yield();
    release.Notify();
    ASSERT_TRUE(stopped.WaitForNotificationWithTimeout(kDeadline));
    EXPECT_EQ(calls.count("b"), drain ? 1 : 0);
    reconciler.Add(Key("c"));
    EXPECT_EQ(calls.count("c"), 0);
  }
}

TEST_F(ReconcilerTest, StopBeforeTheFirstListMakesNoCall) {
  server_.set_answer(503);
  Make([&](const ObjectKey& key) -> absl::StatusOr<ReconcileResult> {
    calls_.Note(key);
    return ReconcileResult{};
  });
  reconciler_->WatchOwn<Toy>(toys_.get());
  reconciler_->Start();
  toys_->Start();
  reconciler_->Add(Key("a"));
  reconciler_->Stop(/*drain=*/true);
  EXPECT_EQ(calls_.count("a"), 0);
}

TEST_F(ReconcilerTest, KeepsAnIntervalBetweenCallsOfAKey) {
  SimulatedClock clock;
  // Mapping is not used here, so the strand's thread may wait in real time.
  ThreadStrand strand("slow", &clock);
  Reconciler reconciler({.name = "toys", .queue = {.min_interval = absl::Seconds(1)}},
                        [&](const ObjectKey& key) -> absl::StatusOr<ReconcileResult> {
                          calls_.Note(key);
                          return ReconcileResult{};
                        },
                        {&strand, absl::nullopt, nullptr});
  reconciler.Start();
  reconciler.Add(Key("a"));
  ASSERT_TRUE(calls_.Await("a", 1));
  reconciler.Add(Key("a"));
  reconciler.Add(Key("b"));
  ASSERT_TRUE(calls_.Await("b", 1));
  EXPECT_EQ(calls_.count("a"), 1);
  clock.Advance(absl::Seconds(2));
  reconciler.Wake();
  ASSERT_TRUE(calls_.Await("a", 2));
  reconciler.Stop();
}

// Whatever breaks on the way: no key has two workers, and every key's last call saw its last state.
TEST_F(ReconcilerTest, TheLastCallOfEachKeySeesItsLastState) {
  absl::Mutex mutex;
  std::map<ObjectKey, int> working;
  int clashes = 0;
  Make(
      [&](const ObjectKey& key) -> absl::StatusOr<ReconcileResult> {
        {
          absl::MutexLock lock(&mutex);
          if (++working[key] > 1) ++clashes;
        }
        const auto toy = toys_->Get(key.ns, key.name);
        calls_.Note(key, toy == nullptr ? "gone" : toy->resource_version);
        const bool fails = calls_.count(key.name) % 7 == 3;
        {
          absl::MutexLock lock(&mutex);
          --working[key];
        }
        if (fails) return absl::UnavailableError("no");
        return ReconcileResult{};
      },
      {.name = "toys", .workers = 3, .queue = {.initial_backoff = absl::Microseconds(10)}});
  reconciler_->WatchOwn<Toy>(toys_.get());
  server_.set_faults(true);
  reconciler_->Start();
  toys_->Start();
  Random random(4);
  for (int i = 0; i < 400; ++i) {
    const std::string name = absl::StrCat("toy", random.Below(10));
    if (random.OneIn(4)) {
      server_.Delete(name);
    } else {
      server_.Write(name, "red");
    }
    if (random.OneIn(60)) server_.Compact();
  }
  server_.set_faults(false);
  for (int i = 0; i < 10; ++i) {
    const std::string name = absl::StrCat("toy", i);
    ASSERT_TRUE(calls_.AwaitLast(name, server_.Write(name, "last")->resource_version)) << name;
  }
  reconciler_->Stop();
  absl::MutexLock lock(&mutex);
  EXPECT_EQ(clashes, 0);
}

}  // namespace
}  // namespace capstan::kube
