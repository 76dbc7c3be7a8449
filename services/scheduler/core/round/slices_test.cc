// Gangs in slices: placed if and only if they fit, by trying every node for every rank.
#include "services/scheduler/core/round/slices.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/scheduler/core/round/fleet_fixture.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/placement_check.h"
#include "services/scheduler/core/round/reasons.h"

namespace capstan::scheduler::round {
namespace {

using Runs = std::vector<TaskRun>;

GangShape::Group Leaf(ClassId task_class, int count, std::vector<Slice> slices) {
  GangShape::Group leaf;
  leaf.task_class = task_class;
  leaf.min = leaf.max = count;
  leaf.slices = std::move(slices);
  return leaf;
}

ShapeId Alone(FleetFixture& fixture, GangShape::Group leaf, absl::optional<Level> required = {}) {
  GangShape shape;
  leaf.required = required;
  shape.groups.push_back(std::move(leaf));
  return fixture.fleet().InternShape(std::move(shape)).value();
}

class SlicesTest : public ::testing::Test {
 protected:
  // Two rows of two racks of two nodes each.
  void AddRows(std::vector<int> gpus) {
    for (size_t n = 0; n < gpus.size(); ++n) {
      NodeTraits traits =
          fixture_.Traits("c", absl::StrCat("r", n / 2), absl::StrCat("n", n), 64000, gpus[n]);
      traits.path[static_cast<int>(Level::kRow)] = absl::StrCat("w", n / 4);
      fixture_.fleet().AddNode(std::move(traits));
    }
  }
  absl::optional<Runs> Place(ShapeId shape) {
    workspace_.Load(fixture_.fleet().Freeze());
    return GangPlacer(&workspace_, 0).Place(fixture_.fleet().shape(shape), Plane::kNow);
  }

