#include "services/node_agent/core/cache_core.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"

namespace capstan::node_agent {
namespace {

using Next = CacheCore::Plan::Next;

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

// Wants and takes it as come.
std::vector<std::string> Bring(CacheCore& core, const std::string& key, int64_t bytes,
                               const std::string& holder, int64_t at) {
  const auto plan = core.Want(key, bytes, holder, key, At(at));
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  EXPECT_NE(plan->next, Next::kWait);
  if (plan->next == Next::kFetch) core.Came(key);
  return plan->leaving;
}

TEST(CacheCoreTest, ContentIsFetchedOnceAndSharedByThoseWhoHoldIt) {
  CacheCore core(100);
  EXPECT_EQ(core.Want("a", 10, "j/1", "a", At(1))->next, Next::kFetch);
  const auto second = core.Want("a", 10, "k/1", "a", At(2));
  EXPECT_EQ(second->next, Next::kWait);
  EXPECT_TRUE(second->changed);
  core.Came("a");
  const auto third = core.Want("a", 10, "k/1", "a", At(3));
  EXPECT_EQ(third->next, Next::kUse);
  EXPECT_FALSE(third->changed);
  EXPECT_EQ(core.bytes(), 10);
}

TEST(CacheCoreTest, HeldContentStaysAndTheLeastRecentlyUsedLeaves) {
  CacheCore core(100);
  Bring(core, "a", 40, "j/1", 1);
  Bring(core, "b", 40, "k/1", 2);
  const absl::Status full = core.Want("c", 40, "l/1", "c", At(3)).status();
  EXPECT_EQ(status::Reason(full), "SITE_FULL");
  EXPECT_TRUE(absl::StrContains(full.message(), "Jobs j, k")) << full;
  EXPECT_TRUE(core.Release("k/1", At(4)));
  EXPECT_FALSE(core.Release("k/1", At(4)));
  EXPECT_TRUE(core.Release("j/1", At(5)));
  // b was used before a, though it came later.
  EXPECT_EQ(Bring(core, "c", 40, "l/1", 6), std::vector<std::string>{"b"});
  EXPECT_EQ(core.Want("b", 40, "m/1", "b", At(7))->leaving, std::vector<std::string>{"a"});
}

TEST(CacheCoreTest, WhatIsOnItsWayHasItsRoom) {
  CacheCore core(100);
  EXPECT_EQ(core.Want("a", 60, "j/1", "a", At(1))->next, Next::kFetch);
  EXPECT_EQ(status::Reason(core.Want("b", 60, "k/1", "b", At(2)).status()), "SITE_FULL");
  core.Failed("a");
  // Still held: its room is kept for the next attempt, which needs it only once.
  EXPECT_EQ(status::Reason(core.Want("b", 60, "k/1", "b", At(3)).status()), "SITE_FULL");
  EXPECT_EQ(core.Want("a", 60, "j/1", "a", At(4))->next, Next::kFetch);
  core.Failed("a");
  core.Release("j/1", At(5));
  EXPECT_EQ(core.Want("b", 60, "k/1", "b", At(6))->leaving, std::vector<std::string>{"a"});
}

TEST(CacheCoreTest, ARestartKnowsWhatIsHeldAndTakesOverWhatNoRecordNames) {
  CacheCore core(100);
  Bring(core, "a", 30, "j/1", 1);
  ASSERT_TRUE(core.Want("b", 30, "j/1", "b", At(2)).ok());
  Bring(core, "lost", 30, "j/1", 3);
  CacheCore again(100);
  const auto useless =
      again.Load(core.Record(), {{"a", 30}, {"found", 20}}, {"a", "b", "nobody's"});
  ASSERT_TRUE(useless.ok());
  EXPECT_EQ(*useless, (std::vector<std::string>{"a", "nobody's"}));
  EXPECT_EQ(again.bytes(), 80);
  EXPECT_EQ(again.Want("a", 30, "j/1", "a", At(4))->next, Next::kUse);
  EXPECT_EQ(again.Want("b", 30, "j/1", "b", At(5))->next, Next::kFetch);
  // What was taken over leaves first.
  EXPECT_EQ(Bring(again, "c", 40, "k/1", 6), std::vector<std::string>{"found"});
  CacheRecord newer;
  newer.set_schema_version(2);
  EXPECT_EQ(status::Reason(CacheCore(1).Load(newer, {}, {}).status()), "SCHEMA_TOO_NEW");
}

TEST(CacheCoreTest, NeitherOverflowsNorLosesHeldContent) {
  Random random(11);
  CacheCore core(1000);
  std::set<std::string> fetching;
  std::map<std::string, std::set<std::string>> held;
  std::set<std::string> whole;
  for (int64_t step = 1; step < 5000; ++step) {
    const std::string key = absl::StrCat("k", random.Below(20));
    const std::string holder = absl::StrCat("j", random.Below(6), "/1");
    const auto bytes = static_cast<int64_t>(10 * (1 + std::hash<std::string>()(key) % 30));
    switch (random.Below(4)) {
      case 0:
        core.Release(holder, At(step));
        for (auto& [other, holders] : held) holders.erase(holder);
        break;
      case 1:
        if (fetching.erase(key) == 0) break;
        if (random.OneIn(3)) {
          core.Failed(key);
        } else {
          core.Came(key);
          whole.insert(key);
        }
        break;
      default: {
        const auto plan = core.Want(key, bytes, holder, key, At(step));
        if (!plan.ok()) break;
        for (const std::string& leaving : plan->leaving) {
          EXPECT_TRUE(held[leaving].empty()) << leaving;
          EXPECT_EQ(fetching.count(leaving), 0u);
          whole.erase(leaving);
        }
        EXPECT_EQ(plan->next == Next::kUse, whole.count(key) != 0);
        EXPECT_EQ(plan->next == Next::kWait, fetching.count(key) != 0);
        if (plan->next == Next::kFetch) fetching.insert(key);
        held[key].insert(holder);
      }
    }
    EXPECT_LE(core.bytes(), 1000);
  }
}

}  // namespace
}  // namespace capstan::node_agent
