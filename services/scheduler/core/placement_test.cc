#include "services/scheduler/core/placement.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::scheduler {
namespace {

NodeCapacity Node(const std::string& cluster, const std::string& node, int64_t cpu,
                  std::map<std::string, int64_t> accelerators = {}) {
  NodeCapacity capacity;
  capacity.id = {cluster, node};
  capacity.free = {cpu, 1 << 30, std::move(accelerators)};
  capacity.eligible = true;
  return capacity;
}

GangRequest Gang(std::vector<GangRequest::Group> groups) {
  GangRequest request;
  request.groups = std::move(groups);
  return request;
}

TEST(FirstFitPlacerTest, FillsANodeBeforeTheNextAndTakesTheTightestThatHoldsAll) {
  const FirstFitPlacer placer;
  const auto nodes =
      std::vector<NodeCapacity>{Node("c", "a", 3000), Node("c", "b", 8000), Node("c", "d", 4000)};
  EXPECT_EQ(placer.Place(Gang({{4, {1000, 1, {}}}}), nodes), (GangPlacement{2, 2, 2, 2}));
  EXPECT_EQ(placer.Place(Gang({{10, {1000, 1, {}}}}), nodes),
            (GangPlacement{1, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
}

TEST(FirstFitPlacerTest, KeepsAGangInOneCluster) {
  const FirstFitPlacer placer;
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 1000), Node("d", "a", 1000)};
  EXPECT_FALSE(placer.Place(Gang({{2, {1000, 1, {}}}}), nodes).has_value());
  GangRequest one = Gang({{1, {1000, 1, {}}}});
  one.clusters = {"d"};
  EXPECT_EQ(placer.Place(one, nodes), (GangPlacement{1}));
}

TEST(FirstFitPlacerTest, CountsNamedAccelerators) {
  const FirstFitPlacer placer;
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 9000, {{"nvidia.com/a100", 8}}),
                                               Node("c", "b", 9000, {{"nvidia.com/h100", 2}})};
  const GangRequest::Group group{2, {1000, 1, {{"nvidia.com/h100", 1}}}};
  EXPECT_EQ(placer.Place(Gang({group}), nodes), (GangPlacement{1, 1}));
  EXPECT_FALSE(placer.Place(Gang({{3, group.each}}), nodes).has_value());
}

TEST(FirstFitPlacerTest, PutsLargeTasksFirstWhereRankOrderDoesNotFit) {
  const FirstFitPlacer placer;
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 3000), Node("c", "b", 2000)};
  // In rank order both small ones would go to b, and nothing would be left for one large.
  EXPECT_EQ(placer.Place(Gang({{2, {1000, 1, {}}}, {1, {3000, 1, {}}}}), nodes),
            (GangPlacement{1, 1, 0}));
  EXPECT_TRUE(
      placer.Place(Gang({{1, {1000, 1, {}}}, {1, {2000, 1, {}}}, {1, {2000, 1, {}}}}), nodes)
          .has_value());
}

TEST(FirstFitPlacerTest, LeavesOutWhatTakesNothing) {
  const FirstFitPlacer placer;
  NodeCapacity node = Node("c", "a", 3000);
  node.eligible = false;
  EXPECT_FALSE(placer.Place(Gang({{1, {1, 1, {}}}}), {node}).has_value());
  node.eligible = true;
  node.only_submitter = "someone";
  EXPECT_FALSE(placer.Place(Gang({{1, {1, 1, {}}}}), {node}).has_value());
}

// For gangs of one group first fit is exact: it fits if and only if the Nodes' counts add up.
TEST(FirstFitPlacerTest, IsExactForOneGroupAndNeverOverCommits) {
  const FirstFitPlacer placer;
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<NodeCapacity> nodes;
    for (uint64_t i = 0, n = 1 + random.Below(6); i < n; ++i) {
      nodes.push_back(
          Node(random.OneIn(2) ? "c" : "d", absl::StrCat("n", i), random.Between(0, 8000)));
    }
    const GangRequest::Group group{static_cast<int>(random.Between(1, 12)),
                                   {random.Between(1, 3000), 1, {}}};
    std::map<std::string, int64_t> fits;
    for (const NodeCapacity& node : nodes) {
      fits[node.id.cluster] += node.free.Fits(group.each, group.replicas);
    }
    bool expected = false;
    for (const auto& [cluster, count] : fits) expected = expected || count >= group.replicas;
    const auto placement = placer.Place(Gang({group}), nodes);
    ASSERT_EQ(placement.has_value(), expected) << "round " << round;
    if (!placement) continue;
    ASSERT_EQ(placement->size(), static_cast<size_t>(group.replicas));
    std::map<int, int64_t> used;
    for (int node : *placement) {
      used[node] += group.each.cpu_millis;
      ASSERT_EQ(nodes[node].id.cluster, nodes[placement->front()].id.cluster);
    }
    for (const auto& [node, cpu] : used) ASSERT_LE(cpu, nodes[node].free.cpu_millis);
  }
}

}  // namespace
}  // namespace capstan::scheduler
