// Gangs whose tasks ask for MIG instances, against counting and an independent judge.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/mig/layouts.h"
#include "libs/random/random.h"
#include "services/scheduler/core/round/backfill.h"
#include "services/scheduler/core/round/fleet_fixture.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/placement_check.h"
#include "services/scheduler/core/round/preemption.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler::round {
namespace {

constexpr int kProfiles = 7;

// Of Nodes with GPUs of one model in MIG mode.
class MigFleet : public FleetFixture {
 public:
  MigFleet() : slices_(fleet().dimensions().Intern("mig", 8).value()) {}

  int model() const { return model_; }
  void AddNode(const std::string& rack, const std::string& host, int gpus, int64_t cpu) {
    NodeTraits traits = Traits("c", rack, host, cpu, 0);
    traits.allocatable[slices_] = gpus * 8;
    traits.gpus.assign(static_cast<size_t>(gpus), {model_, {}});
    fleet().AddNode(std::move(traits));
  }
  ClassId Class(int profile, int64_t cpu = 1) {
    const int slices = mig::DeviceModels()[model_].profiles[profile].memory_slices;
    return fleet().InternClass({}, {{kCpuMillis, cpu}, {slices_, slices}},
                               mig::Ask{model_, profile});
  }
  ShapeId Gang(int profile, int size) { return Flat(Class(profile), size, size); }

 private:
  const int model_ = mig::ModelIndex("H100-80GB");
  const Dimension slices_;
};

class MigTest : public ::testing::Test {
 protected:
  // What a gang of one class needs to fit, by looking at GPUs one by one.
  int64_t Count(const Snapshot& snapshot, ClassId id) const {
    const TaskClass& asked = snapshot.classes[id];
    const mig::StateTable& table = mig::Layouts::Of(fixture_.model()).table();
    int64_t total = 0;
    for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
      int64_t fit = 0;
      for (const mig::Instances& gpu : snapshot.nodes[n].gpus) {
        fit += table.Room(*table.Find(gpu.once), asked.ask->profile);
      }
      for (const Quantity& q : asked.request) {
        fit = std::min(fit, snapshot.nodes[n].free[q.dimension] / q.amount);
      }
      total += fit;
    }
    return total;
  }
  absl::Status Check(const Snapshot& snapshot, const GangShape& shape,
                     const std::vector<TaskRun>& runs) const {
    return FreeLedger(snapshot).Place(shape, runs);
  }

  MigFleet fixture_;
};

TEST_F(MigTest, PlacesAGangOfOneProfileIfAndOnlyIfItFits) {
  Random random(3);
  for (int node = 0; node < 6; ++node) {
    fixture_.AddNode(absl::StrCat("r", node / 2), absl::StrCat("n", node), node % 4, 6);
  }
  Workspace workspace;
  std::vector<GangIndex> running;
  int fitted = 0;
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    if (!running.empty() && random.OneIn(3)) {
      const size_t which = random.Below(running.size());
      fixture_.fleet().RemoveGang(running[which]);
      running.erase(running.begin() + static_cast<ptrdiff_t>(which));
    }
    const ClassId id = fixture_.Class(static_cast<int>(random.Below(kProfiles)));
    const int size = static_cast<int>(random.Between(1, 6));
    const ShapeId shape = fixture_.Flat(id, size, size);
    const auto snapshot = fixture_.fleet().Freeze();
    workspace.Load(snapshot);
    const auto runs = GangPlacer(&workspace, 0).Place(fixture_.fleet().shape(shape), Plane::kNow);
    ASSERT_EQ(runs.has_value(), Count(*snapshot, id) >= size);
    // A workspace that has seen much answers as a new one does.
    Workspace cold;
    cold.Load(snapshot);
    ASSERT_EQ(GangPlacer(&cold, 0).Place(fixture_.fleet().shape(shape), Plane::kNow), runs);
    if (!runs.has_value()) {
      ++refused;
      continue;
    }
    ++fitted;
    const absl::Status good = Check(*snapshot, fixture_.fleet().shape(shape), *runs);
    ASSERT_TRUE(good.ok()) << good;
    running.push_back(fixture_.AddGang(shape));
    ASSERT_TRUE(fixture_.fleet().Start(running.back(), *runs, absl::UnixEpoch()).ok());
  }
  EXPECT_GT(fitted, 200);
  EXPECT_GT(refused, 200);
  for (GangIndex gang : running) fixture_.fleet().RemoveGang(gang);
  for (NodeIndex node = 0; node < 6; ++node) {
    for (const mig::Instances& gpu : fixture_.fleet().node(node).gpus) EXPECT_TRUE(gpu.empty());
  }
}

