#include "services/scheduler/core/round/gang_placer.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/scheduler/core/round/fleet_fixture.h"
#include "services/scheduler/core/round/placement_check.h"

namespace capstan::scheduler::round {
namespace {

class GangPlacerTest : public ::testing::Test {
 protected:
  absl::optional<std::vector<TaskRun>> Place(ShapeId shape, uint64_t seed = 0) {
    workspace_.Load(fixture_.fleet().Freeze());
    return GangPlacer(&workspace_, seed).Place(fixture_.fleet().shape(shape), Plane::kNow);
  }

  FleetFixture fixture_;
  Workspace workspace_;
};

using Runs = std::vector<TaskRun>;

TEST_F(GangPlacerTest, FillsANodeBeforeTheNextAndTakesTheTightestThatHoldsAll) {
  fixture_.AddNode("c", "r", "a", 64000, 3);
  fixture_.AddNode("c", "r", "b", 64000, 8);
  fixture_.AddNode("c", "r", "d", 64000, 4);
  const ClassId gpu = fixture_.Class(1000, 1);
  EXPECT_EQ(Place(fixture_.Flat(gpu, 4, 4)), (Runs{{2, 0, 4}}));
  EXPECT_EQ(Place(fixture_.Flat(gpu, 10, 10)), (Runs{{1, 0, 8}, {0, 0, 2}}));
  EXPECT_EQ(Place(fixture_.Flat(gpu, 16, 16)), absl::nullopt);
}

TEST_F(GangPlacerTest, KeepsAGangInOneClusterAndWhereItMayBe) {
  fixture_.AddNode("c", "r", "a", 8000, 1);
  fixture_.AddNode("d", "r", "a", 8000, 1);
  EXPECT_EQ(Place(fixture_.Flat(fixture_.Class(1000, 1), 2, 2)), absl::nullopt);
  NodeTraits tainted = fixture_.Traits("e", "r", "a", 8000, 8);
  tainted.labels["gpu"] = "h100";
  tainted.taints = {{"team", "vision"}};
  fixture_.fleet().AddNode(tainted);
  EXPECT_EQ(Place(fixture_.Flat(fixture_.Class(1000, 1), 2, 2)), absl::nullopt);
  Constraints constraints;
  constraints.tolerations = {{"team", false, "vision"}};
  EXPECT_EQ(Place(fixture_.Flat(fixture_.Class(1000, 1, constraints), 2, 2)), (Runs{{2, 0, 2}}));
  constraints.selector = {{"gpu", {"a100"}, false}};
  EXPECT_EQ(Place(fixture_.Flat(fixture_.Class(1000, 1, constraints), 2, 2)), absl::nullopt);
}

TEST_F(GangPlacerTest, RequiresOneRackAndTakesTheOneOfLeastLeftover) {
  for (const char* rack : {"r1", "r2", "r3"}) {
    for (int n = 0; n < 3; ++n) {
      fixture_.AddNode("c", rack, absl::StrCat(rack, "-", n), 64000, rack[1] == '2' ? 3 : 4);
    }
  }
  const ClassId gpu = fixture_.Class(1000, 1);
  const Runs in_r2 = {{3, 0, 3}, {4, 0, 3}, {5, 0, 3}};
  EXPECT_EQ(Place(fixture_.Flat(gpu, 9, 9, Level::kRack)), in_r2);
  const Runs in_r1 = {{0, 0, 4}, {1, 0, 4}, {2, 0, 2}};
  EXPECT_EQ(Place(fixture_.Flat(gpu, 10, 10, Level::kRack)), in_r1);
  EXPECT_EQ(Place(fixture_.Flat(gpu, 13, 13, Level::kRack)), absl::nullopt);
  EXPECT_TRUE(Place(fixture_.Flat(gpu, 13, 13)).has_value());
  EXPECT_EQ(Place(fixture_.Flat(gpu, 5, 5, Level::kHost)), absl::nullopt);
  EXPECT_EQ(Place(fixture_.Flat(gpu, 1, 1, Level::kNvlinkDomain)), absl::nullopt)
      << "no node is in an NVLink domain";
}

TEST_F(GangPlacerTest, PrefersOneRackAndElseAsFewAsItFinds) {
  for (const char* rack : {"r1", "r2", "r3"}) {
    for (int n = 0; n < 2; ++n) {
      fixture_.AddNode("c", rack, absl::StrCat(rack, "-", n), 64000, rack[1] == '3' ? 8 : 4);
    }
  }
  const ClassId gpu = fixture_.Class(1000, 1);
  const Runs one_rack = {{4, 0, 8}, {5, 0, 2}};
  EXPECT_EQ(Place(fixture_.Flat(gpu, 10, 10, {}, Level::kRack)), one_rack);
  const Runs two_racks = {{4, 0, 8}, {5, 0, 8}, {0, 0, 4}, {1, 0, 2}};
  EXPECT_EQ(Place(fixture_.Flat(gpu, 22, 22, {}, Level::kRack)), two_racks);
}

TEST_F(GangPlacerTest, PlacesATreeWithALevelForEachGroup) {
  for (const char* rack : {"r1", "r2"}) {
    for (int n = 0; n < 4; ++n) {
      fixture_.AddNode("c", rack, absl::StrCat(rack, "-", n), 64000, 4);
    }
  }
  const ClassId gpu = fixture_.Class(1000, 1);
  GangShape::Group replica;
  replica.required = Level::kRack;
  replica.task_class = gpu;
  replica.min = replica.max = 12;
  const auto placed = Place(fixture_.Tree({replica, replica}));
  ASSERT_TRUE(placed.has_value());
  FreeLedger ledger(workspace_.snapshot());
  EXPECT_TRUE(
      ledger.Place(fixture_.fleet().shape(fixture_.Tree({replica, replica})), *placed).ok());
  EXPECT_EQ(Place(fixture_.Tree({replica, replica, replica})), absl::nullopt);
  EXPECT_EQ(Place(fixture_.Tree({replica, replica}, Level::kRack)), absl::nullopt);
}

TEST_F(GangPlacerTest, PutsLargeTasksFirstWhereRankOrderDoesNotFit) {
  fixture_.AddNode("c", "r", "a", 3000, 0);
  fixture_.AddNode("c", "r", "b", 2000, 0);
  GangShape::Group small;
  small.task_class = fixture_.Class(1000, 0);
  small.min = small.max = 2;
  GangShape::Group large = small;
  large.task_class = fixture_.Class(3000, 0);
  large.min = large.max = 1;
  EXPECT_EQ(Place(fixture_.Tree({small, large})), (Runs{{1, 1, 2}, {0, 2, 1}}));
  large.min = large.max = 2;
  EXPECT_EQ(Place(fixture_.Tree({small, large})), absl::nullopt);
}

TEST_F(GangPlacerTest, LeavesTheWorkspaceAsItWasWhereItFails) {
  for (int n = 0; n < 50; ++n) fixture_.AddNode("c", "r", absl::StrCat("n", n), 64000, 8);
  GangShape::Group leaf;
  leaf.task_class = fixture_.Class(1000, 1);
  leaf.min = leaf.max = 300;
  GangShape::Group other = leaf;
  other.task_class = fixture_.Class(1000, 2);
  EXPECT_EQ(Place(fixture_.Tree({leaf, other})), absl::nullopt);
  EXPECT_EQ(workspace_.Mark(), 0u);
  EXPECT_EQ(workspace_.Index(leaf.task_class, Plane::kNow).total(), 400);
}

TEST_F(GangPlacerTest, GrowsWithinItsDomainUpToMaximumAndLimit) {
  fixture_.AddNode("c", "r1", "a", 64000, 4);
  fixture_.AddNode("c", "r1", "b", 64000, 2);
  fixture_.AddNode("c", "r2", "a", 64000, 8);
  const ShapeId shape = fixture_.Flat(fixture_.Class(1000, 1), 3, 100, Level::kRack);
  const auto placed = Place(shape);
  ASSERT_EQ(placed, (Runs{{0, 0, 3}}));
  GangPlacer placer(&workspace_, 0);
  const GangShape& gang = fixture_.fleet().shape(shape);
  const std::vector<int64_t> two = {2};
  EXPECT_EQ(placer.Grow(gang, *placed, Plane::kNow, two), (Runs{{1, 0, 2}}));
  const std::vector<int64_t> many = {50};
  EXPECT_EQ(placer.Grow(gang, *placed, Plane::kNow, many), (Runs{{0, 0, 1}}));
}

TEST_F(GangPlacerTest, ASeedChoosesAmongEquals) {
  for (int n = 0; n < 100; ++n) fixture_.AddNode("c", "r", absl::StrCat("n", n), 64000, 8);
  const ShapeId shape = fixture_.Flat(fixture_.Class(1000, 1), 1, 1);
  EXPECT_EQ(Place(shape, 0), Place(shape, 0));
  EXPECT_EQ(Place(shape, 5), Place(shape, 5));
  EXPECT_NE(Place(shape, 5), Place(shape, 6));
}

// Whether the leaves fit at all, by trying every node for every task in turn.
bool Exists(const GangShape& shape, const Snapshot& snapshot) {
  std::vector<int> tasks;
  for (int leaf : shape.leaves[0]) tasks.insert(tasks.end(), shape.groups[leaf].min, leaf);
  std::vector<TaskRun> runs;
  std::function<bool(size_t)> place = [&](size_t next) {
    if (next == tasks.size()) return FreeLedger(snapshot).Place(shape, runs).ok();
    // Equal tasks are tried in one order of nodes only.
    const NodeIndex from =
        next > 0 && tasks[next] == tasks[next - 1] ? runs[next - 1].node : NodeIndex{0};
    for (NodeIndex n = from; n < snapshot.nodes.size(); ++n) {
      runs.push_back({n, tasks[next], 1});
      FreeLedger partial(snapshot);
      bool room = true;
      for (const TaskRun& run : runs) {
        const Request& request = snapshot.classes[shape.groups[run.group].task_class].request;
        ResourceVector left = partial.free()[run.node];
        AddTo(left, request, -1);
        room = room && std::all_of(left.begin(), left.end(), [](int64_t a) { return a >= 0; });
        partial.Release(shape, {{run.node, run.group, -1}});
      }
      if (room && place(next + 1)) return true;
      runs.pop_back();
    }
    return false;
  };
  return place(0);
}

struct Tally {
  int placed = 0;
  int missed = 0;
  int impossible = 0;
};

// One random gang on one random small fleet.
void Compare(uint64_t seed, int max_leaves, bool inner_levels, Tally& tally) {
  Random random(seed);
  FleetFixture fixture;
  const int nodes = static_cast<int>(random.Between(1, 5));
  const Level wide = seed % 2 == 0 ? Level::kRack : Level::kRail;
  for (int n = 0; n < nodes; ++n) {
    const std::string rack = random.OneIn(6) ? "" : absl::StrCat("r", random.Below(2));
    NodeTraits traits =
        fixture.Traits(absl::StrCat("c", random.Below(2)), rack, absl::StrCat("n", n),
                       random.Between(1, 8) * 1000, random.Between(0, 3));
    if (wide == Level::kRail) {
      traits.path[static_cast<int>(Level::kRail)] =
          std::exchange(traits.path[static_cast<int>(Level::kRack)], "");
    }
    if (random.OneIn(5)) traits.taints = {{"t", "1"}};
    const NodeIndex node = fixture.fleet().AddNode(traits);
    if (random.OneIn(8)) fixture.fleet().SetSchedulable(node, false);
  }
  std::vector<GangShape::Group> leaves(random.Between(1, max_leaves));
  const absl::optional<Level> levels[] = {absl::nullopt, wide, Level::kHost};
  for (GangShape::Group& leaf : leaves) {
    Constraints constraints;
    if (random.OneIn(3)) constraints.tolerations = {{"t", true, ""}};
    leaf.task_class = fixture.Class(random.Between(1, 3) * 1000, random.Between(0, 2), constraints);
    leaf.min = static_cast<int>(random.Between(1, 4 / static_cast<int>(leaves.size())));
    leaf.max = leaf.min + 1;
    if (inner_levels) leaf.required = levels[random.Below(3)];
  }
  const absl::optional<Level> root = random.OneIn(3) ? levels[1] : absl::nullopt;
  const ShapeId id = fixture.Tree(leaves, root);
  const GangShape& shape = fixture.fleet().shape(id);
  const auto snapshot = fixture.fleet().Freeze();
  Workspace workspace;
  workspace.Load(snapshot);
  const auto placed = GangPlacer(&workspace, seed).Place(shape, Plane::kNow);
  if (placed.has_value()) {
    ++tally.placed;
    EXPECT_TRUE(FreeLedger(*snapshot).Place(shape, *placed).ok()) << "seed " << seed;
  } else {
    ++(Exists(shape, *snapshot) ? tally.missed : tally.impossible);
  }
}

TEST(GangPlacerPropertyTest, PlacesAGangOfOneClassIfAndOnlyIfItFits) {
  Tally tally;
  for (uint64_t seed = 0; seed < 3000; ++seed) Compare(seed, 1, true, tally);
  EXPECT_EQ(tally.missed, 0);
  EXPECT_GT(tally.placed, 500);
  EXPECT_GT(tally.impossible, 500);
}

TEST(GangPlacerPropertyTest, PlacesMostGangsOfSeveralClassesThatFitAndNoneWrongly) {
  Tally tally;
  for (uint64_t seed = 0; seed < 3000; ++seed) Compare(seed, 3, true, tally);
  EXPECT_GT(tally.placed, 500);
  EXPECT_GT(tally.impossible, 500);
  EXPECT_LT(tally.missed * 50, tally.placed);
  RecordProperty("missed", tally.missed);
}

}  // namespace
}  // namespace capstan::scheduler::round
