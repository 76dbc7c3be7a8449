// Gangs that may be without some of their sections.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/tight_placer.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Topology;

// Of so many cores each, two in a rack.
std::vector<NodeCapacity> Nodes(const std::vector<int>& cores) {
  std::vector<NodeCapacity> nodes;
  for (size_t i = 0; i < cores.size(); ++i) {
    NodeCapacity& node = nodes.emplace_back();
    node.id = {"c", absl::StrCat("n", i)};
    node.free = {cores[i] * 1000, 1 << 30, {}};
    node.eligible = true;
    node.topology.rack = absl::StrCat("r", i / 2);
  }
  return nodes;
}

// Replicas of two workers and a server of a core each, each in one rack; of these one is needed.
GangRequest Replicas(int count) {
  GangRequest gang;
  for (int r = 0; r < count; ++r) {
    GangRequest::Section& section = gang.sections.emplace_back();
    section.parent = -1;
    section.topology.set_required(Topology::LEVEL_RACK);
    for (const int size : {2, 1}) {
      GangRequest::Group& group = gang.groups.emplace_back();
      group.each = {1000, 1, {}};
      group.section = r;
      (r == 0 ? group.replicas : group.more) = size;
      if (r > 0) group.least_of_part = size;
    }
    if (r > 0) gang.parts.push_back({r, -1, {2 * r, 2 * r + 1}});
  }
  return gang;
}

std::vector<int> SizesOn(const GangRequest& gang, const std::vector<NodeCapacity>& nodes) {
  const auto placement = TightPlacer().Begin(nodes)->Place(gang);
  return placement.has_value() ? placement->sizes : std::vector<int>();
}

TEST(TightPlacerPartsTest, PartsAreWholeOrNotThere) {
  const GangRequest gang = Replicas(3);
  EXPECT_EQ(SizesOn(gang, Nodes({2, 1, 2, 1, 2, 1})), (std::vector<int>{2, 1, 2, 1, 2, 1}));
  // Two cores are left, and in a rack by themselves.
  EXPECT_EQ(SizesOn(gang, Nodes({2, 1, 2, 1, 1, 1})), (std::vector<int>{2, 1, 2, 1, 0, 0}));
  EXPECT_EQ(SizesOn(gang, Nodes({2, 1, 1, 1, 1, 1})), (std::vector<int>{2, 1, 0, 0, 0, 0}));
  EXPECT_EQ(SizesOn(gang, Nodes({1, 1, 1, 1, 1, 1})), (std::vector<int>{}));
  // Several in one.
  EXPECT_EQ(SizesOn(gang, Nodes({5, 5})), (std::vector<int>{2, 1, 2, 1, 2, 1}));
}

TEST(TightPlacerPartsTest, QueuesAreAskedAboutAllOfAPart) {
  const auto placement =
      TightPlacer().Begin(Nodes({9, 9}))->Place(Replicas(3), [](const Amounts& more) {
        return more.cpu_millis <= 5000;
      });
  ASSERT_TRUE(placement.has_value());
  EXPECT_EQ(placement->sizes, (std::vector<int>{2, 1, 2, 1, 0, 0}));
  EXPECT_EQ(placement->nodes.size(), 6u);
}

TEST(TightPlacerPartsTest, OneThatDoesNotFitKeepsNobodyOut) {
  GangRequest gang = Replicas(3);
  gang.groups[2].each.cpu_millis = 4000;
  EXPECT_EQ(SizesOn(gang, Nodes({3, 3, 3, 3})), (std::vector<int>{2, 1, 0, 0, 2, 1}));
}

