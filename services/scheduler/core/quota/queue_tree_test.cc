#include "services/scheduler/core/quota/queue_tree.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::scheduler {
namespace {

QueueSpec Queue(std::string id, std::string parent = "") {
  QueueSpec spec;
  spec.id = std::move(id);
  spec.parent = std::move(parent);
  return spec;
}

TEST(QueueTreeTest, IsTheRootAloneWithoutQueues) {
  const QueueTree tree;
  EXPECT_EQ(tree.size(), 1);
  EXPECT_FALSE(tree.leaf(QueueTree::kRoot));
  EXPECT_EQ(tree.depth(), 0);
}

TEST(QueueTreeTest, LiesDepthFirstWithSiblingsById) {
  const QueueTree tree({Queue("z"), Queue("b", "a"), Queue("c", "b"), Queue("a"), Queue("a2", "a")},
                       {});
  std::string order;
  for (int i = 1; i < tree.size(); ++i) absl::StrAppend(&order, tree.node(i).id, " ");
  EXPECT_EQ(order, "a a2 b c z ");
  const int a = *tree.Find("a"), b = *tree.Find("b"), c = *tree.Find("c"), z = *tree.Find("z");
  EXPECT_TRUE(tree.contains(a, c));
  EXPECT_FALSE(tree.contains(b, z));
  EXPECT_EQ(tree.CommonAncestor(c, *tree.Find("a2")), a);
  EXPECT_EQ(tree.CommonAncestor(c, b), b);
  EXPECT_EQ(tree.CommonAncestor(c, z), QueueTree::kRoot);
  EXPECT_EQ(tree.children(QueueTree::kRoot).size(), 2u);
  EXPECT_EQ(tree.children(a).size(), 2u);
  EXPECT_TRUE(tree.leaf(c));
  EXPECT_FALSE(tree.leaf(b));
  EXPECT_EQ(tree.depth(), 3);
  EXPECT_FALSE(tree.Find("x").has_value());
}

TEST(QueueTreeTest, IsTheSameWhateverTheOrderGiven) {
  Random random(7);
  std::vector<QueueSpec> specs;
  for (int i = 0; i < 200; ++i) {
    specs.push_back(
        Queue(absl::StrCat("q", i), i < 5 ? "" : absl::StrCat("q", random.Below(i / 5))));
    specs.back().quotas["gpu"].guarantee = Limit::Of(0);
  }
  const QueueTree first(specs, {"cpu"});
  for (size_t i = specs.size(); i-- > 1;) std::swap(specs[i], specs[random.Below(i + 1)]);
  const QueueTree second(specs, {"cpu"});
  ASSERT_EQ(first.size(), second.size());
  for (int i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first.node(i).id, second.node(i).id);
    EXPECT_EQ(first.node(i).parent, second.node(i).parent);
  }
}

TEST(QueueTreeTest, UnsetZeroAndUnlimitedBorrowingDiffer) {
  QueueSpec parent = Queue("parent");
  parent.quotas["gpu"] = {Limit::Of(10), Limit::Of(0), Limit()};
  QueueSpec unset = Queue("unset", "parent");
  unset.quotas["gpu"].guarantee = Limit::Of(4);
  QueueSpec zero = Queue("zero", "parent");
  zero.quotas["gpu"] = {Limit::Of(4), Limit::Of(0), Limit()};
  QueueSpec unlimited = Queue("unlimited", "parent");
  unlimited.quotas["gpu"] = {Limit(), Limit::Unlimited(), Limit()};
  QueueSpec below = Queue("below", "unlimited");
  const QueueTree tree({parent, unset, zero, unlimited, below, Queue("free")}, {"cpu"});
  const int gpu = tree.resources().Find("gpu"), cpu = tree.resources().Find("cpu");
  auto cap = [&](absl::string_view id, int r) { return tree.node(*tree.Find(id)).cap[r]; };
  EXPECT_EQ(cap("parent", gpu), 10);
  EXPECT_EQ(cap("unset", gpu), 4) << "the parent's bound, above its own guarantee";
  EXPECT_EQ(cap("zero", gpu), 4);
  EXPECT_EQ(cap("unlimited", gpu), kNoBound) << "only the parent's cap holds it";
  EXPECT_EQ(cap("below", gpu), kNoBound) << "inherited from the nearest that says something";
  EXPECT_EQ(cap("free", gpu), kNoBound);
  EXPECT_EQ(cap("parent", cpu), kNoBound);
}

