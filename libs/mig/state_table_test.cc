#include "libs/mig/state_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libs/mig/profiles.h"

namespace capstan::mig {
namespace {

DeviceModel Model(const std::string& name) { return FindDeviceModel(name).value(); }

DeviceModel WithoutMedia() { return WithoutProfiles(Model("A100-40GB"), {"1g.5gb+me"}).value(); }
DeviceModel Classic() { return WithoutProfiles(WithoutMedia(), {"1g.10gb"}).value(); }

// Where "3g.20gb@4" stands.
int At(const StateTable& table, const std::string& text) {
  const size_t at = text.find('@');
  const int profile = ParseProfile(table.model(), text.substr(0, at)).value();
  return table.FindPosition({profile, std::stoi(text.substr(at + 1))}).value();
}

State With(const StateTable& table, const std::vector<std::string>& instances) {
  State state = kEmpty;
  for (const std::string& instance : instances) {
    state = table.Add(state, At(table, instance)).value();
  }
  return state;
}

bool Takes(const StateTable& table, State state, const std::string& instance) {
  return table.Add(state, At(table, instance)).has_value();
}

int RoomFor(const StateTable& table, State state, const std::string& profile) {
  return table.Room(state, ParseProfile(table.model(), profile).value());
}

struct Counts {
  int states = 0;
  int maximal = 0;
  int multisets = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

Counts Count(const StateTable& table) {
  Counts counts;
  std::set<std::vector<int>> multisets;
  for (int s = 0; s < table.size(); ++s) {
    const auto state = static_cast<State>(s);
    ++counts.states;
    if (!table.Maximal(state)) continue;
    ++counts.maximal;
    std::vector<int> profiles(table.model().profiles.size());
    for (size_t i = 0; i < table.positions().size(); ++i) {
      if ((table.Instances(state) >> i & 1) != 0) ++profiles[table.positions()[i].profile];
    }
    multisets.insert(profiles);
  }
  counts.multisets = static_cast<int>(multisets.size());
  return counts;
}

// The same numbers by another road: every choice, slice by slice, of what begins there. Knows of
// the table only sizes and starts.
Counts CountBySlices(const DeviceModel& model) {
  using Layout = std::vector<std::pair<int, int>>;
  std::set<Layout> layouts;
  const auto legal = [&model](const Layout& layout) {
    std::vector<int> used(model.memory_slices);
    std::vector<int> count(model.profiles.size());
    int compute = 0;
    int media = 0;
    for (const auto& [start, profile] : layout) {
      const Profile& kind = model.profiles[profile];
      for (int slice = start; slice < start + kind.memory_slices; ++slice) {
        if (slice >= model.memory_slices || used[slice]++ > 0) return false;
      }
      compute += kind.compute_slices;
      media += kind.media_extensions ? 1 : 0;
      if (++count[profile] > kind.most) return false;
    }
    return compute <= model.compute_slices && media <= 1;
  };
  const auto walk = [&](const auto& self, int slice, const Layout& layout) -> void {
    if (slice == model.memory_slices) {
      layouts.insert(layout);
      return;
    }
    self(self, slice + 1, layout);
    for (size_t p = 0; p < model.profiles.size(); ++p) {
      if ((model.profiles[p].starts >> slice & 1) == 0) continue;
      Layout longer = layout;
      longer.emplace_back(slice, static_cast<int>(p));
      if (legal(longer)) self(self, slice + 1, longer);
    }
  };
  walk(walk, 0, {});
  Counts counts;
  std::set<std::vector<int>> multisets;
  for (const Layout& layout : layouts) {
    ++counts.states;
    bool maximal = true;
    std::vector<int> count(model.profiles.size());
    for (const auto& [start, profile] : layout) ++count[profile];
    for (size_t p = 0; p < model.profiles.size(); ++p) {
      for (int start = 0; start < model.memory_slices; ++start) {
        if ((model.profiles[p].starts >> start & 1) == 0) continue;
        Layout longer = layout;
        longer.emplace_back(start, static_cast<int>(p));
        if (legal(longer)) maximal = false;
      }
    }
    if (!maximal) continue;
    ++counts.maximal;
    multisets.insert(count);
  }
  counts.multisets = static_cast<int>(multisets.size());
  return counts;
}

TEST(ReferenceVectorsTest, StatesWithoutMediaAndDoubleMemory) {
  EXPECT_EQ(Count(StateTable(Classic())), (Counts{298, 19, 14}));
}

TEST(ReferenceVectorsTest, StatesWithDoubleMemory) {
  EXPECT_EQ(Count(StateTable(WithoutMedia())), (Counts{723, 78, 38}));
}

TEST(ReferenceVectorsTest, OneA100Has25Placements) {
  EXPECT_EQ(StateTable(Model("A100-40GB")).positions().size(), 25U);
}

TEST(ReferenceVectorsTest, TwoThreesFillMemoryThoughOneComputeSliceIdles) {
  const StateTable table(Model("A100-40GB"));
  const State state = With(table, {"3g.20gb@0", "3g.20gb@4"});
  EXPECT_TRUE(table.Maximal(state));
  EXPECT_EQ(table.FreeMemorySlices(state), 0);
}

TEST(ReferenceVectorsTest, FourAndThreeIsLegal) {
  const StateTable table(Model("A100-40GB"));
  EXPECT_TRUE(table.Maximal(With(table, {"4g.20gb@0", "3g.20gb@4"})));
}

TEST(ReferenceVectorsTest, OneAtOneKillsWhatBeginsAtZero) {
  const StateTable table(Model("A100-40GB"));
  const State state = With(table, {"1g.5gb@1"});
  for (const char* killed : {"2g.10gb@0", "3g.20gb@0", "4g.20gb@0", "7g.40gb@0"}) {
    EXPECT_FALSE(Takes(table, state, killed)) << killed;
  }
  EXPECT_TRUE(Takes(table, state, "3g.20gb@4"));
}

TEST(ReferenceVectorsTest, SevenOnesStrandTheLastSlice) {
  const StateTable table(Model("A100-40GB"));
  State state = kEmpty;
  for (int start = 0; start < 7; ++start) {
    state = table.Add(state, At(table, "1g.5gb@" + std::to_string(start))).value();
  }
  EXPECT_TRUE(table.Maximal(state));
  EXPECT_EQ(table.FreeMemorySlices(state), 1);
}

TEST(ReferenceVectorsTest, ThreeAtFourLeavesOneMoreThanThreeAtZero) {
  const StateTable table(Model("A100-40GB"));
  EXPECT_EQ(RoomFor(table, With(table, {"3g.20gb@0"}), "1g.5gb"), 3);
  EXPECT_EQ(RoomFor(table, With(table, {"3g.20gb@4"}), "1g.5gb"), 4);
}

TEST(ReferenceVectorsTest, EightGpusTake56OfOneSlice) {
  const StateTable table(Model("A100-40GB"));
  EXPECT_EQ(8 * RoomFor(table, kEmpty, "1g.5gb"), 56);
}

// A list of 12 known layouts (nebuly-ai/nos) lacks these two.
TEST(ReferenceVectorsTest, LayoutsThatOtherListsLack) {
  const StateTable table(Classic());
  EXPECT_TRUE(table.Fits(kEmpty, {0, 0, 1, 1, 0}));
  EXPECT_TRUE(table.Fits(kEmpty, {4, 0, 1, 0, 0}));
}

// go-nvml's mock gives 3g three slices: then one 1g at 3 and at 7 would stand beside two of them.
TEST(ReferenceVectorsTest, NothingStandsBesideTwoThrees) {
  const StateTable table(Classic());
  EXPECT_FALSE(table.Fits(kEmpty, {1, 0, 2, 0, 0}));
  EXPECT_FALSE(Takes(table, With(table, {"3g.20gb@0"}), "1g.5gb@3"));
}

TEST(StateTableTest, StatesOfWholeTables) {
  EXPECT_EQ(Count(StateTable(Model("H100-80GB"))), (Counts{2319, 239, 64}));
  EXPECT_EQ(Count(StateTable(Model("A30-24GB"))), (Counts{76, 17, 8}));
}

TEST(StateTableTest, SecondCountBySlicesAgrees) {
  for (const DeviceModel& model : DeviceModels()) {
    EXPECT_EQ(Count(StateTable(model)), CountBySlices(model)) << model.name;
  }
  EXPECT_EQ(Count(StateTable(Classic())), CountBySlices(Classic()));
}

// What repartitioning relies on: instances that can stand beside each other two by two can stand
// together.
TEST(StateTableTest, LegalIsAMatterOfPairs) {
  for (const DeviceModel& model : DeviceModels()) {
    const StateTable table(model);
    for (int s = 0; s < table.size(); ++s) {
      const auto state = static_cast<State>(s);
      for (size_t i = 0; i < table.positions().size(); ++i) {
        if ((table.Instances(state) >> i & 1) != 0) continue;
        bool beside_each = true;
        for (size_t j = 0; j < table.positions().size(); ++j) {
          if ((table.Instances(state) >> j & 1) == 0) continue;
          const uint32_t pair = uint32_t{1} << i | uint32_t{1} << j;
          beside_each = beside_each && table.Find(pair).has_value();
        }
        ASSERT_EQ(table.Add(state, static_cast<int>(i)).has_value(), beside_each) << model.name;
      }
    }
  }
}

TEST(StateTableTest, MediaEnginesStandOnce) {
  const StateTable small(Model("A30-24GB"));
  const State state = With(small, {"1g.6gb+me@0"});
  EXPECT_EQ(RoomFor(small, state, "1g.6gb+me"), 0);
  EXPECT_EQ(RoomFor(small, state, "2g.12gb+me"), 0);
  EXPECT_EQ(RoomFor(small, state, "1g.6gb"), 3);
}

TEST(StateTableTest, AddAndRemoveAreInverse) {
  for (const char* name : {"A30-24GB", "H100-80GB"}) {
    const StateTable table(Model(name));
    for (int s = 0; s < table.size(); ++s) {
      const auto state = static_cast<State>(s);
      ASSERT_EQ(table.Find(table.Instances(state)).value(), state);
      for (int i = 0; i < static_cast<int>(table.positions().size()); ++i) {
        const auto next = table.Add(state, i);
        if (!next.has_value()) continue;
        ASSERT_EQ(table.Remove(*next, i), state);
        ASSERT_TRUE(table.Includes(state, *next));
        ASSERT_FALSE(table.Includes(*next, state));
        ASSERT_GT(table.Futures(state), table.Futures(*next));
      }
    }
  }
}

TEST(StateTableTest, LayoutsOfNodesAreChecked) {
  const StateTable table(Model("H100-80GB"));
  const int three = ParseProfile(table.model(), "3g.40gb").value();
  const int one = ParseProfile(table.model(), "1g.10gb").value();
  EXPECT_EQ(table.FromPositions({{three, 4}, {one, 0}}).value(),
            With(table, {"1g.10gb@0", "3g.40gb@4"}));
  EXPECT_THAT(std::string(table.FromPositions({{three, 2}}).status().message()),
              ::testing::HasSubstr("found 3g.40gb at memory slice 2, where none may begin"));
  EXPECT_THAT(std::string(table.FromPositions({{one, 3}, {three, 0}}).status().message()),
              ::testing::HasSubstr("instances[1]: found 3g.40gb at memory slice 0, which cannot"));
  EXPECT_FALSE(table.FromPositions({{99, 0}}).ok());
}

}  // namespace
}  // namespace capstan::mig
