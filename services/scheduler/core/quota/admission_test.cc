#include "services/scheduler/core/quota/admission.h"

#include <functional>

#include "gtest/gtest.h"
#include "services/scheduler/core/quota/random_tree.h"

namespace capstan::scheduler {
namespace {

using Reason = QuotaRefusal::Reason;

Resources Gpus(int64_t amount) {
  Resources resources;
  resources[0] = amount;
  return resources;
}

QueueSpec Queue(std::string id, std::string parent = "", Quota gpu = {}) {
  QueueSpec spec;
  spec.id = std::move(id);
  spec.parent = std::move(parent);
  spec.quotas["gpu"] = gpu;
  return spec;
}

TEST(AdmissionTest, SaysWhichLevelAndByHowMuch) {
  const QueueTree tree({Queue("team", "", {Limit::Of(40), Limit::Of(24), Limit()}),
                        Queue("a", "team", {Limit::Of(8), Limit::Unlimited(), Limit()}),
                        Queue("b", "team", {Limit::Of(8), Limit::Of(8), Limit()})},
                       {});
  TreeUsage usage(tree);
  const int team = *tree.Find("team"), a = *tree.Find("a"), b = *tree.Find("b");
  usage.Add(a, Gpus(50));
  usage.Add(b, Gpus(10));
  EXPECT_FALSE(CheckStart(usage, Gpus(100), a, Gpus(4)).has_value());
  const absl::optional<QuotaRefusal> above = CheckStart(usage, Gpus(100), a, Gpus(8));
  ASSERT_TRUE(above.has_value());
  EXPECT_EQ(*above, (QuotaRefusal{team, Reason::kBorrowingLimit, 0, 64, 60, 8, 0}));
  EXPECT_EQ(Describe(tree, *above),
            "queue \"team\" may have 64 of gpu, has 60 and would need 8 more");
  const absl::optional<QuotaRefusal> own = CheckStart(usage, Gpus(100), b, Gpus(8));
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(*own, (QuotaRefusal{b, Reason::kBorrowingLimit, 0, 16, 10, 8, 0}));
  EXPECT_EQ(ExplainStart(usage, Gpus(60), b, Gpus(8)).size(), 3u) << "b, team and the fleet";
  const absl::optional<QuotaRefusal> fleet = CheckStart(usage, Gpus(60), b, Gpus(1));
  ASSERT_TRUE(fleet.has_value());
  EXPECT_EQ(*fleet, (QuotaRefusal{QueueTree::kRoot, Reason::kCapacity, 0, 60, 60, 1, 0}));
  EXPECT_FALSE(fleet->never());
  EXPECT_TRUE(CheckStart(usage, Gpus(60), b, Gpus(17))->never());
}

TEST(AdmissionTest, WhatIsNotLentStaysFreeForItsQueue) {
  const QueueTree tree({Queue("keeps", "", {Limit::Of(6), Limit(), Limit::Of(2)}), Queue("other")},
                       {});
  TreeUsage usage(tree);
  const int keeps = *tree.Find("keeps"), other = *tree.Find("other");
  usage.Add(other, Gpus(6));
  const absl::optional<QuotaRefusal> refusal = CheckStart(usage, Gpus(10), other, Gpus(1));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(*refusal, (QuotaRefusal{QueueTree::kRoot, Reason::kNotLent, 0, 10, 10, 1, 4}));
  EXPECT_FALSE(CheckStart(usage, Gpus(10), keeps, Gpus(4)).has_value());
  EXPECT_TRUE(CheckStart(usage, Gpus(10), keeps, Gpus(5)).has_value()) << "2 are lent and in use";
  usage.Add(keeps, Gpus(4));
  EXPECT_EQ(CheckStart(usage, Gpus(10), other, Gpus(1))->reason, Reason::kCapacity);
}

// Guarantees may be more than a fleet that shrank; nobody is let in beyond what is there.
TEST(AdmissionTest, ReservesBeyondTheFleetDoNotOvercommitIt) {
  const Quota keeps = {Limit::Of(10), Limit(), Limit::Of(0)};
  const QueueTree tree({Queue("a", "", keeps), Queue("b", "", keeps)}, {});
  TreeUsage usage(tree);
  const int a = *tree.Find("a"), b = *tree.Find("b");
  EXPECT_FALSE(CheckStart(usage, Gpus(12), a, Gpus(10)).has_value());
  usage.Add(a, Gpus(10));
  EXPECT_FALSE(CheckStart(usage, Gpus(12), b, Gpus(2)).has_value());
  const absl::optional<QuotaRefusal> refusal = CheckStart(usage, Gpus(12), b, Gpus(3));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(*refusal, (QuotaRefusal{QueueTree::kRoot, Reason::kCapacity, 0, 12, 10, 3, 0}));
}

TEST(AdmissionTest, StopsNameTheUppermostQueue) {
  QueueSpec held = Queue("held"), inner = Queue("inner", "held"), leaf = Queue("leaf", "inner");
  held.stops.hold = true;
  inner.stops.hold = true;
  leaf.stops.cordon = true;
  QueueSpec drained = Queue("drained"), below = Queue("below", "drained");
  drained.stops.drain = true;
  const QueueTree tree({held, inner, leaf, drained, below}, {});
  const TreeUsage usage(tree);
  const int at = *tree.Find("leaf");
  EXPECT_EQ(CheckSubmission(tree, at)->reason, Reason::kCordoned);
  EXPECT_EQ(CheckSubmission(tree, at)->node, at);
  EXPECT_EQ(CheckStart(usage, Gpus(10), at, Gpus(1))->reason, Reason::kHeld);
  EXPECT_EQ(CheckStart(usage, Gpus(10), at, Gpus(1))->node, *tree.Find("held"));
  EXPECT_EQ(CheckSubmission(tree, *tree.Find("below"))->reason, Reason::kDraining);
  EXPECT_EQ(CheckStart(usage, Gpus(10), *tree.Find("below"), Gpus(0))->node, *tree.Find("drained"));
}

TEST(AdmissionTest, ALoweredLimitRefusesOnlyWhatThereIsTooMuchOf) {
  QueueSpec queue = Queue("a", "", {Limit::Of(1), Limit::Of(0), Limit()});
  const QueueTree tree({queue}, {"cpu"});
  const int gpu = tree.resources().Find("gpu"), cpu = tree.resources().Find("cpu");
  TreeUsage usage(tree);
  Resources capacity, one_gpu, one_cpu;
  capacity[gpu] = capacity[cpu] = 10, one_gpu[gpu] = 5, one_cpu[cpu] = 1;
  usage.Add(1, one_gpu);
  EXPECT_FALSE(CheckStart(usage, capacity, 1, one_cpu).has_value());
}

TEST(AdmissionTest, RefusesWhatTheFleetDoesNotHave) {
  const QueueTree tree({Queue("a")}, {});
  const TreeUsage usage(tree);
  Resources odd;
  odd[7] = 1;
  EXPECT_EQ(CheckStart(usage, Gpus(8), 1, odd)->reason, Reason::kUnknownResource);
  EXPECT_EQ(CheckStart(usage, Gpus(0), 1, Gpus(1))->reason, Reason::kUnknownResource);
  EXPECT_TRUE(CheckStart(usage, Gpus(0), 1, Gpus(1))->never());
}

// The claim by its definition, from the bottom up.
int64_t ClaimByDefinition(const TreeUsage& usage, int node, int r) {
  const QueueTree& tree = usage.tree();
  int64_t sum = tree.leaf(node) ? usage.used(node)[r] : 0;
  for (int c : tree.children(node)) sum += ClaimByDefinition(usage, c, r);
  return std::max(sum, tree.node(node).reserve[r]);
}

bool WithinLimits(const TreeUsage& usage, const Resources& capacity) {
  for (int i = 0; i < usage.tree().size(); ++i) {
    for (int r = 0; r < usage.tree().resource_count(); ++r) {
      const int64_t limit = i == 0 ? capacity[r] : usage.tree().node(i).cap[r];
      if (ClaimByDefinition(usage, i, r) > limit) return false;
    }
  }
  return true;
}

// Admission says yes exactly if every level then keeps its limit by definition; hence what it
// admitted never adds up to more than any limit or the fleet.
TEST(AdmissionTest, AgreesWithTheDefinition) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const QueueTree tree(RandomQueues({.queues = 12, .max_guarantee = 6, .limits = true}, random),
                         {});
    const std::vector<int> leaves = Leaves(tree);
    TreeUsage usage(tree);
    Resources capacity = RandomAmounts(2, 60, 120, random);
    for (int r = 0; r < 2; ++r) capacity[r] = std::max(capacity[r], usage.claim(0, r));
    std::vector<std::pair<int, Resources>> running;
    for (int step = 0; step < 60; ++step) {
      if (!running.empty() && random.OneIn(4)) {
        const size_t at = random.Below(running.size());
        usage.Remove(running[at].first, running[at].second);
        running.erase(running.begin() + at);
        continue;
      }
      const int leaf = leaves[random.Below(leaves.size())];
      const Resources request = RandomAmounts(2, 0, 6, random);
      TreeUsage after = usage;
      after.Add(leaf, request);
      const bool admitted = !CheckStart(usage, capacity, leaf, request).has_value();
      ASSERT_EQ(admitted, WithinLimits(after, capacity)) << "seed " << seed << " step " << step;
      ASSERT_EQ(admitted, ExplainStart(usage, capacity, leaf, request).empty());
      if (!admitted) continue;
      usage = after;
      running.emplace_back(leaf, request);
    }
    for (const auto& [leaf, amounts] : running) usage.Remove(leaf, amounts);
    for (int i = 0; i < tree.size(); ++i) EXPECT_EQ(usage.used(i), Resources());
  }
}

}  // namespace
}  // namespace capstan::scheduler
