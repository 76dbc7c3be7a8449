#include "services/scheduler/core/freeing.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/tight_placer.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::NodeRequirement;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::NodeObservation;
using Domains = std::map<std::string, std::vector<const NodeCapacity*>>;

// Nodes with what is in use on them.
struct World {
  std::vector<NodeCapacity> nodes;
  std::map<NodeId, Amounts> used;
  // What is free and what is in use.
  std::map<NodeId, Amounts> whole;

  void Add(const std::string& cluster, const std::string& rack, Amounts free, Amounts in_use) {
    NodeCapacity& node = nodes.emplace_back();
    node.id = {cluster, absl::StrCat("n", nodes.size() + 100)};
    node.free = std::move(free);
    node.eligible = true;
    node.topology.rack = rack;
    whole[node.id] = node.free;
    whole[node.id].Add(in_use);
    used[node.id] = std::move(in_use);
  }
  FreeingSearch Find(const GangRequest& gang) const {
    Domains domains;
    for (const NodeCapacity& node : nodes) {
      std::string domain = DomainOf(node, gang.topology.required());
      if (!domain.empty()) domains[std::move(domain)].push_back(&node);
    }
    FreeingSearch search = FindFreeing(
        gang, domains,
        [this](const NodeCapacity& node) -> const Amounts& { return whole.at(node.id); });
    search.nearest.clear();
    return search;
  }
  bool Fits(const GangRequest& gang, const std::vector<Freeing::Part>& freed) const {
    std::vector<NodeCapacity> with = nodes;
    for (const Freeing::Part& part : freed) with[part.node - nodes.data()].free.Add(part.amounts);
    return TightPlacer().Begin(with)->Place(gang).has_value();
  }
  bool FitsWhenEmpty(const GangRequest& gang) const {
    std::vector<NodeCapacity> empty = nodes;
    for (NodeCapacity& node : empty) node.free.Add(used.at(node.id));
    return TightPlacer().Begin(empty)->Place(gang).has_value();
  }
};

// With that it fits, with one unit less of anything anywhere it does not; and no more comes free
// than is in use.
void Check(const World& world, const GangRequest& gang, const Freeing& freeing) {
  ASSERT_FALSE(freeing.parts.empty());
  EXPECT_TRUE(world.Fits(gang, freeing.parts));
  for (size_t i = 0; i < freeing.parts.size(); ++i) {
    Amounts beyond = world.used.at(freeing.parts[i].node->id);
    beyond.Subtract(freeing.parts[i].amounts);
    EXPECT_FALSE(beyond.AnyBelowZero());
    const auto check_less = [&](const Amounts& unit) {
      std::vector<Freeing::Part> less = freeing.parts;
      less[i].amounts.Subtract(unit);
      EXPECT_FALSE(world.Fits(gang, less)) << freeing.parts[i].node->id.Name();
    };
    if (freeing.parts[i].amounts.cpu_millis > 0) check_less({1, 0, {}});
    if (freeing.parts[i].amounts.memory_bytes > 0) check_less({0, 1, {}});
    for (const auto& [name, count] : freeing.parts[i].amounts.accelerators) {
      check_less({0, 0, {{name, 1}}});
    }
  }
}

GangRequest GangOf(int replicas, Amounts each, Topology::Level required) {
  GangRequest gang;
  gang.topology.set_required(required);
  gang.groups.push_back({replicas, std::move(each)});
  return gang;
}

TEST(FreeingTest, FindsTheRackThatLacksLeast) {
  World world;
  // r1 lacks 4 of 8, r2 only 2; r3 has no such GPUs.
  for (const char* rack : {"r1", "r2", "r3"}) {
    for (int n = 0; n < 2; ++n) {
      const int64_t free = rack[1] == '1' ? 2 : n == 0 ? 4 : 2;
      const std::string gpu = rack[1] == '3' ? "nvidia.com/a100" : "nvidia.com/h100";
      world.Add("c", rack, {8, 8, {{gpu, free}}}, {0, 0, {{gpu, 4 - free}}});
    }
  }
  const GangRequest gang = GangOf(8, {1, 1, {{"nvidia.com/h100", 1}}}, Topology::LEVEL_RACK);
  const FreeingSearch search = world.Find(gang);
  ASSERT_TRUE(search.least.has_value());
  ASSERT_EQ(search.least->parts.size(), 1u);
  EXPECT_EQ(search.least->parts[0].node, &world.nodes[3]);
  EXPECT_EQ(search.least->parts[0].amounts, (Amounts{0, 0, {{"nvidia.com/h100", 2}}}));
  Check(world, gang, *search.least);
}

TEST(FreeingTest, PutsEachGroupWhereItMayBe) {
  World world;
  NodeObservation fast;
  (*fast.mutable_labels())["pool"] = "fast";
  const NodeObservation plain;
  // In r1 none is fast. In r2 one is, of which more has to come free than of the other.
  world.Add("c", "r1", {1, 8, {}}, {3, 0, {}});
  world.Add("c", "r1", {1, 8, {}}, {3, 0, {}});
  world.Add("c", "r2", {3, 8, {}}, {1, 0, {}});
  world.Add("c", "r2", {0, 8, {}}, {4, 0, {}});
  for (NodeCapacity& node : world.nodes) node.reported = &plain;
  world.nodes[3].reported = &fast;
  GangRequest gang = GangOf(1, {2, 1, {}}, Topology::LEVEL_RACK);
  gang.groups.push_back(gang.groups[0]);
  auto& asked = *gang.groups[1].node_requirements.Add();
  asked.set_key("pool");
  asked.set_operator_(NodeRequirement::OPERATOR_IN);
  asked.add_values("fast");
  const FreeingSearch search = world.Find(gang);
  ASSERT_TRUE(search.least.has_value());
  ASSERT_EQ(search.least->parts.size(), 1u);
  EXPECT_EQ(search.least->parts[0].node, &world.nodes[3]);
  EXPECT_EQ(search.least->parts[0].amounts, (Amounts{2, 0, {}}));
  Check(world, gang, *search.least);
}

