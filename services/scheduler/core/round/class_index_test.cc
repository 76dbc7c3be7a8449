#include "services/scheduler/core/round/class_index.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/scheduler/core/round/fleet_fixture.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler::round {
namespace {

// The same answers by looking at every node.
class Scan {
 public:
  Scan(const NodeRows& rows, const Request& request, Plane plane) {
    for (int p = 0; p < rows.size(); ++p) {
      int64_t fit = rows.schedulable(p) ? ClassIndex::kMaxFit : 0;
      for (const Quantity& quantity : request) {
        const int64_t available = rows.available(p, quantity.dimension, plane);
        fit = std::min(fit, available < 0 ? 0 : available / quantity.amount);
      }
      fits.push_back(fit);
    }
  }

  int Best(Range range, int origin, int64_t want, bool tightest) const {
    int best = -1;
    for (int i = 0; i < range.size(); ++i) {
      const int start = origin > range.first && origin < range.last ? origin : range.first;
      const int p = range.first + (start - range.first + i) % range.size();
      if (fits[p] < want) continue;
      if (best < 0 || (tightest ? fits[p] < fits[best] : fits[p] > fits[best])) best = p;
    }
    return best;
  }

  std::vector<int64_t> fits;
};

TEST(ClassIndexTest, AnswersAsAScanOfAllNodesDoesWhateverChanged) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    FleetFixture fixture;
    const int nodes = static_cast<int>(1 + random.Below(200));
    for (int n = 0; n < nodes; ++n) {
      const NodeIndex node = fixture.AddNode(
          "c", absl::StrCat("r", random.Below(5)), absl::StrCat("n", n),
          static_cast<int64_t>(random.Below(200000)), static_cast<int64_t>(random.Below(9)));
      if (random.OneIn(10)) fixture.fleet().SetSchedulable(node, false);
    }
    std::vector<ClassId> classes;
    for (int c = 0; c < 5; ++c) {
      classes.push_back(fixture.Class(random.Between(1, 3000), random.Between(0, 2)));
    }
    Workspace workspace;
    workspace.Load(fixture.fleet().Freeze());
    for (int step = 0; step < 200; ++step) {
      const ClassId id = classes[random.Below(classes.size())];
      const int position = static_cast<int>(random.Below(nodes));
      const Plane plane = random.OneIn(2) ? Plane::kNow : Plane::kBeyondReservation;
      workspace.Take(position, id, random.Between(-2, 3), plane);
      if (random.OneIn(10)) {
        NodeBound bound;
        for (int64_t& amount : bound.left) amount = static_cast<int64_t>(random.Below(5000));
        workspace.SetBound(static_cast<int>(random.Below(nodes)), bound);
      }
      const ClassId asked = classes[random.Below(classes.size())];
      const ClassIndex& index = workspace.Index(asked, plane);
      const Scan scan(workspace.rows(), index.request(), plane);
      const int first = static_cast<int>(random.Below(nodes));
      const Range range{first, first + static_cast<int>(1 + random.Below(nodes - first))};
      const int origin = static_cast<int>(random.Below(nodes));
      const int64_t want = random.Between(1, random.OneIn(2) ? 100 : 4);
      EXPECT_EQ(index.Tightest(range, want, origin), scan.Best(range, origin, want, true));
      EXPECT_EQ(index.Roomiest(range, origin), scan.Best(range, origin, 1, false));
      int64_t total = 0;
      for (int p = range.first; p < range.last; ++p) total += scan.fits[p];
      EXPECT_EQ(index.TotalIn(range), total);
      const Level level = random.OneIn(2) ? Level::kRack : Level::kHost;
      const std::vector<Range>& domains = workspace.rows().domains(level);
      const std::vector<int64_t>& totals = index.TotalsOf(level);
      ASSERT_EQ(totals.size(), domains.size());
      for (size_t d = 0; d < domains.size(); ++d) {
        EXPECT_EQ(totals[d], index.TotalIn(domains[d]));
      }
    }
  }
}

TEST(ClassIndexTest, CountsLargeAmountsExactly) {
  FleetFixture fixture;
  NodeTraits traits = fixture.Traits("c", "r", "n", 1000000, 0);
  traits.allocatable[kMemoryBytes] = 3 * ((int64_t{1} << 50) + 1);
  fixture.fleet().AddNode(traits);
  const ClassId exact = fixture.fleet().InternClass({}, {{kMemoryBytes, (int64_t{1} << 50) + 1}});
  const ClassId over = fixture.fleet().InternClass({}, {{kMemoryBytes, (int64_t{1} << 50) + 2}});
  const ClassId nothing = fixture.fleet().InternClass({}, {});
  Workspace workspace;
  workspace.Load(fixture.fleet().Freeze());
  EXPECT_EQ(workspace.Index(exact, Plane::kNow).fit(0), 3);
  EXPECT_EQ(workspace.Index(over, Plane::kNow).fit(0), 2);
  EXPECT_EQ(workspace.Index(nothing, Plane::kNow).fit(0), ClassIndex::kMaxFit);
}

TEST(WorkspaceTest, LoadsADifferenceAsItLoadsTheWhole) {
  Random random(7);
  FleetFixture fixture;
  for (int n = 0; n < 300; ++n) fixture.AddNode("c", "r", absl::StrCat("n", n), 64000, 8);
  const ShapeId shape = fixture.Flat(fixture.Class(1000, 1), 2, 2);
  Workspace warm;
  std::vector<GangIndex> running;
  for (int round = 0; round < 60; ++round) {
    for (int change = 0; change < 5; ++change) {
      if (running.empty() || random.OneIn(2)) {
        const GangIndex gang = fixture.AddGang(shape);
        const auto node = static_cast<NodeIndex>(random.Below(300));
        if (fixture.fleet().Start(gang, {{node, 0, 2}}, absl::UnixEpoch()).ok()) {
          running.push_back(gang);
        }
      } else {
        fixture.fleet().RemoveGang(running.back());
        running.pop_back();
      }
    }
    if (random.OneIn(10)) fixture.fleet().SetSchedulable(static_cast<NodeIndex>(round), false);
    const auto snapshot = fixture.fleet().Freeze();
    warm.Load(snapshot);
    Workspace cold;
    cold.Load(snapshot);
    const ClassIndex& left = warm.Index(0, Plane::kNow);
    const ClassIndex& right = cold.Index(0, Plane::kNow);
    for (int p = 0; p < 300; ++p) EXPECT_EQ(left.fit(p), right.fit(p));
    // What was tried and never undone is forgotten.
    warm.Take(static_cast<int>(random.Below(300)), 0, 1, Plane::kNow);
  }
}

}  // namespace
}  // namespace capstan::scheduler::round
