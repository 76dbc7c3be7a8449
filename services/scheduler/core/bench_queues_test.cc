#include "services/scheduler/core/bench_queues.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/quota/validation.h"

namespace capstan::scheduler::bench_fleet {
namespace {

TEST(BenchQueuesTest, AreATreeThatTheServiceWouldTake) {
  for (const QueueShape& shape :
       {QueueShape{}, QueueShape{50, 1}, QueueShape{50, 6}, QueueShape{5000, 6}}) {
    for (const int nodes : {20, 7500}) {
      Model model;
      AddQueues(shape, nodes, &model);
      const std::vector<QueueSpec> specs = QueueSpecsOf(model.queues);
      EXPECT_TRUE(ValidateQueues(specs).empty());
      const QueueTree tree(specs, {});
      EXPECT_EQ(tree.depth(), shape.levels);
      int leaves = 0;
      std::set<int> bounded;     // levels
      std::set<int> guaranteed;  // levels
      for (int i = 1; i < tree.size(); ++i) {
        leaves += tree.leaf(i) ? 1 : 0;
        for (int r = 0; r < tree.resource_count(); ++r) {
          if (tree.node(i).cap[r] != kNoBound) bounded.insert(tree.node(i).depth);
          if (tree.node(i).guarantee[r] > 0) guaranteed.insert(tree.node(i).depth);
        }
      }
      EXPECT_EQ(leaves, shape.leaves);
      EXPECT_EQ(bounded.size(), shape.flat() ? 0u : static_cast<size_t>(shape.levels));
      // As far down as the fleet has a Node for it.
      EXPECT_EQ(guaranteed.count(1), shape.flat() ? 0u : 1u);
      for (int leaf = 0; leaf < shape.leaves; ++leaf) {
        EXPECT_GE(LeafOf(tree, "q" + std::to_string(leaf)), 0);
      }
    }
  }
}

TEST(BenchQueuesTest, PrioritiesDifferUnlessTheyAreFlat) {
  std::set<int> tree;
  std::set<int> flat;
  for (int i = 0; i < 100; ++i) {
    tree.insert(PriorityOf(i));
    flat.insert(PriorityOf(i, {50, 1}));
  }
  EXPECT_EQ(tree.size(), static_cast<size_t>(kPriorities));
  EXPECT_EQ(*tree.rbegin(), HighestPriority());
  EXPECT_EQ(flat, std::set<int>{HighestPriority({50, 1})});
}

}  // namespace
}  // namespace capstan::scheduler::bench_fleet
