#include "services/scheduler/core/tight_placer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Topology;
using round::Need;

NodeCapacity Node(const std::string& cluster, const std::string& node, int64_t cpu,
                  AcceleratorCounts accelerators = {}) {
  NodeCapacity capacity;
  capacity.id = {cluster, node};
  capacity.free = {cpu, 1 << 30, std::move(accelerators)};
  capacity.eligible = true;
  return capacity;
}

std::vector<int> HeldOf(const std::vector<Victim>& victims) {
  std::vector<int> held;
  for (const Victim& victim : victims) held.push_back(victim.held);
  return held;
}

GangRequest Gang(std::vector<GangRequest::Group> groups) {
  GangRequest request;
  request.groups = std::move(groups);
  return request;
}

absl::optional<std::vector<int>> Place(const GangRequest& gang,
                                       const std::vector<NodeCapacity>& nodes) {
  auto placement = TightPlacer().Begin(nodes)->Place(gang);
  if (!placement.has_value()) return absl::nullopt;
  return std::move(placement->nodes);
}

TEST(TightPlacerTest, FillsANodeBeforeTheNextAndTakesTheTightestThatHoldsAll) {
  const auto nodes =
      std::vector<NodeCapacity>{Node("c", "a", 3000), Node("c", "b", 8000), Node("c", "d", 4000)};
  EXPECT_EQ(Place(Gang({{4, {1000, 1, {}}}}), nodes), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(Place(Gang({{10, {1000, 1, {}}}}), nodes),
            (std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
}

TEST(TightPlacerTest, KeepsAGangInOneCluster) {
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 1000), Node("d", "a", 1000)};
  EXPECT_FALSE(Place(Gang({{2, {1000, 1, {}}}}), nodes).has_value());
  GangRequest one = Gang({{1, {1000, 1, {}}}});
  one.clusters = {"d"};
  EXPECT_EQ(Place(one, nodes), (std::vector<int>{1}));
}

TEST(TightPlacerTest, CountsNamedAccelerators) {
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 9000, {{"nvidia.com/a100", 8}}),
                                               Node("c", "b", 9000, {{"nvidia.com/h100", 2}})};
  const GangRequest::Group group{2, {1000, 1, {{"nvidia.com/h100", 1}}}};
  EXPECT_EQ(Place(Gang({group}), nodes), (std::vector<int>{1, 1}));
  EXPECT_FALSE(Place(Gang({{3, group.each}}), nodes).has_value());
}

TEST(TightPlacerTest, PutsLargeTasksFirstWhereRankOrderDoesNotFit) {
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 3000), Node("c", "b", 2000)};
  // In rank order both small ones would go to b, and nothing would be left for one large.
  EXPECT_EQ(Place(Gang({{2, {1000, 1, {}}}, {1, {3000, 1, {}}}}), nodes),
            (std::vector<int>{1, 1, 0}));
  EXPECT_TRUE(
      Place(Gang({{1, {1000, 1, {}}}, {1, {2000, 1, {}}}, {1, {2000, 1, {}}}}), nodes).has_value());
}

TEST(TightPlacerTest, LeavesOutWhatTakesNothing) {
  NodeCapacity node = Node("c", "a", 3000);
  node.eligible = false;
  EXPECT_FALSE(Place(Gang({{1, {1, 1, {}}}}), {node}).has_value());
  node.eligible = true;
  node.only_submitter = "someone";
  EXPECT_FALSE(Place(Gang({{1, {1, 1, {}}}}), {node}).has_value());
}

TEST(TightPlacerTest, GivesAnUnisolatedNodeToItsFirstSubmitter) {
  NodeCapacity node = Node("c", "a", 3000);
  node.unisolated = true;
  const auto round = TightPlacer().Begin({node});
  GangRequest mine = Gang({{1, {1000, 1, {}}}});
  mine.submitter = "me";
  GangRequest yours = mine;
  yours.submitter = "you";
  EXPECT_TRUE(round->Place(mine).has_value());
  EXPECT_FALSE(round->Place(yours).has_value());
  EXPECT_TRUE(round->Place(mine).has_value());
}

capstan::type::v1::NodeObservation Report(const std::map<std::string, std::string>& labels,
                                          const std::map<std::string, std::string>& taints) {
  capstan::type::v1::NodeObservation report;
  report.mutable_labels()->insert(labels.begin(), labels.end());
  for (const auto& [key, value] : taints) {
    report.add_taints()->set_key(key);
    report.mutable_taints(report.taints_size() - 1)->set_value(value);
  }
  return report;
}