TEST_F(MigTest, TakesBackWhatWasTried) {
  fixture_.AddNode("r", "n", 2, 1000);
  Workspace workspace;
  const ClassId small = fixture_.Class(0);
  workspace.Load(fixture_.fleet().Freeze());
  const ClassId large = fixture_.Class(5);
  workspace.Load(fixture_.fleet().Freeze());
  Random random(11);
  std::vector<std::pair<size_t, std::vector<mig::Instances>>> marks;
  for (int i = 0; i < 500; ++i) {
    if (!marks.empty() && random.OneIn(4)) {
      workspace.UndoTo(marks.back().first);
      ASSERT_EQ(workspace.rows().gpus(0), marks.back().second);
      marks.pop_back();
      continue;
    }
    marks.emplace_back(workspace.Mark(), workspace.rows().gpus(0));
    const ClassId id = random.OneIn(2) ? small : large;
    if (workspace.Index(id, Plane::kNow).fit(0) > 0) workspace.TakeInstance(0, id, Plane::kNow);
  }
}

TEST_F(MigTest, TheFleetRefusesInstancesThatOverlap) {
  fixture_.AddNode("r", "n", 1, 1000);
  const ShapeId whole = fixture_.Flat(fixture_.Class(6), 1, 1);
  const ShapeId small = fixture_.Flat(fixture_.Class(0), 1, 1);
  Workspace workspace;
  workspace.Load(fixture_.fleet().Freeze());
  const auto runs = *GangPlacer(&workspace, 0).Place(fixture_.fleet().shape(whole), Plane::kNow);
  workspace.Load(fixture_.fleet().Freeze());
  const auto one = *GangPlacer(&workspace, 0).Place(fixture_.fleet().shape(small), Plane::kNow);
  Fleet& fleet = fixture_.fleet();
  const GangIndex first = fixture_.AddGang(small);
  ASSERT_TRUE(fleet.Start(first, one, absl::UnixEpoch()).ok());
  const GangIndex second = fixture_.AddGang(whole);
  EXPECT_FALSE(fleet.Start(second, runs, absl::UnixEpoch()).ok());
  // It may have the place of one that ends for it, once that has ended.
  ASSERT_TRUE(fleet.Nominate(second, runs, {first}).ok());
  EXPECT_FALSE(fleet.StartNominated(second, absl::UnixEpoch()).ok());
  fleet.RemoveGang(first);
  EXPECT_TRUE(fleet.StartNominated(second, absl::UnixEpoch()).ok());
  // A task of the class without an instance is not one.
  const GangIndex third = fixture_.AddGang(small);
  EXPECT_FALSE(fleet.Start(third, {{0, 0, 1}}, absl::UnixEpoch()).ok());
}

TEST_F(MigTest, NamesNoVictimThatCouldStay) {
  Random random(5);
  int named = 0;
  for (int round = 0; round < 60; ++round) {
    MigFleet fresh;
    Fleet& fleet = fresh.fleet();
    for (int n = 0; n < 3; ++n) fresh.AddNode("r", absl::StrCat("n", n), 2, 100);
    Workspace workspace;
    for (int i = 0; i < 14; ++i) {
      const ShapeId shape = fresh.Gang(static_cast<int>(random.Below(kProfiles)),
                                       static_cast<int>(random.Between(1, 3)));
      workspace.Load(fleet.Freeze());
      const auto runs = GangPlacer(&workspace, 0).Place(fleet.shape(shape), Plane::kNow);
      if (!runs.has_value()) continue;
      ASSERT_TRUE(fleet.Start(fresh.AddGang(shape), *runs, absl::UnixEpoch()).ok());
    }
    const ShapeId wanted =
        fresh.Gang(random.OneIn(2) ? 6 : 4, static_cast<int>(random.Between(1, 3)));
    const GangIndex preemptor = fresh.AddGang(wanted, 1);
    const auto snapshot = fleet.Freeze();
    workspace.Load(snapshot);
    GangPlacer placer(&workspace, 0);
    const auto fits = [&](const std::vector<GangIndex>& gone) {
      const size_t mark = workspace.Mark();
      for (GangIndex gang : gone) {
        workspace.Give(fleet.shape(fleet.gang(gang).shape), *fleet.gang(gang).runs, 1);
      }
      const bool placed = placer.Place(fleet.shape(wanted), Plane::kNow).has_value();
      workspace.UndoTo(mark);
      return placed;
    };
    if (fits({})) continue;
    Budgets budgets;
    budgets.AddQueue(absl::nullopt);
    const auto found = FindVictims(workspace, placer, budgets, PreemptionLimits(), {}, preemptor,
                                   absl::UnixEpoch(), Plane::kNow);
    ASSERT_TRUE(found.has_value()) << "all may go, and an empty fleet holds it";
    ++named;
    EXPECT_TRUE(fits(found->victims));
    for (GangIndex but : found->victims) {
      std::vector<GangIndex> fewer = found->victims;
      fewer.erase(std::find(fewer.begin(), fewer.end(), but));
      EXPECT_FALSE(fits(fewer)) << "without " << but;
    }
    FreeLedger ledger(*snapshot);
    for (GangIndex gang : found->victims) {
      ledger.Release(fleet.shape(fleet.gang(gang).shape), *fleet.gang(gang).runs);
    }
    const absl::Status good = ledger.Place(fleet.shape(wanted), found->runs);
    EXPECT_TRUE(good.ok()) << good;
    EXPECT_TRUE(fleet.Nominate(preemptor, found->runs, found->victims).ok());
  }
  EXPECT_GT(named, 20);
}

