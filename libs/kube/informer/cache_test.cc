#include "libs/kube/informer/cache.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/change_queue.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/random/random.h"

namespace capstan::kube {

struct Thing {
  std::string ns;
  std::string name;
  std::string uid;
  std::string rv;
  std::vector<std::string> labels;
};

template <>
struct ObjectTraits<Thing> {
  static absl::string_view Namespace(const Thing& t) { return t.ns; }
  static absl::string_view Name(const Thing& t) { return t.name; }
  static absl::string_view Uid(const Thing& t) { return t.uid; }
  static absl::string_view ResourceVersion(const Thing& t) { return t.rv; }
};

namespace {

using Ref = std::shared_ptr<const Thing>;

Ref Make(std::string name, std::string uid, std::string rv, std::vector<std::string> labels = {}) {
  return std::make_shared<Thing>(Thing{"ns", name, uid, rv, labels});
}

Cache<Thing>::Options WithLabels() {
  return {.indexes = {{"label", [](const Thing& t) { return t.labels; }}}};
}

TEST(CacheTest, KeepsIndexesOfSeveralValues) {
  Cache<Thing> cache(WithLabels());
  cache.Put(Make("b", "1", "1", {"x", "y"}));
  cache.Put(Make("a", "2", "2", {"x"}));
  ASSERT_EQ(cache.ByIndex("label", "x").size(), 2u);
  EXPECT_EQ(cache.ByIndex("label", "x")[0]->name, "a");
  EXPECT_EQ(cache.ByIndex("label", "y").size(), 1u);
  cache.Put(Make("b", "1", "3", {"z"}));
  EXPECT_EQ(cache.ByIndex("label", "y").size(), 0u);
  EXPECT_EQ(cache.ByIndex("label", "z").size(), 1u);
  cache.Remove(Make("b", "1", "4"));
  EXPECT_EQ(cache.ByIndex("label", "z").size(), 0u);
  EXPECT_EQ(cache.ByIndex("other", "z").size(), 0u);
}

TEST(CacheTest, GivesTrueChangesAlone) {
  Cache<Thing> cache;
  EXPECT_EQ(cache.Put(Make("a", "1", "1")).size(), 1u);
  EXPECT_EQ(cache.Put(Make("a", "1", "1")).size(), 0u);
  cache.Put(Make("b", "2", "2"));
  const Ref kept = cache.Get("ns", "a");
  const auto changes = cache.Replace({Make("a", "1", "1"), Make("c", "3", "3")});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].last_known->name, "b");
  EXPECT_EQ(changes[0].after, nullptr);
  EXPECT_EQ(changes[1].after->name, "c");
  EXPECT_EQ(cache.Get("ns", "a"), kept);
  EXPECT_EQ(cache.Remove(Make("b", "2", "9")).size(), 0u);
}

TEST(ChangeQueueTest, MergesPerObjectButTellsThatOneWasReplaced) {
  ChangeQueue<Thing> queue;
  const Ref a1 = Make("a", "1", "1"), a2 = Make("a", "1", "2"), b = Make("a", "7", "3");
  queue.Push({nullptr, a1, nullptr});
  queue.Push({a1, a2, nullptr});
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.Pop()->after, a2);
  queue.Push({a2, nullptr, a2});
  queue.Push({nullptr, b, nullptr});
  const auto gone = queue.Pop();
  EXPECT_EQ(gone->after, nullptr);
  EXPECT_EQ(gone->last_known, a2);
  const auto came = queue.Pop();
  EXPECT_EQ(came->before, nullptr);
  EXPECT_EQ(came->after, b);
  EXPECT_FALSE(queue.Pop().has_value());
  // Came and went unseen.
  const Ref c = Make("c", "8", "4");
  queue.Push({nullptr, c, nullptr});
  queue.Push({c, nullptr, c});
  EXPECT_EQ(queue.size(), 0u);
}

TEST(ChangeQueueTest, TellsAgainOnlyWhatDoesNotWaitAnyway) {
  ChangeQueue<Thing> queue;
  const Ref a1 = Make("a", "1", "1"), a2 = Make("a", "1", "2");
  queue.Push({nullptr, a1, nullptr});
  queue.PushAgain(a1);
  EXPECT_EQ(queue.Pop()->before, nullptr);
  EXPECT_FALSE(queue.Pop().has_value());
  queue.PushAgain(a1);
  queue.PushAgain(a1);
  const auto again = queue.Pop();
  EXPECT_EQ(again->before, a1);
  EXPECT_EQ(again->after, a1);
  EXPECT_FALSE(queue.Pop().has_value());
  queue.PushAgain(a1);
  queue.Push({a1, a2, nullptr});
  const auto newer = queue.Pop();
  EXPECT_EQ(newer->before, a1);
  EXPECT_EQ(newer->after, a2);
  EXPECT_FALSE(queue.Pop().has_value());
  queue.PushAgain(a2);
  queue.Push({a2, nullptr, a2});
  EXPECT_EQ(queue.Pop()->last_known, a2);
  EXPECT_FALSE(queue.Pop().has_value());
}