void Ask(const std::string& key, const std::string& value, NodeRequirements* requirements) {
  auto* const one = requirements->Add();
  one->set_key(key);
  one->set_operator_(capstan::scheduler::v1::NodeRequirement::OPERATOR_IN);
  one->add_values(value);
}

TEST(TightPlacerTest, PlacesByLabelsAndTaintsThatNodesReport) {
  const auto first = Report({{"pool", "a"}, {"other", "x"}}, {{"team", "vision"}});
  const auto second = Report({{"pool", "b"}}, {});
  std::vector<NodeCapacity> nodes = {Node("c", "a", 3000), Node("c", "b", 3000),
                                     Node("c", "d", 3000)};
  nodes[0].reported = &first;
  nodes[1].reported = &second;
  // By all labels, and by those that are named.
  const std::set<std::string> keys = {"pool"};
  for (const std::set<std::string>* known :
       {static_cast<const std::set<std::string>*>(nullptr), &keys}) {
    const auto place = [&](const GangRequest& gang) {
      const auto placement = TightPlacer().Begin(nodes, {}, known)->Place(gang);
      return placement.has_value() ? placement->nodes : std::vector<int>();
    };
    GangRequest gang = Gang({{1, {1000, 1, {}}}});
    Ask("pool", "b", &gang.node_requirements);
    EXPECT_EQ(place(gang), (std::vector<int>{1}));
    gang.node_requirements.Mutable(0)->set_values(0, "a");
    EXPECT_EQ(place(gang), (std::vector<int>{}));
    gang.tolerations.Add()->set_any_value(true);
    EXPECT_EQ(place(gang), (std::vector<int>{0}));
    // Of a group alone.
    GangRequest two = Gang({{3, {1000, 1, {}}}, {1, {1000, 1, {}}}});
    two.tolerations = gang.tolerations;
    Ask("pool", "a", &two.groups[1].node_requirements);
    // By ranks the others would take all of the only Node for it.
    ASSERT_EQ(place(two).size(), 4u);
    EXPECT_EQ(place(two).back(), 0);
    two.groups[1].replicas = 4;
    EXPECT_EQ(place(two), (std::vector<int>{}));
    // What is ours nobody tolerates by tolerating all.
    nodes[0].only_submitter = "someone";
    EXPECT_EQ(place(gang), (std::vector<int>{}));
    nodes[0].only_submitter.reset();
    nodes[0].order = "more";
    EXPECT_EQ(place(gang), (std::vector<int>{}));
    nodes[0].order.clear();
  }
}

TEST(TightPlacerTest, AShapeTellsWhatIsAskedOfNodesApart) {
  std::set<std::string> shapes;
  GangRequest gang = Gang({{1, {1000, 1, {}}}, {1, {1000, 1, {}}}});
  shapes.insert(gang.Shape());
  Ask("a", "1", &gang.node_requirements);
  shapes.insert(gang.Shape());
  gang.node_requirements.Mutable(0)->set_key("a1");
  gang.node_requirements.Mutable(0)->set_values(0, "");
  shapes.insert(gang.Shape());
  gang.node_requirements.Mutable(0)->set_operator_(
      capstan::scheduler::v1::NodeRequirement::OPERATOR_NOT_IN);
  shapes.insert(gang.Shape());
  std::swap(gang.node_requirements, gang.groups[0].node_requirements);
  shapes.insert(gang.Shape());
  std::swap(gang.groups[0].node_requirements, gang.groups[1].node_requirements);
  shapes.insert(gang.Shape());
  gang.tolerations.Add()->set_key("t");
  shapes.insert(gang.Shape());
  gang.tolerations.Mutable(0)->set_any_value(true);
  shapes.insert(gang.Shape());
  EXPECT_EQ(shapes.size(), 8u);
  // In whatever order.
  Ask("b", "1", &gang.node_requirements);
  Ask("a", "1", &gang.node_requirements);
  const std::string shape = gang.Shape();
  gang.node_requirements.SwapElements(0, 1);
  EXPECT_EQ(gang.Shape(), shape);
}

