#include "services/scheduler/core/quota/fair_shares.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/quota/random_tree.h"
#include "services/scheduler/core/quota/share.h"
#include "services/scheduler/core/quota/tree_usage.h"

namespace capstan::scheduler {
namespace {

constexpr uint64_t kWhole = uint64_t{1} << kShareBits;
constexpr uint64_t kRounding = uint64_t{1} << 22;

QueueSpec Queue(std::string id, std::string parent = "", int64_t weight = 1, Quota gpu = {}) {
  QueueSpec spec;
  spec.id = std::move(id);
  spec.parent = std::move(parent);
  spec.weight = weight;
  spec.quotas["gpu"] = gpu;
  return spec;
}

Resources Gpus(int64_t amount) {
  Resources resources;
  resources[0] = amount;
  return resources;
}

// What each leaf is entitled to of the only resource, `a:8 b:8 `, if each has this demand.
std::string Entitled(const std::vector<QueueSpec>& specs, int64_t capacity,
                     const std::map<std::string, int64_t>& demand) {
  const QueueTree tree(specs, {});
  std::vector<Resources> demands(tree.size());
  for (const auto& [id, amount] : demand) demands[*tree.Find(id)] = Gpus(amount);
  const FairShares shares = ComputeFairShares(tree, Gpus(capacity), demands);
  std::string text;
  for (int leaf : Leaves(tree)) {
    absl::StrAppend(&text, tree.node(leaf).id, ":", shares.amounts[leaf][0], " ");
  }
  return text;
}

TEST(FairSharesTest, SharesByWeightAmongThoseThatWant) {
  EXPECT_EQ(Entitled({Queue("a"), Queue("b")}, 16, {{"a", 100}, {"b", 100}}), "a:8 b:8 ");
  EXPECT_EQ(Entitled({Queue("a", "", 3), Queue("b")}, 16, {{"a", 100}, {"b", 100}}), "a:12 b:4 ");
  EXPECT_EQ(Entitled({Queue("a"), Queue("b")}, 16, {{"a", 3}, {"b", 100}}), "a:3 b:13 ");
  EXPECT_EQ(Entitled({Queue("a"), Queue("b")}, 16, {{"a", 3}}), "a:3 b:0 ");
  EXPECT_EQ(Entitled({Queue("a"), Queue("b"), Queue("c")}, 9, {{"a", 9}, {"b", 9}, {"c", 9}}),
            "a:3 b:3 c:3 ");
}

TEST(FairSharesTest, ATeamsShareDoesNotDependOnItsNumberOfQueues) {
  EXPECT_EQ(Entitled({Queue("a"), Queue("team"), Queue("x", "team"), Queue("y", "team"),
                      Queue("z", "team")},
                     24, {{"a", 100}, {"x", 100}, {"y", 100}, {"z", 100}}),
            "a:12 x:4 y:4 z:4 ");
  EXPECT_EQ(Entitled({Queue("a"), Queue("team"), Queue("x", "team"), Queue("y", "team")}, 24,
                     {{"a", 100}, {"y", 100}}),
            "a:12 x:0 y:12 ")
      << "what one leaves, its sibling takes";
}

TEST(FairSharesTest, GuaranteesAreFloors) {
  const Quota ten = {Limit::Of(10), Limit(), Limit()};
  EXPECT_EQ(Entitled({Queue("a", "", 1, ten), Queue("b")}, 16, {{"a", 100}, {"b", 100}}),
            "a:10 b:6 ");
  EXPECT_EQ(Entitled({Queue("a", "", 1, ten), Queue("b")}, 40, {{"a", 100}, {"b", 100}}),
            "a:20 b:20 ")
      << "a floor is no extra";
  EXPECT_EQ(Entitled({Queue("a", "", 1, ten), Queue("b")}, 16, {{"a", 4}, {"b", 100}}), "a:4 b:12 ")
      << "what it does not need is lent";
  EXPECT_EQ(
      Entitled({Queue("a", "", 1, ten), Queue("b", "", 1, ten)}, 16, {{"a", 100}, {"b", 100}}),
      "a:8 b:8 ")
      << "more guaranteed than there is";
}

TEST(FairSharesTest, AGuaranteeIsSharedWithinFirst) {
  const Quota twelve = {Limit::Of(12), Limit(), Limit()};
  EXPECT_EQ(Entitled({Queue("team", "", 1, twelve), Queue("x", "team"), Queue("y", "team"),
                      Queue("z", "", 10)},
                     16, {{"x", 100}, {"y", 100}, {"z", 100}}),
            "x:6 y:6 z:4 ");
}

TEST(FairSharesTest, UnsetZeroAndUnlimitedDiffer) {
  const Quota no_borrowing = {Limit::Of(4), Limit::Of(0), Limit()};
  EXPECT_EQ(Entitled({Queue("a", "", 1, no_borrowing), Queue("b")}, 16, {{"a", 100}, {"b", 5}}),
            "a:4 b:5 ");
  const Quota no_lending = {Limit::Of(10), Limit(), Limit::Of(0)};
  EXPECT_EQ(Entitled({Queue("a", "", 1, no_lending), Queue("b")}, 16, {{"a", 2}, {"b", 100}}),
            "a:2 b:6 ");
  const Quota open = {Limit::Of(10), Limit::Unlimited(), Limit::Unlimited()};
  EXPECT_EQ(Entitled({Queue("a", "", 1, open), Queue("b")}, 16, {{"a", 2}, {"b", 100}}),
            "a:2 b:14 ");
  const Quota team = {Limit::Of(12), Limit(), Limit()};
  const Quota zero = {Limit::Of(0), Limit(), Limit()};
  EXPECT_EQ(Entitled({Queue("team", "", 1, team), Queue("x", "team"), Queue("z", "", 1, zero)}, 16,
                     {{"x", 100}, {"z", 100}}),
            "x:12 z:4 ");
}

TEST(FairSharesTest, WhatNeedsSomethingThatIsNotThereGetsNothing) {
  const QueueTree tree({Queue("a"), Queue("b")}, {"tpu"});
  const int gpu = tree.resources().Find("gpu"), tpu = tree.resources().Find("tpu");
  Resources capacity, both, gpus;
  capacity[gpu] = both[gpu] = both[tpu] = gpus[gpu] = 8;
  const FairShares shares = ComputeFairShares(tree, capacity, {{}, both, gpus});
  EXPECT_EQ(shares.amounts[1], Resources());
  EXPECT_EQ(shares.amounts[2], gpus);
}

// The example of the paper on dominant resource fairness: 9 cores and 18 GB, tasks of (1, 4) and
// (3, 1): three of the one and two of the other.
TEST(FairSharesTest, EqualisesDominantShares) {
  const QueueTree tree({Queue("a"), Queue("b")}, {"cpu", "memory"});
  const int cpu = tree.resources().Find("cpu"), memory = tree.resources().Find("memory");
  const int64_t gib = int64_t{1} << 30;
  Resources capacity, a, b;
  capacity[cpu] = 9'000, capacity[memory] = 18 * gib;
  a[cpu] = 100'000, a[memory] = 400 * gib;
  b[cpu] = 300'000, b[memory] = 100 * gib;
  const FairShares shares = ComputeFairShares(tree, capacity, {{}, a, b});
  EXPECT_EQ(shares.amounts[1][cpu], 3'000);
  EXPECT_NEAR(static_cast<double>(shares.amounts[1][memory]), 12.0 * gib, 1.0);
  EXPECT_EQ(shares.amounts[2][cpu], 6'000);
  EXPECT_NEAR(static_cast<double>(shares.amounts[2][memory]), 2.0 * gib, 1.0);
  EXPECT_NEAR(static_cast<double>(shares.levels[1]), 2.0 / 3 * kWhole, kRounding);
}

struct Case {
  Case(uint64_t seed, const RandomTreeOptions& options, int64_t max_demand) : random(seed) {
    specs = RandomQueues(options, random);
    tree = QueueTree(specs, RandomResourceNames(options.resources));
    capacity = RandomAmounts(options.resources, 500'000, 1'000'000, random);
    demand.resize(tree.size());
    for (int leaf : Leaves(tree)) {
      demand[leaf] = RandomAmounts(options.resources, 0, max_demand, random);
    }
    shares = ComputeFairShares(tree, capacity, demand);
  }

  Random random;
  std::vector<QueueSpec> specs;
  QueueTree tree;
  Resources capacity;
  std::vector<Resources> demand;
  FairShares shares;
};

TreeUsage UsageOf(const Case& given) {
  TreeUsage usage(given.tree);
  for (int leaf : Leaves(given.tree)) usage.Add(leaf, given.shares.amounts[leaf]);
  return usage;
}

constexpr RandomTreeOptions kLarge = {.queues = 60,
                                      .depth = 6,
                                      .resources = 3,
                                      .max_weight = 1000,
                                      .max_guarantee = 20'000,
                                      .limits = true};

// Nothing adds up to more than there is, at any level; and nobody is left wanting what is free.
TEST(FairSharesTest, KeepsEveryLimitAndWastesNothing) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case given(seed, kLarge, 60'000);
    const QueueTree& tree = given.tree;
    const TreeUsage usage = UsageOf(given);
    // Each leaf below may lack a unit to rounding.
    const auto used_up = [&](int i, int r) {
      const int64_t limit = i == 0 ? given.capacity[r] : tree.node(i).cap[r];
      return limit != kNoBound && usage.claim(i, r) + tree.size() >= limit;
    };
    for (int i = 0; i < tree.size(); ++i) {
      for (int r = 0; r < 3; ++r) {
        ASSERT_LE(usage.used(i)[r], i == 0 ? given.capacity[r] : tree.node(i).cap[r]);
        // The root's claim may be more: guarantees that are not lent by a fleet that shrank.
        ASSERT_TRUE(i == 0 || usage.claim(i, r) <= tree.node(i).cap[r]);
      }
    }
    for (int leaf : Leaves(tree)) {
      if (given.shares.amounts[leaf] == given.demand[leaf]) continue;
      bool stopped = false;
      for (int i = leaf; i >= 0; i = tree.node(i).parent) {
        for (int r = 0; r < 3; ++r) stopped |= given.demand[leaf][r] > 0 && used_up(i, r);
      }
      ASSERT_TRUE(stopped) << "seed " << seed << ", " << tree.node(leaf).id;
    }
  }
}

TEST(FairSharesTest, DoesNotDependOnTheOrderGiven) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Case given(seed, kLarge, 60'000);
    for (size_t i = given.specs.size(); i-- > 1;) {
      std::swap(given.specs[i], given.specs[given.random.Below(i + 1)]);
    }
    const QueueTree tree(given.specs, RandomResourceNames(3));
    const FairShares shares = ComputeFairShares(tree, given.capacity, given.demand);
    ASSERT_EQ(shares.levels, given.shares.levels) << "seed " << seed;
    ASSERT_EQ(shares.amounts, given.shares.amounts) << "seed " << seed;
  }
}

// With one resource every queue has at least what a part of the fleet of its own, cut by weights
// level by level, would give it, if it wants that much.
TEST(FairSharesTest, SharingIsNoWorseThanAPartOfOnesOwn) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case given(seed, {.queues = 40, .depth = 6, .resources = 1, .max_weight = 100}, 60'000);
    std::vector<int64_t> wanted(given.tree.size());
    std::vector<double> part(given.tree.size(), static_cast<double>(given.capacity[0]));
    for (int i = given.tree.size() - 1; i > 0; --i) {
      wanted[i] += given.demand[i][0];
      wanted[given.tree.node(i).parent] += wanted[i];
    }
    for (int i = 0; i < given.tree.size(); ++i) {
      int64_t weights = 0;
      for (int c : given.tree.children(i)) weights += given.tree.node(c).weight;
      for (int c : given.tree.children(i)) {
        part[c] = part[i] * static_cast<double>(given.tree.node(c).weight) / weights;
      }
      ASSERT_GE(static_cast<double>(given.shares.amounts[i][0]) + given.tree.size(),
                std::min(part[i], static_cast<double>(wanted[i])))
          << "seed " << seed << ", " << given.tree.Describe(i);
    }
  }
}

// With several resources the same holds of dominant shares, among queues of one level that want
// more than they can have.
TEST(FairSharesTest, EveryBackloggedQueueHasItsPartOfItsDominantResource) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<QueueSpec> specs =
        RandomQueues({.queues = 12, .depth = 1, .resources = 3, .max_weight = 50}, random);
    const QueueTree tree(specs, {});
    const Resources capacity = RandomAmounts(3, 500'000, 1'000'000, random);
    std::vector<Resources> demand(tree.size());
    int64_t weights = 0;
    for (int leaf : Leaves(tree)) {
      demand[leaf] = RandomAmounts(3, 1'000'000, 9'000'000, random);
      weights += tree.node(leaf).weight;
    }
    const FairShares shares = ComputeFairShares(tree, capacity, demand);
    for (int leaf : Leaves(tree)) {
      ASSERT_GE(shares.levels[leaf] + kRounding, kWhole / weights * tree.node(leaf).weight);
    }
  }
}

// When a queue goes away, or wants less, no other of its level has less.
TEST(FairSharesTest, LessDemandOfOneIsNeverLessForAnother) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Case given(seed, {.queues = 12, .depth = 1, .resources = 3, .max_weight = 50}, 300'000);
    const std::vector<int> leaves = Leaves(given.tree);
    const int leaving = leaves[given.random.Below(leaves.size())];
    given.demand[leaving] = Resources();
    const FairShares after = ComputeFairShares(given.tree, given.capacity, given.demand);
    for (int leaf : leaves) {
      if (leaf == leaving) continue;
      ASSERT_GE(after.levels[leaf] + kRounding, given.shares.levels[leaf]) << "seed " << seed;
    }
  }
}