TEST(ChangeQueueTest, IsSyncedOnceTheFirstListWasTold) {
  ChangeQueue<Thing> queue;
  EXPECT_FALSE(queue.synced());
  queue.Push({nullptr, Make("a", "1", "1"), nullptr});
  queue.MarkSynced();
  queue.Push({nullptr, Make("b", "2", "2"), nullptr});
  EXPECT_FALSE(queue.synced());
  queue.Pop();
  EXPECT_TRUE(queue.synced());
}

// A server's history reaches the cache with states left out by lists and events that come twice;
// handlers of any speed see each object only go forward, its replacement as two changes, and end
// at the server's truth.
TEST(ChangeQueueTest, RandomHistoriesReachEveryHandlerInOrder) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::map<std::string, Ref> truth;
    Cache<Thing> cache;
    constexpr int kHandlers = 3;
    ChangeQueue<Thing> queues[kHandlers];
    std::map<std::string, Ref> told[kHandlers];
    std::map<std::string, int> newest_told[kHandlers];
    int version = 0;
    const auto push = [&](std::vector<CacheChange<Thing>> changes) {
      for (const auto& change : changes) {
        for (auto& queue : queues) queue.Push(change);
      }
    };
    const auto pop = [&](int i) {
      const auto change = queues[i].Pop();
      if (!change.has_value()) return false;
      const std::string& name = (change->after ? change->after : change->before)->name;
      EXPECT_EQ(change->before, told[i].count(name) > 0 ? told[i][name] : nullptr);
      if (change->after == nullptr) {
        EXPECT_EQ(change->last_known->uid, change->before->uid);
        told[i].erase(name);
        return true;
      }
      if (change->before != nullptr) {
        EXPECT_EQ(change->after->uid, change->before->uid);
      }
      if (change->before != change->after) {
        EXPECT_GT(std::stoi(change->after->rv), newest_told[i][name]) << "seed " << seed;
      }
      newest_told[i][name] = std::stoi(change->after->rv);
      told[i][name] = change->after;
      return true;
    };
    bool connected = true;
    for (int step = 0; step < 300; ++step) {
      const std::string name(1, static_cast<char>('a' + random.Below(5)));
      if (random.OneIn(3) && truth.count(name) > 0) {
        const Ref last = Make(name, truth[name]->uid, std::to_string(++version));
        truth.erase(name);
        if (connected) push(cache.Remove(last));
        if (connected && random.OneIn(4)) push(cache.Remove(last));
      } else {
        const std::string uid =
            truth.count(name) > 0 ? truth[name]->uid : std::to_string(version + 1);
        truth[name] = Make(name, uid, std::to_string(++version));
        if (connected) push(cache.Put(truth[name]));
        if (connected && random.OneIn(4)) push(cache.Put(truth[name]));
      }
      if (random.OneIn(20)) connected = false;
      if (!connected && random.OneIn(10)) {
        connected = true;
        std::vector<Ref> all;
        for (const auto& [key, object] : truth) all.push_back(object);
        push(cache.Replace(all));
      }
      for (int i = 0; i < kHandlers; ++i) {
        if (random.OneIn(1 + 4 * i)) pop(i);
        if (random.OneIn(30)) {
          for (const Ref& object : cache.List()) queues[i].PushAgain(object);
        }
        EXPECT_LE(queues[i].size(), 5u);
      }
    }
    std::vector<Ref> all;
    for (const auto& [key, object] : truth) all.push_back(object);
    push(cache.Replace(all));
    EXPECT_EQ(cache.size(), truth.size());
    for (int i = 0; i < kHandlers; ++i) {
      while (pop(i)) {
      }
      ASSERT_EQ(told[i].size(), truth.size()) << "seed " << seed;
      for (const auto& [key, object] : truth) EXPECT_EQ(told[i][key]->rv, object->rv);
    }
  }
}

}  // namespace
}  // namespace capstan::kube