TEST(TightPlacerTest, OnlyWhoIsInTheWayOnNodesThatAreOpenEnds) {
  const auto first = Report({}, {{"team", "vision"}});
  std::vector<NodeCapacity> nodes = {Node("c", "a", 0), Node("c", "b", 0)};
  nodes[0].reported = &first;
  std::vector<HeldGang> held(2);
  for (int i = 0; i < 2; ++i) {
    held[i].uid = absl::StrCat(i);
    held[i].shares = {{i, {3000, 1, {}}}};
    held[i].preemptible = true;
    held[i].left = kAssumedRun;
    // The one on the tainted Node is the cheaper.
    held[i].unsaved = absl::Minutes(i);
  }
  class Anybody final : public VictimRules {
   public:
    bool MayEvict(int) const override { return true; }
    std::vector<int> Together(const std::vector<int>& all) const override { return all; }
    void SetEnded(int, bool) override {}
    bool MayStart() const override { return true; }
  };
  Anybody rules;
  GangRequest gang = Gang({{1, {1000, 1, {}}}});
  EXPECT_EQ(HeldOf(TightPlacer().Begin(nodes, held)->FindVictims(gang, 1, &rules)),
            (std::vector<int>{1}));
  gang.groups[0].replicas = 4;
  EXPECT_TRUE(TightPlacer().Begin(nodes, held)->FindVictims(gang, 1, &rules).empty());
  EXPECT_FALSE(TightPlacer().Begin(nodes, held)->Reserve(gang).has_value());
}

TEST(TightPlacerTest, TakesRoomFromWhatComesAfter) {
  const auto round = TightPlacer().Begin({Node("c", "a", 3000)});
  EXPECT_TRUE(round->Place(Gang({{2, {1000, 1, {}}}})).has_value());
  EXPECT_FALSE(round->Place(Gang({{2, {1000, 1, {}}}})).has_value());
  EXPECT_TRUE(round->Place(Gang({{1, {1000, 1, {}}}})).has_value());
}

TEST(TightPlacerTest, KeepsAGangInOneRackWhereOneHoldsIt) {
  std::vector<NodeCapacity> nodes;
  for (const char* name : {"a", "b", "d", "e"}) {
    nodes.push_back(Node("c", name, name[0] < 'd' ? 2000 : 3000));
    nodes.back().topology.rack = name[0] < 'd' ? "r1" : "r2";
  }
  EXPECT_EQ(Place(Gang({{4, {1000, 1, {}}}}), nodes), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(Place(Gang({{3, {2000, 1, {}}}}), nodes), (std::vector<int>{0, 1, 2}));
}

TEST(TightPlacerTest, RanksFollowTheGroupsAndNotTheSections) {
  std::vector<NodeCapacity> nodes;
  for (int n = 0; n < 4; ++n) {
    nodes.push_back(Node("c", absl::StrCat("n", n), n % 2 == 0 ? 3000 : 1000));
    nodes.back().topology.row = absl::StrCat("w", n / 2);
  }
  GangRequest gang = Gang({{1, {3000, 1, {}}}, {1, {2000, 1, {}}}, {1, {1000, 1, {}}}});
  gang.sections.resize(2);
  gang.sections[1].parent = 0;
  for (GangRequest::Section& section : gang.sections) {
    section.topology.set_required(Topology::LEVEL_ZONE);
  }
  gang.groups[0].section = gang.groups[2].section = 1;
  EXPECT_FALSE(Place(gang, nodes).has_value()) << "no Node is in a zone";
  gang.sections[0].topology.clear_required();
  gang.sections[1].topology.set_required(Topology::LEVEL_ROW);
  // The first and the last are together, though another rank lies between them.
  const auto placed = Place(gang, nodes);
  ASSERT_TRUE(placed.has_value());
  ASSERT_EQ(placed->size(), 3u);
  EXPECT_EQ(nodes[(*placed)[0]].free.cpu_millis, 3000);
  EXPECT_EQ(nodes[(*placed)[0]].topology.row, nodes[(*placed)[2]].topology.row);
  EXPECT_NE(nodes[(*placed)[1]].topology.row, nodes[(*placed)[0]].topology.row);
}

TEST(TightPlacerTest, AShapeTellsSlicesAndSectionsApart) {
  std::set<std::string> shapes;
  const GangRequest plain = Gang({{4, {1000, 1, {}}}, {4, {1000, 1, {}}}});
  shapes.insert(plain.Shape());
  GangRequest gang = plain;
  gang.groups[0].slices = {{Topology::LEVEL_RACK, 2}};
  shapes.insert(gang.Shape());
  gang.groups[0].slices.push_back({Topology::LEVEL_NODE, 1});
  shapes.insert(gang.Shape());
  std::swap(gang.groups[0], gang.groups[1]);
  shapes.insert(gang.Shape());
  gang = plain;
  gang.sections.resize(2);
  gang.sections[0].topology.set_required(Topology::LEVEL_RACK);
  shapes.insert(gang.Shape());
  gang.sections[1].parent = 0;
  shapes.insert(gang.Shape());
  gang.groups[0].section = 0;
  shapes.insert(gang.Shape());
  gang.groups[0].section = 1;
  shapes.insert(gang.Shape());
  EXPECT_EQ(shapes.size(), 8u);
}

// Anybody may end for anybody.
class Anybody final : public VictimRules {
 public:
  bool MayEvict(int) const override { return true; }
  std::vector<int> Together(const std::vector<int>& held) const override { return held; }
  void SetEnded(int, bool) override {}
  bool MayStart() const override { return true; }
};

HeldGang Held(std::vector<std::pair<int, Amounts>> shares) {
  HeldGang gang;
  gang.shares = std::move(shares);
  gang.preemptible = true;
  gang.left = absl::Hours(1);
  return gang;
}

TEST(TightPlacerTest, NamesAsVictimsOnlyWhatWasHeldAndKeepsTheirRoom) {
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 1000), Node("c", "b", 1000)};
  const auto round = TightPlacer().Begin(
      nodes, {Held({{0, {3000, 1, {}}}}), Held({{0, {2000, 1, {}}}, {1, {1000, 1, {}}}})});
  Anybody rules;
  // What was placed in this round stays, though to end it would do.
  ASSERT_TRUE(round->Place(Gang({{1, {1000, 1, {}}}})).has_value());
  const GangRequest wide = Gang({{1, {2500, 1, {}}}});
  EXPECT_FALSE(round->FitsAfterEnding(wide));
  EXPECT_EQ(round->FindVictims(wide, 1, &rules),
            (std::vector<Victim>{{0, {Need::Kind::kRoom, 0}}}));
  // 500 and 1,000 are left when it has gone, and nothing of the rest is given away before.
  EXPECT_FALSE(round->Place(Gang({{1, {1500, 1, {}}}})).has_value());
  EXPECT_TRUE(round->FitsAfterEnding(Gang({{1, {500, 1, {}}}})));
  EXPECT_FALSE(round->FitsAfterEnding(Gang({{1, {1100, 1, {}}}})));
  EXPECT_TRUE(round->FindVictims(Gang({{1, {9000, 1, {}}}}), 1, &rules).empty());
}