  FleetFixture fixture_;
  Workspace workspace_;
};

TEST_F(SlicesTest, EachSliceIsInOneDomainAndRanksFollowEachOther) {
  AddRows({4, 4, 4, 3, 4, 4, 4, 4});
  const ClassId gpu = fixture_.Class(1000, 1);
  // Racks hold 8, 7, 8 and 8: in slices of 4 the second one holds one alone.
  const Runs in_slices = {{0, 0, 4}, {1, 0, 4}, {4, 0, 4}, {5, 0, 4},
                          {6, 0, 4}, {7, 0, 4}, {2, 0, 4}};
  EXPECT_EQ(Place(Alone(fixture_, Leaf(gpu, 28, {{Level::kRack, 4}}))), in_slices);
  EXPECT_TRUE(Place(fixture_.Flat(gpu, 31, 31)).has_value());
  EXPECT_EQ(Place(Alone(fixture_, Leaf(gpu, 32, {{Level::kRack, 4}}))), absl::nullopt);
  EXPECT_EQ(Place(Alone(fixture_, Leaf(gpu, 8, {{Level::kHost, 8}}))), absl::nullopt);
}

TEST_F(SlicesTest, SlicesOfSlices) {
  AddRows({4, 4, 4, 3, 4, 4, 4, 4});
  const ClassId gpu = fixture_.Class(1000, 1);
  const std::vector<Slice> slices = {{Level::kRow, 12}, {Level::kRack, 4}, {Level::kHost, 2}};
  const auto placed = Place(Alone(fixture_, Leaf(gpu, 24, slices)));
  ASSERT_TRUE(placed.has_value());
  FreeLedger ledger(workspace_.snapshot());
  EXPECT_TRUE(
      ledger.Place(fixture_.fleet().shape(Alone(fixture_, Leaf(gpu, 24, slices))), *placed).ok());
  // The first row holds three of 4, the second four: no third slice of 12.
  EXPECT_EQ(Place(Alone(fixture_, Leaf(gpu, 36, slices))), absl::nullopt);
  const ShapeId wide = Alone(fixture_, Leaf(gpu, 28, {{Level::kRow, 14}, {Level::kHost, 2}}));
  EXPECT_TRUE(Place(wide).has_value());
  const ShapeId wider = Alone(fixture_, Leaf(gpu, 30, {{Level::kRow, 15}, {Level::kHost, 1}}));
  EXPECT_TRUE(Place(wider).has_value());
  const ShapeId widest = Alone(fixture_, Leaf(gpu, 30, {{Level::kRow, 15}, {Level::kHost, 3}}));
  EXPECT_EQ(Place(widest), absl::nullopt);
  const Reason reason = WhyNot(workspace_, fixture_.fleet().shape(widest), Plane::kNow);
  EXPECT_EQ(reason.obstacle, Obstacle::kNeverFits);
  EXPECT_EQ(reason.wanted, 30);
  EXPECT_EQ(reason.best, 0);
}

TEST_F(SlicesTest, WhatIsFreeInPiecesIsTopologyNotRoom) {
  AddRows({4, 4, 4, 4});
  const ClassId gpu = fixture_.Class(1000, 1);
  const ShapeId one = fixture_.Flat(gpu, 1, 1);
  for (NodeIndex n : {0u, 2u}) {
    ASSERT_TRUE(fixture_.fleet().Start(fixture_.AddGang(one), {{n, 0, 1}}, absl::UnixEpoch()).ok());
  }
  const ShapeId sliced = Alone(fixture_, Leaf(gpu, 8, {{Level::kRack, 8}}));
  EXPECT_EQ(Place(sliced), absl::nullopt);
  const Reason reason = WhyNot(workspace_, fixture_.fleet().shape(sliced), Plane::kNow);
  EXPECT_EQ(reason.obstacle, Obstacle::kTopology);
  EXPECT_EQ(reason.best, 0);
}

TEST_F(SlicesTest, APreferenceActsBetweenSlices) {
  for (int n = 0; n < 8; ++n) {
    NodeTraits traits = fixture_.Traits("c", "r", absl::StrCat("n", n), 64000, 2);
    traits.path[static_cast<int>(Level::kNvlinkDomain)] = absl::StrCat("d", n % 4);
    fixture_.fleet().AddNode(std::move(traits));
  }
  GangShape::Group leaf = Leaf(fixture_.Class(1000, 1), 8, {{Level::kRack, 8}, {Level::kHost, 2}});
  leaf.preferred = Level::kNvlinkDomain;
  EXPECT_EQ(Place(Alone(fixture_, leaf)), (Runs{{0, 0, 2}, {4, 0, 2}, {1, 0, 2}, {5, 0, 2}}));
}

TEST_F(SlicesTest, GrowsByWholeSlices) {
  AddRows({4, 4, 4, 4});
  GangShape::Group leaf = Leaf(fixture_.Class(1000, 1), 6, {{Level::kRack, 3}});
  leaf.max = 12;
  const ShapeId shape = Alone(fixture_, leaf);
  const auto placed = Place(shape);
  ASSERT_TRUE(placed.has_value());
  const std::vector<int64_t> limit = {5};
  const GangShape& gang = fixture_.fleet().shape(shape);
  Runs all = GangPlacer(&workspace_, 0).Grow(gang, *placed, Plane::kNow, limit);
  FreeLedger ledger(workspace_.snapshot());
  ASSERT_TRUE(ledger.Place(gang, *placed).ok());
  EXPECT_TRUE(ledger.Grow(gang, *placed, all).ok());
  int more = 0;
  for (const TaskRun& run : all) more += run.count;
  EXPECT_EQ(more, 3);
}

TEST_F(SlicesTest, RefusesSlicesThatDoNotDivide) {
  const ClassId gpu = fixture_.Class(1000, 1);
  const auto interns = [this](GangShape::Group leaf) {
    GangShape shape;
    shape.groups.push_back(std::move(leaf));
    return fixture_.fleet().InternShape(std::move(shape)).ok();
  };
  EXPECT_FALSE(interns(Leaf(gpu, 6, {{Level::kRack, 4}})));
  EXPECT_FALSE(interns(Leaf(gpu, 8, {{Level::kRack, 8}, {Level::kHost, 3}})));
  EXPECT_FALSE(interns(Leaf(gpu, 8, {{Level::kHost, 8}, {Level::kRack, 4}})));
  EXPECT_FALSE(interns(Leaf(gpu, 8, {{Level::kRack, 0}})));
  EXPECT_TRUE(interns(Leaf(gpu, 8, {{Level::kRack, 8}, {Level::kHost, 8}})));
}

std::string DomainOf(const Snapshot& snapshot, NodeIndex node, Level level) {
  const auto& path = snapshot.nodes[node].traits->path;
  if (path[static_cast<int>(level)].empty()) return "";
  std::string domain;
  for (int l = 0; l <= static_cast<int>(level); ++l) absl::StrAppend(&domain, path[l], "/");
  return domain;
}

// Whether the leaves fit at all.
bool Exists(const GangShape& shape, const Snapshot& snapshot) {
  std::vector<std::pair<int, int>> tasks;  // leaf and index
  for (int leaf : shape.leaves[0]) {
    for (int i = 0; i < shape.groups[leaf].min; ++i) tasks.emplace_back(leaf, i);
  }
  std::vector<ResourceVector> free;
  for (size_t n = 0; n < snapshot.nodes.size(); ++n) free.push_back(snapshot.nodes[n].free);
  Runs runs;
  std::function<bool(size_t)> place = [&](size_t next) {
    if (next == tasks.size()) return FreeLedger(snapshot).Place(shape, runs).ok();
    const auto [leaf, index] = tasks[next];
    const GangShape::Group& group = shape.groups[leaf];
    for (NodeIndex n = 0; n < snapshot.nodes.size(); ++n) {
      bool together = true;
      for (const Slice& slice : group.slices) {
        const std::string domain = DomainOf(snapshot, n, slice.level);
        together = together && !domain.empty();
        if (index % slice.size != 0) {
          together = together && domain == DomainOf(snapshot, runs.back().node, slice.level);
        }
      }
      // Equal ones of a slice in one order only.
      if (!group.slices.empty() && index % group.slices.back().size != 0) {
        together = together && runs.back().node <= n;
      }
      if (!together) continue;
      AddTo(free[n], snapshot.classes[group.task_class].request, -1);
      runs.push_back({n, leaf, 1});
      bool room = true;
      for (int64_t amount : free[n]) room = room && amount >= 0;
      const bool found = room && place(next + 1);
      AddTo(free[n], snapshot.classes[group.task_class].request, 1);
      if (found) return true;
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

class SlicedWorld {
 public:
  SlicedWorld(uint64_t seed, int leaves, int classes) : random_(seed) {
    const Level wide = seed % 2 == 0 ? Level::kRow : Level::kRail;
    const auto nodes = static_cast<int>(random_.Between(2, 6));
    for (int n = 0; n < nodes; ++n) {
      const std::string rack = random_.OneIn(8) ? "" : absl::StrCat("r", random_.Below(2));
      NodeTraits traits =
          fixture_.Traits("c", rack, absl::StrCat("n", n), 16000, random_.Between(0, 4));
      traits.path[static_cast<int>(wide)] = absl::StrCat("w", random_.Below(2));
      if (random_.OneIn(2)) {
        traits.path[static_cast<int>(Level::kNvlinkDomain)] = absl::StrCat("d", random_.Below(2));
      }
      fixture_.fleet().AddNode(std::move(traits));
    }
    GangShape shape;
    if (leaves > 1) shape.groups.emplace_back();
    const absl::optional<Level> roots[] = {absl::nullopt, absl::nullopt, wide};
    const absl::optional<Level> root = roots[random_.Below(3)];
    const std::vector<Slice> slices = AnySlices();
    for (int l = 0; l < leaves; ++l) {
      const std::vector<Slice> own = classes > 1 ? AnySlices() : slices;
      const int most = leaves > 1 ? 4 : 8;
      const int size = own.empty() ? 1 : own[0].size;
      GangShape::Group leaf =
          Leaf(fixture_.Class(1000, 1 + l % classes),
               size * static_cast<int>(random_.Between(1, std::max(most / size, 1))), own);
      leaf.parent = leaves > 1 ? 0 : -1;
      if (random_.OneIn(3)) leaf.preferred = Level::kNvlinkDomain;
      shape.groups.push_back(std::move(leaf));
    }
    shape.groups[0].required = root;
    shape_ = fixture_.fleet().InternShape(std::move(shape)).value();
  }

  void Compare(Tally& tally) {
    const GangShape& shape = fixture_.fleet().shape(shape_);
    const auto snapshot = fixture_.fleet().Freeze();
    Workspace workspace;
    workspace.Load(snapshot);
    const auto placed = GangPlacer(&workspace, 0).Place(shape, Plane::kNow);
    if (placed.has_value()) {
      ++tally.placed;
      const absl::Status verdict = FreeLedger(*snapshot).Place(shape, *placed);
      EXPECT_TRUE(verdict.ok()) << verdict;
    } else {
      ++(Exists(shape, *snapshot) ? tally.missed : tally.impossible);
    }
  }

 private:
  std::vector<Slice> AnySlices() {
    static constexpr Level kLevelsOf[] = {Level::kRack, Level::kNvlinkDomain, Level::kHost};
    std::vector<Slice> slices;
    int size = 4;
    for (Level level : kLevelsOf) {
      if (random_.OneIn(2)) continue;
      size = static_cast<int>(slices.empty() ? random_.Between(1, 4) : random_.Between(1, size));
      if (!slices.empty() && slices.back().size % size != 0) size = 1;
      slices.push_back({level, size});
    }
    return slices;
  }

  Random random_;
  FleetFixture fixture_;
  ShapeId shape_ = 0;
};

TEST(SlicesPropertyTest, OneKindOfSlicesOfOneClassIsPlacedIfAndOnlyIfItFits) {
  Tally tally;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    SlicedWorld(seed, 1 + static_cast<int>(seed % 3 == 0), 1).Compare(tally);
  }
  EXPECT_EQ(tally.missed, 0);
  EXPECT_GT(tally.placed, 400);
  EXPECT_GT(tally.impossible, 400);
}

TEST(SlicesPropertyTest, MostOfSeveralKindsAndClassesThatFitArePlacedAndNoneWrongly) {
  Tally tally;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    SlicedWorld(seed, 2, 2).Compare(tally);
  }
  EXPECT_GT(tally.placed, 200);
  EXPECT_GT(tally.impossible, 200);
  EXPECT_LT(tally.missed * 50, tally.placed);
  RecordProperty("missed", tally.missed);
}

// Trees four deep with a level at each depth, leaves at all of them, some in slices.
TEST(SlicesPropertyTest, MostTreesThatFitArePlacedAndNoneWrongly) {
  Tally tally;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    FleetFixture fixture;
    const auto nodes = static_cast<int>(random.Between(3, 5));
    const bool has_rails = seed % 2 == 1;
    const Level levels[] = {has_rails ? Level::kRow : Level::kZone,
                            has_rails ? Level::kRail : Level::kRow, Level::kRack};
    for (int n = 0; n < nodes; ++n) {
      NodeTraits traits = fixture.Traits("c", absl::StrCat("r", random.Below(2)),
                                         absl::StrCat("n", n), 16000, random.Between(0, 3));
      traits.path[static_cast<int>(levels[0])] = random.OneIn(10) ? "" : "z";
      traits.path[static_cast<int>(levels[1])] = absl::StrCat("w", random.Below(2));
      fixture.fleet().AddNode(std::move(traits));
    }
    GangShape shape;
    shape.groups.emplace_back();
    for (int depth = 0; depth < 3; ++depth) {
      GangShape::Group inner;
      inner.parent = depth;
      if (!random.OneIn(3)) inner.required = levels[depth];
      if (random.OneIn(4)) inner.preferred = Level::kHost;
      shape.groups.push_back(std::move(inner));
    }
    for (int parent : {3, static_cast<int>(random.Below(4)), static_cast<int>(random.Below(4))}) {
      const int count = parent == 3 && shape.groups.size() == 4 ? 2 : 1;
      GangShape::Group leaf = Leaf(fixture.Class(1000, random.Between(1, 2)), count, {});
      leaf.parent = parent;
      if (random.OneIn(2)) leaf.slices = {{Level::kHost, count}};
      shape.groups.push_back(std::move(leaf));
    }
    const ShapeId id = fixture.fleet().InternShape(std::move(shape)).value();
    const auto snapshot = fixture.fleet().Freeze();
    Workspace workspace;
    workspace.Load(snapshot);
    const auto placed = GangPlacer(&workspace, 0).Place(fixture.fleet().shape(id), Plane::kNow);
    if (placed.has_value()) {
      ++tally.placed;
      const absl::Status verdict = FreeLedger(*snapshot).Place(fixture.fleet().shape(id), *placed);
      EXPECT_TRUE(verdict.ok()) << verdict;
    } else {
      ++(Exists(fixture.fleet().shape(id), *snapshot) ? tally.missed : tally.impossible);
    }
  }
  EXPECT_GT(tally.placed, 200);
  EXPECT_GT(tally.impossible, 200);
  EXPECT_LT(tally.missed * 50, tally.placed);
  RecordProperty("missed", tally.missed);
}

TEST(SlicesPropertyTest, CountsFollowWhatChanges) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    FleetFixture fixture;
    for (int n = 0; n < 20; ++n) {
      const std::string rack = random.OneIn(8) ? "" : absl::StrCat("r", random.Below(4));
      fixture.AddNode("c", rack, absl::StrCat("n", n), 64000, 8);
    }
    const auto snapshot = fixture.fleet().Freeze();
    NodeRows rows;
    rows.Reset(*snapshot);
    const std::vector<Slice> slices = {{Level::kRack, 6}, {Level::kHost, 2}};
    SliceCounts counts(&rows, slices);
    std::vector<int64_t> fits(20, 0);
    for (int step = 0; step < 100; ++step) {
      const auto p = static_cast<int>(random.Below(20));
      const int64_t fit = random.Between(0, 8);
      counts.Add(p, fit - std::exchange(fits[p], fit));
      const int64_t expected = FitInSlices(rows, slices, {0, 20}, [&fits](Range range) {
        int64_t total = 0;
        for (int q = range.first; q < range.last; ++q) total += fits[q];
        return total;
      });
      ASSERT_EQ(counts.total(), expected) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace capstan::scheduler::round