TEST(FreeingTest, FindsNothingWhereEvenEmptyNodesWouldNotDo) {
  World world;
  world.Add("c", "r1", {2, 2, {}}, {2, 2, {}});
  world.Add("d", "r1", {2, 2, {}}, {2, 2, {}});
  EXPECT_FALSE(world.Find(GangOf(2, {4, 1, {}}, Topology::LEVEL_UNSPECIFIED)).least.has_value())
      << "of two Clusters";
  EXPECT_TRUE(world.Find(GangOf(1, {4, 1, {}}, Topology::LEVEL_UNSPECIFIED)).least.has_value());
}

// Of many domains those that would not do even if they were empty are not looked at.
TEST(FreeingTest, LooksAtThoseOfManyDomainsThatMayDo) {
  World world;
  for (int rack = 0; rack < 200; ++rack) {
    const bool has_gpus = rack >= 150;
    const std::string gpu = has_gpus ? "nvidia.com/h100" : "nvidia.com/t4";
    const int64_t free = rack == 170 ? 3 : 1;
    world.Add("c", absl::StrCat("r", rack), {8, 8, {{gpu, free}}}, {0, 0, {{gpu, 4 - free}}});
  }
  const GangRequest gang = GangOf(4, {1, 1, {{"nvidia.com/h100", 1}}}, Topology::LEVEL_RACK);
  const FreeingSearch search = world.Find(gang);
  ASSERT_TRUE(search.least.has_value());
  ASSERT_EQ(search.least->parts.size(), 1u);
  EXPECT_EQ(search.least->parts[0].node->topology.rack, "r170");
  Check(world, gang, *search.least);
}

// A Node that has shrunk has to give up what it has not, too.
TEST(FreeingTest, CountsWhatANodeThatHasShrunkLacks) {
  World world;
  world.Add("c", "r1", {-2, 4, {}}, {6, 0, {}});
  const GangRequest gang = GangOf(1, {3, 1, {}}, Topology::LEVEL_UNSPECIFIED);
  const FreeingSearch search = world.Find(gang);
  ASSERT_TRUE(search.least.has_value());
  EXPECT_EQ(search.least->parts[0].amounts, (Amounts{5, 0, {}}));
  Check(world, gang, *search.least);
}

class RandomFreeing {
 public:
  explicit RandomFreeing(uint64_t seed) : random_(seed) {}

  World MakeWorld() {
    World world;
    const int nodes = 1 + Below(8);
    for (int n = 0; n < nodes; ++n) {
      const Amounts all = {1 + Below(8), 1 + Below(8), {{"gpu", 1 + Below(4)}}};
      const Amounts free = {Below(all.cpu_millis + 1), Below(all.memory_bytes + 1), {}};
      Amounts used = all;
      used.Subtract(free);
      Amounts left = free;
      left.accelerators["gpu"] = Below(all.accelerators.find("gpu")->second + 1);
      used.accelerators["gpu"] -= left.accelerators.find("gpu")->second;
      world.Add(n < 5 ? "c" : "d", absl::StrCat("r", n / 2), left, used);
    }
    return world;
  }
  GangRequest MakeGang(int groups) {
    static constexpr Topology::Level kLevels[] = {Topology::LEVEL_UNSPECIFIED, Topology::LEVEL_RACK,
                                                  Topology::LEVEL_NODE};
    GangRequest gang;
    gang.topology.set_required(kLevels[Below(3)]);
    for (int g = 0; g < groups; ++g) {
      GangRequest::Group& group = gang.groups.emplace_back();
      group.each = {1 + Below(3), 1 + Below(3), {}};
      if (random_.OneIn(2)) group.each.accelerators["gpu"] = 1 + Below(2);
      if (random_.OneIn(3)) group.topology.set_required(kLevels[1 + Below(2)]);
      group.replicas = 1 + static_cast<int>(Below(4));
      if (!random_.OneIn(4) || group.topology.required() == Topology::LEVEL_NODE) continue;
      group.slices.push_back({Topology::LEVEL_NODE, 2});
      group.replicas *= 2;
    }
    return gang;
  }

 private:
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_.Below(static_cast<uint64_t>(bound)));
  }

  Random random_;
};

TEST(FreeingPropertyTest, OfOneGroupItIsEnoughAndNoMoreThanNeeded) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(seed);
    RandomFreeing random(seed);
    const World world = random.MakeWorld();
    const GangRequest gang = random.MakeGang(1);
    if (world.Fits(gang, {})) continue;
    const FreeingSearch search = world.Find(gang);
    // What would do is found.
    ASSERT_EQ(search.least.has_value(), world.FitsWhenEmpty(gang));
    if (!search.least.has_value()) continue;
    ++found;
    ASSERT_NO_FATAL_FAILURE(Check(world, gang, *search.least));
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(found, 60);
}

TEST(FreeingPropertyTest, OfSeveralGroupsItIsEnoughAndNoMoreThanNeeded) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(seed);
    RandomFreeing random(seed);
    const World world = random.MakeWorld();
    const GangRequest gang = random.MakeGang(2);
    if (world.Fits(gang, {})) continue;
    const FreeingSearch search = world.Find(gang);
    // Where one group takes what another needs, a way may not be seen.
    if (!search.least.has_value()) continue;
    ++found;
    ASSERT_NO_FATAL_FAILURE(Check(world, gang, *search.least));
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(found, 60);
}

}  // namespace
}  // namespace capstan::scheduler