TEST(TightPlacerTest, NobodyEndsWhatWasPutThereInThisRound) {
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 1000), Node("c", "b", 0)};
  HeldGang held = Held({{1, {500, 1, {}}}});
  const auto round = TightPlacer().Begin(nodes, {held});
  const GangRequest gang = Gang({{1, {1000, 1, {}}}});
  GangPlacement there;
  there.nodes = {0};
  there.sizes = {1};
  ASSERT_TRUE(round->PlaceAt(gang, there));
  Anybody rules;
  EXPECT_TRUE(round->FindVictims(gang, 1, &rules).empty());
}

TEST(TightPlacerTest, HoldsNothingForAGangForWhichTooManyWouldEnd) {
  std::vector<NodeCapacity> nodes;
  std::vector<HeldGang> held;
  for (int n = 0; n <= static_cast<int>(kMaxVictims); ++n) {
    nodes.push_back(Node("c", absl::StrCat("n", 100'000 + n), 0));
    held.push_back(Held({{n, {1000, 1, {}}}}));
  }
  Anybody rules;
  const int all = static_cast<int>(held.size());
  const auto round = TightPlacer().Begin(nodes, held);
  EXPECT_TRUE(round->FindVictims(Gang({{all, {1000, 1, {}}}}), 1, &rules).empty());
  // Neither is any room taken, nor does anybody count as ending.
  EXPECT_FALSE(round->FitsAfterEnding(Gang({{1, {1000, 1, {}}}})));
  EXPECT_EQ(round->FindVictims(Gang({{all - 1, {1000, 1, {}}}}), 1, &rules).size(), kMaxVictims);
}

TEST(TightPlacerTest, WhatIsNotOverInTimeTakesOnlyWhatTheReservationLeaves) {
  const auto nodes = std::vector<NodeCapacity>{Node("c", "a", 1000), Node("c", "b", 4000)};
  const auto round = TightPlacer().Begin(nodes, {Held({{0, {3000, 1, {}}}})});
  const auto estimate = round->Reserve(Gang({{2, {3500, 1, {}}}}));
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->wait, absl::Hours(1));
  EXPECT_FALSE(estimate->assumed);
  GangRequest short_one = Gang({{2, {1000, 1, {}}}});
  short_one.duration = absl::Minutes(30);
  GangRequest long_one = Gang({{1, {1000, 1, {}}}});
  EXPECT_TRUE(round->IsBound(long_one));
  EXPECT_FALSE(round->IsBound(short_one));
  EXPECT_TRUE(round->FitsUnbound(long_one));
  EXPECT_FALSE(round->Place(long_one).has_value());
  // Half a core is left beside it on each, and each can be taken once.
  GangRequest small = Gang({{1, {500, 1, {}}}});
  EXPECT_TRUE(round->Place(small).has_value());
  EXPECT_TRUE(round->Place(small).has_value());
  EXPECT_FALSE(round->Place(small).has_value());
  EXPECT_TRUE(round->Place(short_one).has_value());
}

TEST(TightPlacerTest, NodesThatCloseTakeOnlyWhatIsOverBefore) {
  auto nodes = std::vector<NodeCapacity>{Node("c", "a", 4000), Node("c", "b", 4000)};
  nodes[0].closures = {{absl::Hours(1), absl::Hours(2)}};
  GangRequest gang = Gang({{2, {3000, 1, {}}}});
  EXPECT_FALSE(Place(gang, nodes).has_value());
  gang.duration = absl::Hours(1) + absl::Nanoseconds(1);
  EXPECT_FALSE(Place(gang, nodes).has_value());
  gang.duration = absl::Hours(1);
  EXPECT_EQ(Place(gang, nodes), (std::vector<int>{0, 1}));
  // One that is longer takes the other Node, also where it may have more.
  const auto round = TightPlacer().Begin(nodes);
  GangRequest longer = Gang({{1, {1000, 1, {}}, {}, 7}});
  longer.duration = absl::Hours(3);
  EXPECT_EQ(round->Place(longer)->sizes, (std::vector<int>{4}));
  EXPECT_FALSE(round->Place(longer).has_value());
  EXPECT_NE(round->Openings(longer), round->Openings(gang));
  longer.duration = absl::InfiniteDuration();
  GangRequest long_too = longer;
  long_too.duration = absl::Hours(4);
  EXPECT_EQ(round->Openings(longer), round->Openings(long_too));
  // Nothing is placed while one lasts.
  nodes[0].closures = {{-absl::Hours(1), absl::Hours(1)}};
  gang.duration = absl::Seconds(1);
  EXPECT_FALSE(Place(gang, nodes).has_value());
}

TEST(TightPlacerTest, NobodyEndsForWhoWouldComeTooLateForAClosure) {
  auto nodes = std::vector<NodeCapacity>{Node("c", "a", 0)};
  nodes[0].closures = {{absl::Hours(1), absl::Hours(2)}};
  HeldGang held = Held({{0, {3000, 1, {}}}});
  held.grace = absl::Minutes(5);
  Anybody rules;
  GangRequest gang = Gang({{1, {3000, 1, {}}}});
  gang.duration = absl::Minutes(56);
  EXPECT_TRUE(TightPlacer().Begin(nodes, {held})->FindVictims(gang, 1, &rules).empty());
  held.ending = true;
  EXPECT_FALSE(TightPlacer().Begin(nodes, {held})->FitsAfterEnding(gang));
  // It was in time when the others were told.
  EXPECT_TRUE(TightPlacer().Begin(nodes, {held})->HoldAfterEnding(gang));
  gang.duration = absl::Minutes(55);
  EXPECT_TRUE(TightPlacer().Begin(nodes, {held})->FitsAfterEnding(gang));
  held.ending = false;
  EXPECT_EQ(HeldOf(TightPlacer().Begin(nodes, {held})->FindVictims(gang, 1, &rules)),
            (std::vector<int>{0}));
}

// When a gang of one kind of Tasks fits first, by looking at each time at which anything changes.
absl::optional<absl::Duration> FirstFit(const std::vector<NodeCapacity>& nodes,
                                        const std::vector<HeldGang>& held,
                                        const GangRequest& gang) {
  std::set<absl::Duration> times = {absl::ZeroDuration()};
  for (const HeldGang& one : held) times.insert(one.left);
  for (const NodeCapacity& node : nodes) {
    for (const Closure& closure : node.closures) times.insert(closure.until);
  }
  for (const absl::Duration time : times) {
    std::vector<int64_t> free;
    for (const NodeCapacity& node : nodes) free.push_back(node.free.cpu_millis);
    for (const HeldGang& one : held) {
      if (one.left > time) continue;
      for (const auto& [node, amounts] : one.shares) free[node] += amounts.cpu_millis;
    }
    int64_t fit = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      bool open = true;
      for (const Closure& closure : nodes[n].closures) {
        const bool before = time + gang.duration <= closure.from;
        open = open && (before || closure.until <= time);
      }
      if (open) fit += free[n] / gang.groups[0].each.cpu_millis;
    }
    if (fit >= gang.groups[0].replicas) return time;
  }
  return absl::nullopt;
}

TEST(TightPlacerTest, TheStartThatIsForeseenIsTheFirstAtWhichEnoughNodesAreOpen) {
  Random random(11);
  int at_departure = 0;
  int at_opening = 0;
  int before_closing = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<NodeCapacity> nodes;
    for (int n = 0; n < 4; ++n) {
      nodes.push_back(Node("c", absl::StrCat("n", n), random.Between(0, 2) * 1000));
      absl::Duration from = absl::Minutes(random.Between(-2, 3));
      for (int64_t c = random.Between(0, 2); c > 0; --c) {
        const absl::Duration until = from + absl::Minutes(random.Between(1, 4));
        if (until > absl::ZeroDuration()) nodes.back().closures.push_back({from, until});
        from = until + absl::Minutes(random.Between(1, 4));
      }
    }
    std::vector<HeldGang> held;
    for (int64_t h = random.Between(0, 5); h > 0; --h) {
      const int node = static_cast<int>(random.Below(4));
      std::vector<std::pair<int, Amounts>> shares = {{node, {random.Between(1, 2) * 1000, 1, {}}}};
      if (random.OneIn(3)) shares.push_back({(node + 1) % 4, {1000, 1, {}}});
      held.push_back(Held(shares));
      held.back().left = absl::Minutes(random.Between(1, 9));
    }
    GangRequest gang = Gang({{static_cast<int>(random.Between(1, 8)), {1000, 1, {}}}});
    if (!random.OneIn(4)) gang.duration = absl::Minutes(random.Between(1, 6));
    const auto round = TightPlacer().Begin(nodes, held);
    const auto expected = FirstFit(nodes, held, gang);
    const auto now = round->Place(gang);
    ASSERT_EQ(now.has_value(), expected == absl::ZeroDuration()) << trial;
    if (now.has_value()) continue;
    const auto estimate = round->Reserve(gang);
    ASSERT_EQ(estimate.has_value(), expected.has_value()) << trial;
    if (!expected.has_value()) continue;
    ASSERT_EQ(estimate->wait, *expected) << trial;
    const bool departs = std::any_of(held.begin(), held.end(),
                                     [&](const HeldGang& one) { return one.left == *expected; });
    ++(departs ? at_departure : at_opening);
    for (const NodeCapacity& node : nodes) {
      for (const Closure& closure : node.closures) {
        before_closing += departs && closure.from >= *expected + gang.duration ? 1 : 0;
      }
    }
  }
  // The test has to have tested something.
  EXPECT_GT(at_departure, 200);
  EXPECT_GT(at_opening, 200);
  EXPECT_GT(before_closing, 100);
}