TEST(QueueTreeTest, UnsetZeroAndUnlimitedLendingDiffer) {
  QueueSpec parent = Queue("parent");
  parent.quotas["gpu"] = {Limit::Of(12), Limit(), Limit::Of(2)};
  QueueSpec unset = Queue("unset", "parent");
  unset.quotas["gpu"].guarantee = Limit::Of(4);
  QueueSpec zero = Queue("zero", "parent");
  zero.quotas["gpu"] = {Limit::Of(4), Limit(), Limit::Of(0)};
  QueueSpec unlimited = Queue("unlimited", "parent");
  unlimited.quotas["gpu"] = {Limit::Of(4), Limit(), Limit::Unlimited()};
  QueueSpec drained = zero;
  drained.id = "drained", drained.parent = "", drained.stops.drain = true;
  const QueueTree tree({parent, unset, zero, unlimited, drained}, {});
  auto reserve = [&](absl::string_view id) { return tree.node(*tree.Find(id)).reserve[0]; };
  EXPECT_EQ(reserve("parent"), 10);
  EXPECT_EQ(reserve("unset"), 2);
  EXPECT_EQ(reserve("zero"), 4);
  EXPECT_EQ(reserve("unlimited"), 0);
  EXPECT_EQ(reserve("drained"), 0) << "what cannot be used is lent";
}

TEST(QueueTreeTest, AnUnsetGuaranteeIsTheSumBelowAndZeroIsZero) {
  QueueSpec leaf = Queue("leaf", "sum");
  leaf.quotas["gpu"].guarantee = Limit::Of(3);
  QueueSpec zero = Queue("zero");
  zero.quotas["gpu"].guarantee = Limit::Of(0);
  const QueueTree tree({Queue("sum"), leaf, Queue("other", "sum"), zero}, {});
  EXPECT_EQ(tree.node(*tree.Find("sum")).guarantee[0], 3);
  EXPECT_EQ(tree.node(*tree.Find("sum")).guarantee_set, 1u);
  EXPECT_EQ(tree.node(*tree.Find("zero")).guarantee_set, 1u);
  EXPECT_EQ(tree.node(*tree.Find("other")).guarantee_set, 0u);
}

TEST(QueueTreeTest, StopsHoldForEverythingBelow) {
  QueueSpec held = Queue("held");
  held.stops.hold = true;
  QueueSpec drained = Queue("drained", "held");
  drained.stops.drain = true;
  const QueueTree tree({held, drained, Queue("leaf", "drained"), Queue("free")}, {});
  EXPECT_EQ(tree.node(*tree.Find("held")).stops, (QueueStops{.hold = true}));
  EXPECT_EQ(tree.node(*tree.Find("leaf")).stops, (QueueStops{true, true, true}));
  EXPECT_EQ(tree.node(*tree.Find("free")).stops, QueueStops{});
}

TEST(QueueTreeTest, HoldsFiveThousandQueuesInSixLevels) {
  std::vector<QueueSpec> specs;
  for (int i = 0; i < 5000; ++i) {
    specs.push_back(Queue(absl::StrCat("q", i), i < 5 ? "" : absl::StrCat("q", (i - 5) / 4)));
  }
  const QueueTree tree(specs, {});
  EXPECT_EQ(tree.size(), 5001);
  EXPECT_GE(tree.depth(), 6);
}

}  // namespace
}  // namespace capstan::scheduler
