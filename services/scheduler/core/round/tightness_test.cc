// How tightly gangs of one class stand, against all sets of domains that might hold them.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/scheduler/core/round/fleet_fixture.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler::round {
namespace {

constexpr Level kLevelsHere[] = {Level::kCluster, Level::kRow, Level::kRack, Level::kNvlinkDomain,
                                 Level::kHost};

struct Tally {
  int placed = 0;
  int in_several = 0;
  int impossible = 0;
};

// At most twelve Nodes of one Cluster in a row, a rack and an NVLink domain each, with a gang of
// equal Tasks that prefers a level.
class TightnessWorld {
 public:
  explicit TightnessWorld(uint64_t seed) : random_(seed), seed_(seed) {
    for (int row = 0; row < 2; ++row) {
      for (int rack = 0; rack < 2; ++rack) {
        for (int nvlink = 0; nvlink < 2; ++nvlink) {
          const int hosts = static_cast<int>(random_.Between(0, 2));
          for (int host = 0; host < hosts && fits_.size() < 12; ++host) {
            AddNode(absl::StrCat(row), absl::StrCat(row, rack), absl::StrCat(row, rack, nvlink));
          }
        }
      }
    }
    preferred_ = kLevelsHere[random_.Between(2, 4)];
    if (random_.OneIn(3)) required_ = Level::kRow;
    count_ = static_cast<int>(random_.Between(1, 12));
  }

  void Check(Tally& tally) {
    const ShapeId shape =
        fixture_.Flat(fixture_.Class(1000, 1), count_, count_, required_, preferred_);
    Workspace workspace;
    workspace.Load(fixture_.fleet().Freeze());
    const auto placed =
        GangPlacer(&workspace, seed_).Place(fixture_.fleet().shape(shape), Plane::kNow);
    const Level outer = required_.value_or(Level::kCluster);
    if (!LeastLeftover(outer).has_value()) {
      ++tally.impossible;
      EXPECT_FALSE(placed.has_value());
      return;
    }
    ASSERT_TRUE(placed.has_value());
    ++tally.placed;
    std::set<size_t> used;
    for (const TaskRun& run : *placed) used.insert(run.node);
    // The narrowest level of which one domain holds all of it.
    Level level = outer;
    for (const Level one : kLevelsHere) {
      if (one > outer && one <= preferred_ && LeastLeftover(one).has_value()) level = one;
    }
    const std::set<std::string> domains = DomainsOf(used, level);
    ASSERT_EQ(domains.size(), 1u) << "one domain of level " << static_cast<int>(level) << " does";
    EXPECT_EQ(FitIn(level, *domains.begin()) - count_, *LeastLeftover(level));
    const int fewest = FewestDomains(preferred_, level, *domains.begin());
    EXPECT_EQ(static_cast<int>(DomainsOf(used, preferred_).size()), fewest);
    if (fewest > 1) ++tally.in_several;
  }

 private:
  using Names = std::map<Level, std::string>;

  void AddNode(const std::string& row, const std::string& rack, const std::string& nvlink) {
    const std::string host = absl::StrCat("h", fits_.size());
    const int64_t gpus = random_.Between(0, 4);
    NodeTraits traits = fixture_.Traits("c", rack, host, 64000, gpus);
    traits.path[static_cast<int>(Level::kRow)] = row;
    traits.path[static_cast<int>(Level::kNvlinkDomain)] = nvlink;
    fixture_.fleet().AddNode(traits);
    fits_.push_back(gpus);
    names_.push_back({{Level::kCluster, "c"},
                      {Level::kRow, row},
                      {Level::kRack, rack},
                      {Level::kNvlinkDomain, nvlink},
                      {Level::kHost, host}});
  }

  std::set<std::string> DomainsOf(const std::set<size_t>& nodes, Level level) const {
    std::set<std::string> domains;
    for (const size_t node : nodes) domains.insert(names_[node].at(level));
    return domains;
  }

  int64_t FitIn(Level level, const std::string& domain) const {
    int64_t fit = 0;
    for (size_t n = 0; n < fits_.size(); ++n) {
      if (names_[n].at(level) == domain) fit += fits_[n];
    }
    return fit;
  }

  // Of the level's domains that hold all of it.
  absl::optional<int64_t> LeastLeftover(Level level) const {
    absl::optional<int64_t> least;
    for (const Names& names : names_) {
      const int64_t leftover = FitIn(level, names.at(level)) - count_;
      if (leftover >= 0 && (!least.has_value() || leftover < *least)) least = leftover;
    }
    return least;
  }

  // Of all sets of domains of the level within the given one, the smallest that holds all of it.
  int FewestDomains(Level level, Level outer, const std::string& within) const {
    std::set<std::string> domains;
    for (const Names& names : names_) {
      if (names.at(outer) == within) domains.insert(names.at(level));
    }
    const std::vector<std::string> all(domains.begin(), domains.end());
    int fewest = std::numeric_limits<int>::max();
    for (uint32_t set = 1; set < (1u << all.size()); ++set) {
      int64_t fit = 0;
      int size = 0;
      for (size_t d = 0; d < all.size(); ++d) {
        if ((set >> d & 1) == 0) continue;
        fit += FitIn(level, all[d]);
        ++size;
      }
      if (fit >= count_) fewest = std::min(fewest, size);
    }
    return fewest;
  }

  Random random_;
  const uint64_t seed_;
  FleetFixture fixture_;
  // By node: Tasks that it takes, and its domains.
  std::vector<int64_t> fits_;
  std::vector<Names> names_;
  Level preferred_ = Level::kRack;
  absl::optional<Level> required_;
  int count_ = 0;
};

// Nodes that say nothing of the required level are no place for it, however well a rack of theirs
// would hold it.
TEST(TightnessTest, WhatIsPreferredDoesNotLeadOutOfWhatIsRequired) {
  FleetFixture fixture;
  const auto add = [&fixture](const std::string& row, const std::string& rack, int64_t gpus) {
    NodeTraits traits = fixture.Traits("c", rack, absl::StrCat("h", rack), 64000, gpus);
    traits.path[static_cast<int>(Level::kRow)] = row;
    return fixture.fleet().AddNode(traits);
  };
  add("", "r0", 4);
  add("a", "r1", 2);
  add("a", "r2", 2);
  const NodeIndex wide = add("b", "r3", 6);
  const ShapeId shape = fixture.Flat(fixture.Class(1000, 1), 4, 4, Level::kRow, Level::kRack);
  Workspace workspace;
  workspace.Load(fixture.fleet().Freeze());
  const auto placed = GangPlacer(&workspace, 0).Place(fixture.fleet().shape(shape), Plane::kNow);
  EXPECT_EQ(placed, (std::vector<TaskRun>{{wide, 0, 4}}));
}

TEST(TightnessTest, InTheNarrowestDomainThatHoldsItWithLeastLeftOverElseInTheFewest) {
  Tally tally;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    TightnessWorld(seed).Check(tally);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(tally.placed, 2000);
  EXPECT_GT(tally.in_several, 500);
  EXPECT_GT(tally.impossible, 300);
}

}  // namespace
}  // namespace capstan::scheduler::round