TEST(TightPlacerTest, RequiredTopologyIsKeptOrNothingIsPlaced) {
  std::vector<NodeCapacity> nodes;
  for (const char* name : {"a", "b", "d", "e"}) {
    nodes.push_back(Node("c", name, 2000));
    nodes.back().topology.rack = name[0] < 'd' ? "r1" : "r2";
  }
  nodes.push_back(Node("c", "f", 9000));
  GangRequest gang = Gang({{4, {1000, 1, {}}}});
  gang.topology.set_required(Topology::LEVEL_RACK);
  EXPECT_EQ(Place(gang, nodes), (std::vector<int>{0, 0, 1, 1}));
  gang.groups[0].replicas = 5;
  EXPECT_FALSE(Place(gang, nodes).has_value()) << "f is in no rack";
  gang.topology.clear_required();
  EXPECT_TRUE(Place(gang, nodes).has_value());
  gang.groups[0].topology.set_required(Topology::LEVEL_NODE);
  EXPECT_EQ(Place(gang, nodes), (std::vector<int>{4, 4, 4, 4, 4}));
  EXPECT_NE(gang.Shape(), Gang({{5, {1000, 1, {}}}}).Shape());
}

// Two domains of the level with two Nodes of two cores each, in one of every level above.
std::vector<NodeCapacity> TwoDomains(Topology::Level level) {
  std::vector<NodeCapacity> nodes;
  for (const char* name : {"a", "b", "d", "e"}) {
    nodes.push_back(Node("c", name, 2000));
    NodeTopology& topology = nodes.back().topology;
    std::string* const names[] = {&topology.region, &topology.zone, &topology.row,
                                  &topology.rail,   &topology.rack, &topology.nvlink_domain};
    for (int above = 0; above < std::min(DepthOf(level), 6); ++above) *names[above] = "one";
    if (level != Topology::LEVEL_NODE) *names[DepthOf(level) - 1] = name[0] < 'd' ? "x" : "y";
  }
  return nodes;
}

