#include "libs/mig/layouts.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "libs/mig/packing.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "libs/random/random.h"

namespace capstan::mig {
namespace {

TEST(LayoutsTest, AgreesWithEveryTableOnEveryStateOfEveryModel) {
  for (size_t m = 0; m < DeviceModels().size(); ++m) {
    const Layouts& layouts = Layouts::Of(static_cast<int>(m));
    const StateTable& table = layouts.table();
    ASSERT_EQ(table.model().profiles.size(), DeviceModels()[m].profiles.size());
    for (size_t p = 0; p < DeviceModels()[m].profiles.size(); ++p) {
      EXPECT_EQ(table.model().profiles[p].starts, DeviceModels()[m].profiles[p].starts);
      EXPECT_EQ(table.model().profiles[p].memory_slices,
                DeviceModels()[m].profiles[p].memory_slices);
    }
    for (int s = 0; s < table.size(); ++s) {
      const State state = static_cast<State>(s);
      const uint32_t addable = layouts.Addable(table.Instances(state));
      for (size_t p = 0; p < table.positions().size(); ++p) {
        ASSERT_EQ((addable >> p & 1) != 0, table.Add(state, static_cast<int>(p)).has_value());
      }
      for (size_t p = 0; p < table.model().profiles.size(); ++p) {
        const int profile = static_cast<int>(p);
        ASSERT_EQ(layouts.Room(addable, profile), table.Room(state, profile));
        // Wherever one is put, there is room for one less: what fits is a sum.
        for (size_t at = 0; at < table.positions().size(); ++at) {
          if (table.positions()[at].profile != profile) continue;
          const auto next = table.Add(state, static_cast<int>(at));
          if (!next.has_value()) continue;
          ASSERT_EQ(table.Room(*next, profile), table.Room(state, profile) - 1);
        }
      }
    }
  }
}

TEST(LayoutsTest, CountsInstancesThatStandTwice) {
  Instances instances;
  EXPECT_TRUE(instances.empty());
  instances.Add(3);
  instances.Add(3);
  instances.Add(5);
  EXPECT_EQ(instances.once, 0b101000u);
  EXPECT_EQ(instances.twice, 0b001000u);
  instances.Remove(3);
  EXPECT_EQ(instances.once, 0b101000u);
  EXPECT_EQ(instances.twice, 0u);
  instances.Remove(3);
  instances.Remove(5);
  EXPECT_TRUE(instances.empty());
}

TEST(LayoutsTest, ChoosesAsPackingDoes) {
  const int model = ModelIndex("H100-80GB");
  ASSERT_GE(model, 0);
  const Layouts& layouts = Layouts::Of(model);
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    std::vector<State> states;
    std::vector<Candidate> gpus;
    for (int g = 0; g < 4; ++g) {
      states.push_back(static_cast<State>(random.Below(layouts.table().size())));
      gpus.push_back({model, layouts.table().Instances(states.back())});
    }
    const int profile = static_cast<int>(random.Below(7));
    EXPECT_EQ(ChooseInstance(gpus, {model, profile}), layouts.packing().Choose(states, profile));
  }
}

TEST(LayoutsTest, ChoosesOnlyWhatIsAllowedAndOfTheModel) {
  const int h100 = ModelIndex("H100-80GB");
  const int a100 = ModelIndex("A100-80GB");
  const Layouts& layouts = Layouts::Of(h100);
  const int large = *ParseProfile(DeviceModels()[h100], "3g.40gb");
  const int at_0 = *layouts.table().FindPosition({large, 0});
  const int at_4 = *layouts.table().FindPosition({large, 4});
  EXPECT_EQ(ChooseInstance({Candidate{a100}, Candidate{h100}}, {h100, large}), (Choice{1, at_4}))
      << "3g at 4 leaves four 1g, at 0 three";
  EXPECT_EQ(ChooseInstance({Candidate{h100, 0, uint32_t{1} << at_0}}, {h100, large}),
            (Choice{0, at_0}));
  EXPECT_EQ(
      ChooseInstance({Candidate{h100, uint32_t{1} << at_4, uint32_t{1} << at_4}}, {h100, large}),
      absl::nullopt);
  // Where what stands overlaps, since one is to make way, what is clear of both is taken.
  const int whole =
      *layouts.table().FindPosition({*ParseProfile(DeviceModels()[h100], "4g.40gb"), 0});
  const uint32_t overlapping = uint32_t{1} << at_0 | uint32_t{1} << whole;
  EXPECT_EQ(ChooseInstance({Candidate{h100, overlapping}}, {h100, large}), (Choice{0, at_4}))
      << "beside either of them it may stand";
  EXPECT_EQ(ModelIndex("H100"), -1);
}

}  // namespace
}  // namespace capstan::mig
