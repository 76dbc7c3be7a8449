#include "services/scheduler/core/quota/queue_histories.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/quota/queue_spec.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/tree_usage.h"

namespace capstan::scheduler {
namespace {

constexpr absl::Duration kDay = absl::Hours(24);
const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

QueueSpec Spec(const std::string& id, const std::string& parent,
               absl::optional<absl::Duration> half_life) {
  QueueSpec spec;
  spec.id = id;
  spec.parent = parent;
  spec.half_life = half_life;
  return spec;
}

Resources Of(const QueueTree& tree, const std::string& name, int64_t amount) {
  Resources resources;
  resources[tree.resources().Find(name)] = amount;
  return resources;
}

// A parent that remembers a day, one below that says nothing, one that remembers nothing, and a
// stranger without a half-life.
std::vector<QueueSpec> Team() {
  return {Spec("team", "", kDay), Spec("inherits", "team", absl::nullopt),
          Spec("forgets", "team", absl::ZeroDuration()), Spec("other", "", absl::nullopt)};
}

using Changed = std::set<std::string>;

TEST(QueueHistoriesTest, CountsAtEachLevelThatHasAHalfLife) {
  const QueueTree tree(Team(), {"cpu"});
  TreeUsage usage(tree);
  QueueHistories histories;
  histories.SetTree(tree, {}, kStart);
  EXPECT_FALSE(histories.empty());
  EXPECT_EQ(histories.TakeChanged(), Changed());
  for (const char* id : {"inherits", "forgets", "other"}) {
    usage.Add(*tree.Find(id), Of(tree, "cpu", 1000));
    histories.Settle(usage, *tree.Find(id), kStart);
  }
  EXPECT_EQ(histories.TakeChanged(), (Changed{"inherits", "team"}));
  const std::vector<UsageHistory> later = histories.At(kStart + kDay);
  EXPECT_EQ(later[*tree.Find("inherits")].average[0], 500);
  EXPECT_EQ(later[*tree.Find("team")].average[0], 1000) << "with what those below it use";
  EXPECT_EQ(later[*tree.Find("forgets")].average[0], 0);
  EXPECT_EQ(later[*tree.Find("other")].average[0], 0);
  // Reading changes nothing, and what did not change is not told.
  EXPECT_EQ(histories.At(kStart)[*tree.Find("inherits")].average[0], 0);
  histories.SettleAll(usage, kStart + kDay);
  EXPECT_EQ(histories.TakeChanged(), Changed());
}

TEST(QueueHistoriesTest, WhatEndsAndBeginsAtOneTimeIsNoChange) {
  const QueueTree tree(Team(), {"cpu"});
  TreeUsage usage(tree);
  QueueHistories histories;
  histories.SetTree(tree, {}, kStart);
  const int leaf = *tree.Find("inherits");
  usage.Add(leaf, Of(tree, "cpu", 1000));
  histories.Settle(usage, leaf, kStart);
  histories.TakeChanged();
  const QueueHistories::Named before = histories.All(tree);
  usage.Remove(leaf, Of(tree, "cpu", 1000));
  usage.Add(leaf, Of(tree, "cpu", 1000));
  histories.Settle(usage, leaf, kStart + kDay);
  EXPECT_EQ(histories.TakeChanged(), Changed());
  EXPECT_EQ(histories.All(tree), before);
}

TEST(QueueHistoriesTest, AnotherTreeKeepsEachHistoryByNameOfResource) {
  const QueueTree tree(Team(), {"cpu", "nvidia.com/h100"});
  TreeUsage usage(tree);
  QueueHistories histories;
  histories.SetTree(tree, {}, kStart);
  usage.Add(*tree.Find("inherits"), Of(tree, "nvidia.com/h100", 8));
  histories.SettleAll(usage, kStart);
  histories.TakeChanged();
  // The new names come before the old ones, and so does the new queue.
  std::vector<QueueSpec> specs = Team();
  specs.push_back(Spec("a", "team", absl::nullopt));
  const QueueTree grown(specs, {"amd.com/mi300", "cpu", "nvidia.com/h100"});
  ASSERT_NE(tree.resources().Find("nvidia.com/h100"), grown.resources().Find("nvidia.com/h100"));
  ASSERT_NE(*tree.Find("inherits"), *grown.Find("inherits"));
  histories.SetTree(grown, histories.All(tree), kStart + kDay);
  EXPECT_EQ(histories.TakeChanged(), Changed()) << "time alone makes of it what it made before";
  TreeUsage grown_usage(grown);
  grown_usage.Add(*grown.Find("inherits"), Of(grown, "nvidia.com/h100", 8));
  histories.SettleAll(grown_usage, kStart + kDay);
  EXPECT_EQ(histories.TakeChanged(), Changed());
  const int h100 = grown.resources().Find("nvidia.com/h100");
  const UsageHistory history = histories.At(kStart + kDay)[*grown.Find("inherits")];
  EXPECT_EQ(history.average[h100], 4);
  EXPECT_EQ(history.average[grown.resources().Find("cpu")], 0);
  EXPECT_EQ(histories.At(kStart + 2 * kDay)[*grown.Find("inherits")].average[h100], 6);
}

TEST(QueueHistoriesTest, AnotherHalfLifeHoldsFromThenOn) {
  const QueueTree tree(Team(), {"cpu"});
  TreeUsage usage(tree);
  QueueHistories histories;
  histories.SetTree(tree, {}, kStart);
  const int leaf = *tree.Find("inherits");
  usage.Add(leaf, Of(tree, "cpu", 1000));
  histories.SettleAll(usage, kStart);
  histories.TakeChanged();
  std::vector<QueueSpec> specs = Team();
  specs[0].half_life = absl::Hours(1);
  const QueueTree faster(specs, {"cpu"});
  histories.SetTree(faster, histories.All(tree), kStart + kDay);
  EXPECT_EQ(histories.TakeChanged(), (Changed{"inherits", "team"}));
  EXPECT_EQ(histories.At(kStart + kDay)[leaf].average[0], 500) << "counted as it was said then";
  EXPECT_EQ(histories.At(kStart + kDay + absl::Hours(1))[leaf].average[0], 750);
  // None at all: forgotten, and that is told.
  specs[0].half_life = absl::nullopt;
  const QueueTree none(specs, {"cpu"});
  histories.SetTree(none, histories.All(faster), kStart + 2 * kDay);
  EXPECT_TRUE(histories.empty());
  EXPECT_EQ(histories.TakeChanged(), (Changed{"inherits", "team"}));
  EXPECT_TRUE(histories.At(kStart + 2 * kDay).empty());
  EXPECT_FALSE(histories.Renew(none, "inherits", kStart + 2 * kDay).has_value());
}

TEST(QueueHistoriesTest, ARenewedHistoryIsWhatTheNextTreeStartsFrom) {
  const QueueTree tree(Team(), {"cpu"});
  TreeUsage usage(tree);
  QueueHistories histories;
  histories.SetTree(tree, {}, kStart);
  EXPECT_FALSE(histories.Renew(tree, "inherits", kStart).has_value()) << "nothing was ever used";
  const int leaf = *tree.Find("inherits");
  usage.Add(leaf, Of(tree, "cpu", 1000));
  histories.SettleAll(usage, kStart);
  const absl::optional<NamedHistory> renewed =
      histories.Renew(tree, "inherits", kStart + absl::Hours(7));
  ASSERT_TRUE(renewed.has_value());
  EXPECT_EQ(renewed->as_of, kStart + absl::Hours(7));
  EXPECT_EQ(renewed->amounts.at("cpu").used, 1000);
  QueueHistories next;
  next.SetTree(tree, {{"inherits", *renewed}}, kStart + kDay);
  EXPECT_EQ(next.At(kStart + 3 * kDay)[leaf], histories.At(kStart + 3 * kDay)[leaf]);
}

TEST(QueueHistoriesTest, AClockThatStepsBackCountsNothingTwice) {
  const QueueTree tree(Team(), {"cpu"});
  TreeUsage usage(tree);
  QueueHistories histories;
  histories.SetTree(tree, {}, kStart);
  const int leaf = *tree.Find("inherits");
  usage.Add(leaf, Of(tree, "cpu", 1000));
  histories.SettleAll(usage, kStart);
  usage.Remove(leaf, Of(tree, "cpu", 1000));
  histories.SettleAll(usage, kStart + kDay);
  EXPECT_EQ(histories.At(kStart + kDay)[leaf].average[0], 500);
  // Back by half a day: what is used meanwhile counts from the time on that was reached before.
  usage.Add(leaf, Of(tree, "cpu", 1000));
  histories.SettleAll(usage, kStart + kDay / 2);
  EXPECT_EQ(histories.At(kStart + kDay)[leaf].average[0], 500);
  EXPECT_EQ(histories.At(kStart + 2 * kDay)[leaf].average[0], 750);
}

}  // namespace
}  // namespace capstan::scheduler