TEST(TightPlacerTest, AGroupIsKeptInOneDomainOfEachLevel) {
  for (const Topology::Level level : kLevelsByWidth) {
    if (level == Topology::LEVEL_UNSPECIFIED) continue;
    SCOPED_TRACE(Topology::Level_Name(level));
    const bool node = level == Topology::LEVEL_NODE;
    std::vector<NodeCapacity> nodes = TwoDomains(level);
    // The first group needs a whole domain; the second is where there is room.
    GangRequest gang = Gang({{node ? 2 : 4, {1000, 1, {}}}, {1, {2000, 1, {}}}});
    gang.groups[0].topology.set_required(level);
    const auto placement = Place(gang, nodes);
    ASSERT_TRUE(placement.has_value());
    std::set<std::string> domains;
    for (int rank = 0; rank < gang.groups[0].replicas; ++rank) {
      domains.insert(DomainOf(nodes[(*placement)[rank]], level));
    }
    EXPECT_EQ(domains.size(), 1u);
    // As much room as before, but half of each domain.
    if (node) {
      for (NodeCapacity& one : nodes) one.free.cpu_millis = 1000;
    } else {
      nodes[0].free.cpu_millis = nodes[2].free.cpu_millis = 0;
    }
    gang.groups.pop_back();
    EXPECT_FALSE(Place(gang, nodes).has_value());
    gang.groups[0].topology.clear_required();
    EXPECT_TRUE(Place(gang, nodes).has_value());
    // A wish is no condition.
    gang.groups[0].topology.set_preferred(level);
    EXPECT_TRUE(Place(gang, nodes).has_value());
  }
}