// More capacity is never less for anybody, with one resource.
TEST(FairSharesTest, MoreCapacityIsNeverLessForAnybody) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case given(
        seed, {.queues = 40, .depth = 6, .resources = 1, .max_weight = 9, .max_guarantee = 9'000},
        60'000);
    Resources more = given.capacity;
    more[0] += 100'000;
    const FairShares after = ComputeFairShares(given.tree, more, given.demand);
    for (int i = 0; i < given.tree.size(); ++i) {
      ASSERT_GE(after.amounts[i][0] + given.tree.size(), given.shares.amounts[i][0]);
    }
  }
}

// Another method for one level and one resource: sort by demand over weight and hand out from the
// smallest, in fractions.
TEST(FairSharesTest, AgreesWithSortingOnOneLevel) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const Case given(seed, {.queues = 15, .depth = 1, .resources = 1, .max_weight = 1000}, 200'000);
    std::vector<int> leaves = Leaves(given.tree);
    std::sort(leaves.begin(), leaves.end(), [&](int a, int b) {
      return given.demand[a][0] * given.tree.node(b).weight <
             given.demand[b][0] * given.tree.node(a).weight;
    });
    int64_t left = given.capacity[0], weights = 0;
    for (int leaf : leaves) weights += given.tree.node(leaf).weight;
    for (int leaf : leaves) {
      const int64_t weight = given.tree.node(leaf).weight;
      const bool met =
          static_cast<Wide>(given.demand[leaf][0]) * weights <= static_cast<Wide>(left) * weight;
      const int64_t expected = met ? given.demand[leaf][0] : left * weight / weights;
      ASSERT_EQ(given.shares.amounts[leaf][0], expected) << "seed " << seed;
      if (!met) continue;
      left -= expected;
      weights -= weight;
    }
  }
}

}  // namespace
}  // namespace capstan::scheduler
