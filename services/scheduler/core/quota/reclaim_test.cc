#include "services/scheduler/core/quota/reclaim.h"

#include <algorithm>
#include <utility>

#include "gtest/gtest.h"
#include "services/scheduler/core/quota/admission.h"
#include "services/scheduler/core/quota/random_tree.h"

namespace capstan::scheduler {
namespace {

using Reason = ReclaimRefusal::Reason;

constexpr uint32_t kGpu = 1;

Resources Gpus(int64_t amount) {
  Resources resources;
  resources[0] = amount;
  return resources;
}

QueueSpec Queue(std::string id, std::string parent, int64_t guarantee) {
  QueueSpec spec;
  spec.id = std::move(id);
  spec.parent = std::move(parent);
  spec.quotas["gpu"].guarantee = Limit::Of(guarantee);
  return spec;
}

TEST(ReclaimTest, TakesWhatOthersBorrowedAndNoMore) {
  const QueueTree tree({Queue("a", "", 8), Queue("b", "", 4)}, {});
  const int a = *tree.Find("a"), b = *tree.Find("b");
  TreeUsage usage(tree);
  usage.Add(b, Gpus(12));
  Reclaim reclaim(usage, Gpus(12), nullptr, a, Gpus(8), kGpu);
  EXPECT_FALSE(reclaim.Check(b, Gpus(8)).has_value());
  EXPECT_EQ(*reclaim.Check(b, Gpus(9)),
            (ReclaimRefusal{Reason::kGuaranteeOfVictim, b, 0, 4, 3, 9}));
  reclaim.Take(b, Gpus(5));
  EXPECT_FALSE(reclaim.Check(b, Gpus(3)).has_value());
  EXPECT_TRUE(reclaim.Check(b, Gpus(4)).has_value()) << "those taken count";
  reclaim.Return(b, Gpus(5));
  EXPECT_FALSE(reclaim.Check(b, Gpus(8)).has_value());
}

TEST(ReclaimTest, OnlyForWhatIsGuaranteed) {
  const QueueTree tree({Queue("a", "", 8), Queue("b", "", 4)}, {});
  const int a = *tree.Find("a"), b = *tree.Find("b");
  TreeUsage usage(tree);
  usage.Add(a, Gpus(2));
  usage.Add(b, Gpus(10));
  const Reclaim beyond(usage, Gpus(12), nullptr, a, Gpus(7), kGpu);
  EXPECT_EQ(*beyond.Check(b, Gpus(1)), (ReclaimRefusal{Reason::kNotGuaranteed, a, 0, 8, 2, 7}));
  EXPECT_EQ(Describe(tree, *beyond.Check(b, Gpus(1))),
            "queue \"a\" is guaranteed 8 of gpu, has 2 and would need 7 more");
  const Reclaim own(usage, Gpus(12), nullptr, a, Gpus(6), kGpu);
  EXPECT_EQ(own.Check(a, Gpus(1))->reason, Reason::kSameQueue);
  EXPECT_FALSE(own.Check(b, Gpus(1)).has_value());
  const Reclaim idle(usage, Gpus(12), nullptr, a, Gpus(6), 0);
  EXPECT_EQ(idle.Check(b, Gpus(1))->reason, Reason::kNotGuaranteed) << "nothing is contested";
}

TEST(ReclaimTest, TheGuaranteeOfTheUppermostDifferentLevelCounts) {
  const QueueTree tree({Queue("left", "", 8), Queue("l1", "left", 0), Queue("l2", "left", 8),
                        Queue("right", "", 4), Queue("r1", "right", 4), Queue("r2", "right", 0)},
                       {});
  const int l1 = *tree.Find("l1"), l2 = *tree.Find("l2"), r1 = *tree.Find("r1"),
            r2 = *tree.Find("r2"), right = *tree.Find("right");
  TreeUsage usage(tree);
  usage.Add(r1, Gpus(4));
  usage.Add(r2, Gpus(8));
  // l1 has no guarantee of its own, but its team has one that lies idle.
  const Reclaim team(usage, Gpus(12), nullptr, l1, Gpus(8), kGpu);
  EXPECT_FALSE(team.Check(r2, Gpus(8)).has_value());
  EXPECT_EQ(team.Check(r1, Gpus(1))->reason, Reason::kGuaranteeOfVictim);
  EXPECT_EQ(team.Check(r2, Gpus(9))->node, r2);
  usage.Remove(r2, Gpus(8));
  usage.Add(l1, Gpus(8));
  // Within the team l2 takes its own back from l1.
  const Reclaim within(usage, Gpus(12), nullptr, l2, Gpus(8), kGpu);
  EXPECT_FALSE(within.Check(l1, Gpus(8)).has_value());
  EXPECT_EQ(within.Check(r1, Gpus(4))->reason, Reason::kNotGuaranteed) << "the team has it all";
  EXPECT_EQ(tree.node(right).guarantee[0], 4);
}

TEST(ReclaimTest, ProtectsTheFairShareIfAsked) {
  const QueueTree tree({Queue("a", "", 4), Queue("b", "", 0), Queue("c", "", 0)}, {});
  const int a = *tree.Find("a"), b = *tree.Find("b"), c = *tree.Find("c");
  TreeUsage usage(tree);
  usage.Add(b, Gpus(8));
  usage.Add(c, Gpus(4));
  const FairShares fair = ComputeFairShares(tree, Gpus(12), {{}, Gpus(9), Gpus(9), Gpus(9)});
  EXPECT_EQ(fair.amounts[b], Gpus(4));
  const Reclaim reclaim(usage, Gpus(12), &fair, a, Gpus(4), kGpu);
  EXPECT_FALSE(reclaim.Check(b, Gpus(4)).has_value());
  EXPECT_EQ(reclaim.Check(b, Gpus(5))->reason, Reason::kFairShareOfVictim);
  EXPECT_EQ(reclaim.Check(c, Gpus(1))->reason, Reason::kFairShareOfVictim);
}

TEST(ReclaimTest, VictimsAreMinimalAndOneIsEnoughWhereOneIs) {
  const QueueTree tree({Queue("a", "", 8), Queue("b", "", 0)}, {});
  const int a = *tree.Find("a"), b = *tree.Find("b");
  TreeUsage usage(tree);
  usage.Add(b, Gpus(20));
  const Reclaim reclaim(usage, Gpus(20), nullptr, a, Gpus(8), kGpu);
  const std::vector<ReclaimCandidate> candidates = {{b, Gpus(1)}, {b, Gpus(1)}, {b, Gpus(1)},
                                                    {a, Gpus(8)}, {b, Gpus(8)}, {b, Gpus(9)}};
  EXPECT_EQ(SelectVictims(reclaim, Gpus(8), candidates), (std::vector<int>{4}));
  EXPECT_EQ(SelectVictims(reclaim, Gpus(3), candidates), (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(SelectVictims(reclaim, Gpus(21), candidates).empty()) << "all or nobody";
  EXPECT_TRUE(SelectVictims(reclaim, Gpus(0), candidates).empty());
}

// Gangs that run in a random tree, and what happens when queues take back their guarantees.
class Fleet {
 public:
  explicit Fleet(uint64_t seed, int depth)
      : random_(seed),
        tree_(RandomQueues({.queues = 12, .depth = depth, .max_guarantee = 12}, random_), {}),
        usage_(tree_),
        leaves_(Leaves(tree_)) {
    capacity_ = tree_.node(QueueTree::kRoot).guarantee;
    for (int leaf : leaves_) capacity_ += tree_.node(leaf).guarantee;
    for (int i = 0; i < 200; ++i) {
      const int leaf = leaves_[random_.Below(leaves_.size())];
      const Resources amounts = RandomAmounts(2, 0, 4, random_);
      if (!CheckStart(usage_, capacity_, leaf, amounts).has_value()) Run(leaf, amounts);
    }
  }

  // What is missing to guarantees, over all nodes and resources.
  int64_t Missing() const {
    int64_t missing = 0;
    for (int i = 0; i < tree_.size(); ++i) {
      for (int r = 0; r < 2; ++r) {
        missing += std::max<int64_t>(0, tree_.node(i).guarantee[r] - usage_.used(i)[r]);
      }
    }
    return missing;
  }

  // A random gang claims what it is guaranteed; false if that took nobody's.
  bool ReclaimOnce() {
    const int claimant = leaves_[random_.Below(leaves_.size())];
    const Resources request = RandomAmounts(2, 0, 5, random_);
    Resources shortage;
    uint32_t contested = 0;
    for (int r = 0; r < 2; ++r) {
      shortage[r] =
          std::max<int64_t>(0, usage_.used(QueueTree::kRoot)[r] + request[r] - capacity_[r]);
      if (shortage[r] > 0) contested |= 1u << r;
    }
    for (size_t i = running_.size(); i-- > 1;) {
      std::swap(running_[i], running_[random_.Below(i + 1)]);
    }
    const Reclaim reclaim(usage_, capacity_, nullptr, claimant, request, contested);
    const std::vector<int> victims = SelectVictims(reclaim, shortage, running_);
    if (victims.empty()) return false;
    ExpectMinimal(victims, shortage);
    const TreeUsage before = usage_;
    for (size_t i = victims.size(); i-- > 0;) Stop(victims[i]);
    Run(claimant, request);
    ExpectKept(before);
    return true;
  }

 private:
  void Run(int leaf, const Resources& amounts) {
    usage_.Add(leaf, amounts);
    running_.push_back({leaf, amounts});
  }
  void Stop(int at) {
    usage_.Remove(running_[at].leaf, running_[at].amounts);
    running_.erase(running_.begin() + at);
  }
  void ExpectMinimal(const std::vector<int>& victims, const Resources& shortage) const {
    for (int left_out : victims) {
      Resources freed;
      for (int i : victims) {
        if (i != left_out) freed += running_[i].amounts;
      }
      EXPECT_TRUE(freed[0] < shortage[0] || freed[1] < shortage[1]);
    }
  }
  // Nobody who was at or above its guarantee fell below it.
  void ExpectKept(const TreeUsage& before) const {
    for (int i = 0; i < tree_.size(); ++i) {
      for (int r = 0; r < 2; ++r) {
        EXPECT_GE(usage_.used(i)[r], std::min(before.used(i)[r], tree_.node(i).guarantee[r]));
      }
    }
    EXPECT_LE(usage_.used(0)[0], capacity_[0]);
    EXPECT_LE(usage_.used(0)[1], capacity_[1]);
  }

  Random random_;
  QueueTree tree_;
  TreeUsage usage_;
  std::vector<int> leaves_;
  Resources capacity_;
  std::vector<ReclaimCandidate> running_;
};

// The lemma, for trees of any depth: every reclaim brings the queues nearer to their guarantees, so
// that they end by themselves. If one did not, two queues could take turns for ever.
TEST(ReclaimTest, NeverGoesRoundInACircle) {
  int reclaims = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Fleet fleet(seed, seed % 2 == 0 ? 1 : 5);
    int64_t missing = fleet.Missing();
    for (int step = 0; step < 60; ++step) {
      if (!fleet.ReclaimOnce()) continue;
      ++reclaims;
      ASSERT_LT(fleet.Missing(), missing) << "seed " << seed;
      missing = fleet.Missing();
    }
  }
  EXPECT_GT(reclaims, 500) << "the property says little about what never happens";
}

// Two queues: after one has taken back its own, the other cannot take it again.
TEST(ReclaimTest, TwoQueuesDoNotTakeTurns) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const int64_t guarantee_a = random.Between(0, 20), guarantee_b = random.Between(0, 20);
    const QueueTree tree({Queue("a", "", guarantee_a), Queue("b", "", guarantee_b)}, {});
    const int a = *tree.Find("a"), b = *tree.Find("b");
    TreeUsage usage(tree);
    usage.Add(a, Gpus(random.Between(0, 30)));
    usage.Add(b, Gpus(random.Between(1, 30)));
    const int64_t wanted = random.Between(1, 20), victim = random.Between(1, usage.used(b)[0]);
    const Reclaim first(usage, Gpus(40), nullptr, a, Gpus(wanted), kGpu);
    if (first.Check(b, Gpus(victim)).has_value()) continue;
    usage.Remove(b, Gpus(victim));
    usage.Add(a, Gpus(wanted));
    for (int64_t back = 1; back <= 20; ++back) {
      const Reclaim second(usage, Gpus(40), nullptr, b, Gpus(back), kGpu);
      for (int64_t gang = 1; gang <= usage.used(a)[0]; ++gang) {
        ASSERT_TRUE(second.Check(a, Gpus(gang)).has_value()) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace capstan::scheduler