// Rails are wider than racks, though their number is higher.
TEST(TightPlacerTest, RacksLieWithinRails) {
  std::vector<NodeCapacity> nodes;
  for (int i = 0; i < 8; ++i) {
    nodes.push_back(Node("c", absl::StrCat("n", i), 1000));
    nodes.back().topology.row = "w";
    nodes.back().topology.rail = i < 4 ? "s1" : "s2";
    nodes.back().topology.rack = absl::StrCat("r", i / 2);
  }
  GangRequest gang = Gang({{3, {1000, 1, {}}}});
  gang.topology.set_required(Topology::LEVEL_RACK);
  EXPECT_FALSE(Place(gang, nodes).has_value());
  gang.topology.set_required(Topology::LEVEL_RAIL);
  nodes[0].free.cpu_millis = nodes[1].free.cpu_millis = 0;
  const auto placement = Place(gang, nodes);
  ASSERT_TRUE(placement.has_value());
  EXPECT_GE(placement->front(), 4);
  // Slices of a rack each, wherever in one rail.
  gang = Gang({{4, {1000, 1, {}}}});
  gang.topology.set_required(Topology::LEVEL_RAIL);
  gang.groups[0].slices = {{Topology::LEVEL_RACK, 2}};
  EXPECT_EQ(Place(gang, nodes), (std::vector<int>{4, 5, 6, 7}));
  nodes[5].free.cpu_millis = 0;
  EXPECT_FALSE(Place(gang, nodes).has_value());
}

TEST(TightPlacerTest, GroupsLieEachInADomainWithinTheGangs) {
  // Racks r1 and r2 of two NVLink domains of two Nodes each; r1 has room in one of its domains.
  std::vector<NodeCapacity> nodes;
  for (int i = 0; i < 8; ++i) {
    nodes.push_back(Node("c", absl::StrCat("n", i), i < 2 ? 500 : 1000));
    nodes.back().topology.rack = i < 4 ? "r1" : "r2";
    nodes.back().topology.nvlink_domain = absl::StrCat("d", i / 2);
  }
  GangRequest gang = Gang({{2, {1000, 1, {}}}, {2, {1000, 1, {}}}});
  gang.topology.set_required(Topology::LEVEL_RACK);
  for (GangRequest::Group& group : gang.groups) {
    group.topology.set_required(Topology::LEVEL_NVLINK_DOMAIN);
  }
  EXPECT_EQ(Place(gang, nodes), (std::vector<int>{4, 5, 6, 7}));
  // Not both where one of the domains has room for half.
  nodes[7].free.cpu_millis = 500;
  EXPECT_FALSE(Place(gang, nodes).has_value());
  gang.topology.clear_required();
  const auto anywhere = Place(gang, nodes);
  ASSERT_TRUE(anywhere.has_value());
  EXPECT_EQ(std::set<int>(anywhere->begin(), anywhere->end()), (std::set<int>{2, 3, 4, 5}));
}