TEST(TightPlacerPartsTest, WhatLiesInAPartComesWithItAndAfterIt) {
  GangRequest gang = Replicas(3);
  gang.sections[2].parent = 1;
  gang.sections[2].topology.Clear();
  gang.parts[1].within = 0;
  // The inner one is in the rack of the outer one.
  EXPECT_EQ(SizesOn(gang, Nodes({2, 1, 3, 3})), (std::vector<int>{2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(SizesOn(gang, Nodes({2, 1, 2, 1, 2, 1})), (std::vector<int>{2, 1, 2, 1, 0, 0}));
  EXPECT_EQ(SizesOn(gang, Nodes({2, 1, 1, 1, 1, 1})), (std::vector<int>{2, 1, 0, 0, 0, 0}));
}

TEST(TightPlacerPartsTest, PartsComeBeforeWhatGroupsMayHaveMore) {
  GangRequest gang = Replicas(2);
  gang.groups[0].more = 4;
  gang.groups[3].more = 3;
  EXPECT_EQ(SizesOn(gang, Nodes({4, 3})), (std::vector<int>{3, 1, 2, 1}));
  EXPECT_EQ(SizesOn(gang, Nodes({6, 6})), (std::vector<int>{6, 1, 2, 3}));
  EXPECT_EQ(SizesOn(gang, Nodes({3, 2})), (std::vector<int>{4, 1, 0, 0}));
}

TEST(TightPlacerPartsTest, AGangGrowsByWholePartsWithinTheDomainsItIsIn) {
  GangRequest gang = Replicas(3);
  gang.topology.set_required(Topology::LEVEL_ROW);
  std::vector<NodeCapacity> nodes = Nodes({2, 1, 2, 1, 2, 1});
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].topology.row = i < 4 ? "here" : "there";
  nodes[0].free.cpu_millis = nodes[1].free.cpu_millis = 0;
  const GangPlacement has{{0, 0, 1}, {2, 1, 0, 0, 0, 0}};
  const auto any = [](const Amounts&) { return true; };
  std::map<int, int> more;
  for (const MoreTasks& one : TightPlacer().Begin(nodes)->Grow(gang, has, 1, any)) {
    more[one.group] += one.count;
    EXPECT_TRUE(one.node == 2 || one.node == 3) << one.node;
  }
  EXPECT_EQ(more, (std::map<int, int>{{2, 2}, {3, 1}})) << "the third one's room is in another row";
  EXPECT_TRUE(TightPlacer().Begin(nodes)->Grow(gang, has, 4, any).empty());
  EXPECT_TRUE(TightPlacer()
                  .Begin(nodes)
                  ->Grow(gang, has, 1, [](const Amounts& all) { return all.cpu_millis < 3000; })
                  .empty());
  // Of parts that it has by half it gets what they lack.
  const GangPlacement half{{0, 0, 1, 2}, {2, 1, 1, 0, 0, 0}};
  nodes[2].free.cpu_millis = 1000;
  more.clear();
  for (const MoreTasks& one : TightPlacer().Begin(nodes)->Grow(gang, half, 1, any)) {
    more[one.group] += one.count;
  }
  EXPECT_EQ(more, (std::map<int, int>{{2, 1}, {3, 1}}));
}

TEST(TightPlacerPartsTest, AShapeTellsWhatIsNeeded) {
  std::set<std::string> shapes = {Replicas(3).Shape()};
  GangRequest all = Replicas(3);
  all.parts.clear();
  EXPECT_TRUE(shapes.insert(all.Shape()).second);
  GangRequest other = Replicas(3);
  other.parts.pop_back();
  EXPECT_TRUE(shapes.insert(other.Shape()).second);
  GangRequest less = Replicas(3);
  less.groups[2].least_of_part = 1;
  EXPECT_TRUE(shapes.insert(less.Shape()).second);
}

// Racks with room for whole replicas: what is needed fits if any rack has room for one, and as many
// are there as racks have room for.
TEST(TightPlacerPartsTest, AsManyPartsAsFitOfThoseThatAreAlike) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> cores;
    for (uint64_t i = 0, racks = 1 + random.Below(4); i < 2 * racks; ++i) {
      cores.push_back(static_cast<int>(random.Below(5)));
    }
    const int replicas = static_cast<int>(random.Between(1, 5));
    int room = 0;
    for (size_t i = 0; i < cores.size(); i += 2) room += (cores[i] + cores[i + 1]) / 3;
    const int expected = std::min(room, replicas);
    const std::vector<int> sizes = SizesOn(Replicas(replicas), Nodes(cores));
    ASSERT_EQ(sizes.empty(), expected == 0) << "round " << round;
    int there = 0;
    for (size_t g = 0; g < sizes.size(); g += 2) {
      ASSERT_EQ(sizes[g], 2 * sizes[g + 1]) << "round " << round;
      there += sizes[g + 1];
    }
    ASSERT_EQ(there, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace capstan::scheduler