TEST_F(MigTest, WhatStaysPastAReservationLeavesItsPlaceAlone) {
  Random random(9);
  int reserved = 0;
  int beyond = 0;
  for (int round = 0; round < 80; ++round) {
    MigFleet fresh;
    Fleet& fleet = fresh.fleet();
    fresh.AddNode("r", "n", 2, 100);
    Workspace workspace;
    std::vector<GangIndex> running;
    for (int i = 0; i < 5; ++i) {
      const ShapeId shape = fresh.Gang(static_cast<int>(random.Below(6)), 1);
      workspace.Load(fleet.Freeze());
      const auto runs = GangPlacer(&workspace, 0).Place(fleet.shape(shape), Plane::kNow);
      if (!runs.has_value()) continue;
      running.push_back(fresh.AddGang(shape, 0, 0, absl::Minutes(random.Between(1, 9))));
      ASSERT_TRUE(fleet.Start(running.back(), *runs, absl::UnixEpoch()).ok());
    }
    const ShapeId head = fresh.Gang(static_cast<int>(random.Between(3, 6)), 2);
    const GangIndex waiting = fresh.AddGang(head);
    std::vector<ShapeId> shapes;
    for (int p = 0; p < kProfiles; ++p) shapes.push_back(fresh.Gang(p, 1));
    const auto snapshot = fleet.Freeze();
    workspace.Load(snapshot);
    GangPlacer placer(&workspace, 0);
    const size_t mark = workspace.Mark();
    const bool fits_now = placer.Place(fleet.shape(head), Plane::kNow).has_value();
    workspace.UndoTo(mark);
    if (fits_now) continue;
    std::vector<Departure> departures;
    for (GangIndex gang : running) {
      departures.push_back(DepartureOf(*snapshot, gang, absl::UnixEpoch(), absl::Hours(24)));
    }
    const auto reservation = Reserve(workspace, placer, waiting, departures, absl::UnixEpoch());
    ASSERT_TRUE(reservation.has_value());
    ++reserved;
    // Others that stay, until nothing more fits.
    FreeLedger now(*snapshot);
    FreeLedger then(*snapshot);
    for (const Departure& departure : departures) {
      if (departure.end <= reservation->start) then.Release(*departure.shape, *departure.runs);
    }
    ASSERT_TRUE(then.Place(fleet.shape(head), reservation->runs).ok());
    for (int i = 0; i < 40; ++i) {
      const GangShape& shape = fleet.shape(shapes[random.Below(kProfiles)]);
      const auto runs = placer.Place(shape, Plane::kBeyondReservation);
      if (!runs.has_value()) continue;
      ++beyond;
      const absl::Status good = now.Place(shape, *runs);
      ASSERT_TRUE(good.ok()) << "now: " << good;
      const absl::Status later = then.Place(shape, *runs);
      ASSERT_TRUE(later.ok()) << "beside the one that room is kept for: " << later;
    }
  }
  EXPECT_GT(reserved, 20);
  EXPECT_GT(beyond, 20);
}

}  // namespace
}  // namespace capstan::scheduler::round