TEST(TightPlacerTest, VictimsAndReservationsKeepToAGroupsLevel) {
  std::vector<NodeCapacity> nodes = TwoDomains(Topology::LEVEL_RACK);
  nodes[0].free.cpu_millis = nodes[1].free.cpu_millis = 0;
  nodes[2].free.cpu_millis = 2001;
  nodes[3].free.cpu_millis = 0;
  // One on each Node that is full: two in the first rack, one in the second.
  const std::vector<HeldGang> held = {Held({{0, {2000, 1, {}}}}), Held({{1, {2000, 1, {}}}}),
                                      Held({{3, {2000, 1, {}}}})};
  GangRequest gang = Gang({{2, {2000, 1, {}}}, {1, {1, 1, {}}}});
  gang.groups[0].topology.set_required(Topology::LEVEL_RACK);
  Anybody rules;
  EXPECT_EQ(HeldOf(TightPlacer().Begin(nodes, held)->FindVictims(gang, 1, &rules)),
            (std::vector<int>{2}));
  std::vector<HeldGang> leaving = held;
  leaving[0].left = absl::Minutes(1);
  leaving[1].left = absl::Minutes(2);
  leaving[2].left = absl::Minutes(3);
  const auto estimate = TightPlacer().Begin(nodes, leaving)->Reserve(gang);
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->wait, absl::Minutes(2)) << "one Node in each rack is free after a minute";
}

TEST(TightPlacerTest, GroupsGetWhatFitsAndIsAllowedInTheirOrder) {
  const std::vector<NodeCapacity> nodes = {Node("c", "a", 4000), Node("c", "b", 4000)};
  const GangRequest gang =
      Gang({{1, {1000, 1, {}}, {}, 9}, {1, {2000, 1, {}}, {}, 3}, {1, {1000, 1, {}}}});
  const auto all = TightPlacer().Begin(nodes)->Place(gang);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->sizes, (std::vector<int>{5, 1, 1}));
  EXPECT_EQ(all->nodes.size(), 7u);
  // Two of the first group at most.
  const auto few = TightPlacer().Begin(nodes)->Place(
      gang, [](const Amounts& more) { return more.cpu_millis <= 3000; });
  ASSERT_TRUE(few.has_value());
  EXPECT_EQ(few->sizes, (std::vector<int>{4, 1, 1}));
  EXPECT_NE(gang.Shape(),
            Gang({{1, {1000, 1, {}}}, {1, {2000, 1, {}}}, {1, {1000, 1, {}}}}).Shape());
  // What is left is left to others.
  auto round = TightPlacer().Begin(nodes);
  ASSERT_TRUE(
      round->Place(gang, [](const Amounts& more) { return more == Amounts(); }).has_value());
  const auto next = round->Place(Gang({{1, {1000, 1, {}}, {}, 9}}));
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->sizes, (std::vector<int>{4}));
  EXPECT_FALSE(round->Place(Gang({{1, {1000, 1, {}}, {}, 9}})).has_value());
}

// For gangs of one group it is exact: it fits if and only if the Nodes' counts add up.
TEST(TightPlacerTest, IsExactForOneGroupAndNeverOverCommits) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<NodeCapacity> nodes;
    for (uint64_t i = 0, n = 1 + random.Below(6); i < n; ++i) {
      nodes.push_back(
          Node(random.OneIn(2) ? "c" : "d", absl::StrCat("n", i), random.Between(0, 8000)));
    }
    GangRequest::Group group{static_cast<int>(random.Between(1, 12)),
                             {random.Between(1, 3000), 1, {}}};
    if (random.OneIn(2)) group.more = static_cast<int>(random.Between(1, 12));
    std::map<std::string, int64_t> fits;
    for (const NodeCapacity& node : nodes) {
      fits[node.id.cluster] += node.free.Fits(group.each, group.replicas + group.more);
    }
    int64_t most = 0;
    bool expected = false;
    for (const auto& [cluster, count] : fits) {
      expected = expected || count >= group.replicas;
      most = std::max(most, std::min<int64_t>(count, group.replicas + group.more));
    }
    const auto placement = Place(Gang({group}), nodes);
    ASSERT_EQ(placement.has_value(), expected) << "round " << round;
    if (!placement) continue;
    ASSERT_EQ(placement->size(), static_cast<size_t>(most)) << "round " << round;
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
