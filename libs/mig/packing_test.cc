#include "libs/mig/packing.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "libs/random/random.h"

namespace capstan::mig {
namespace {

class PackingTest : public ::testing::Test {
 protected:
  int Profile(const std::string& name) const { return ParseProfile(table_.model(), name).value(); }
  State With(const std::vector<std::pair<std::string, int>>& instances) const {
    std::vector<Position> positions;
    for (const auto& [name, start] : instances) positions.push_back({Profile(name), start});
    return table_.FromPositions(positions).value();
  }
  Position Chosen(const Choice& choice) const { return table_.positions()[choice.position]; }
  DemandMix Only(const std::string& name) const {
    DemandMix demand{std::vector<int64_t>(table_.model().profiles.size())};
    demand.weights[Profile(name)] = 1;
    return demand;
  }

  StateTable table_{FindDeviceModel("A100-40GB").value()};
  Packing packing_{&table_, EvenDemand(table_.model())};
};

// The reference: 3g at 0 leaves three 1g, at 4 leaves four.
TEST_F(PackingTest, ThreeGoesToFourFirst) {
  EXPECT_EQ(Chosen(packing_.Choose({kEmpty}, Profile("3g.20gb")).value()),
            (Position{Profile("3g.20gb"), 4}));
  EXPECT_EQ(Chosen(FirstFit(table_, {kEmpty}, Profile("3g.20gb")).value()).start, 0);
}

// First fit puts 1g at 0 or 1 and kills 4g; where large ones are asked for, the strategy does not.
TEST_F(PackingTest, OneKeepsFourPossible) {
  const Packing large(&table_, Only("4g.20gb"));
  const Choice choice = large.Choose({kEmpty}, Profile("1g.5gb")).value();
  const State after = table_.Add(kEmpty, choice.position).value();
  EXPECT_EQ(table_.Room(after, Profile("4g.20gb")), 1);
  const Choice first = FirstFit(table_, {kEmpty}, Profile("1g.5gb")).value();
  EXPECT_EQ(table_.Room(table_.Add(kEmpty, first.position).value(), Profile("4g.20gb")), 0);
}

TEST_F(PackingTest, WholeGpusStayWholeWhileOthersHaveRoom) {
  const std::vector<State> gpus = {kEmpty, With({{"3g.20gb", 4}}), kEmpty};
  EXPECT_EQ(packing_.Choose(gpus, Profile("1g.5gb"))->gpu, 1U);
  EXPECT_EQ(FirstFit(table_, gpus, Profile("1g.5gb"))->gpu, 0U);
}

// 1g.10gb is the only one but 3g that can use slice 7.
TEST_F(PackingTest, DoubleMemoryGoesWhereTheLastSliceIsStranded) {
  EXPECT_EQ(Chosen(packing_.Choose({kEmpty}, Profile("1g.10gb")).value()).start, 6);
}

TEST_F(PackingTest, FullGpusRefuse) {
  const std::vector<State> gpus = {With({{"7g.40gb", 0}}), With({{"4g.20gb", 0}, {"3g.20gb", 4}})};
  for (int p = 0; p < static_cast<int>(table_.model().profiles.size()); ++p) {
    EXPECT_FALSE(packing_.Choose(gpus, p).has_value());
    EXPECT_FALSE(FirstFit(table_, gpus, p).has_value());
  }
  EXPECT_FALSE(packing_.Choose({}, 0).has_value());
}

// Random placing and freeing: judged by slices and counts, without the table.
TEST_F(PackingTest, NeverAnOverlapNorBeyondTheBounds) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    for (const DeviceModel& model : DeviceModels()) {
      if (model.name != "A30-24GB" && model.name != "H200-141GB") continue;
      const StateTable table(model);
      const Packing packing(&table, EvenDemand(model));
      std::vector<std::vector<Choice>> runs;
      for (int run = 0; run < 2; ++run) {
        Random random(seed);
        std::vector<State> gpus(3);
        std::vector<Choice> placed;
        std::vector<Choice>& log = runs.emplace_back();
        for (int step = 0; step < 300; ++step) {
          if (!placed.empty() && random.OneIn(3)) {
            const size_t which = random.Below(placed.size());
            const Choice gone = placed[which];
            placed.erase(placed.begin() + static_cast<std::ptrdiff_t>(which));
            gpus[gone.gpu] = table.Remove(gpus[gone.gpu], gone.position);
            continue;
          }
          const int profile = static_cast<int>(random.Below(model.profiles.size()));
          const auto choice =
              random.OneIn(4) ? FirstFit(table, gpus, profile) : packing.Choose(gpus, profile);
          if (!choice.has_value()) continue;
          gpus[choice->gpu] = table.Add(gpus[choice->gpu], choice->position).value();
          placed.push_back(*choice);
          log.push_back(*choice);
        }
        std::set<std::pair<size_t, int>> slices;
        std::map<std::pair<size_t, int>, int> count;
        std::map<size_t, int> compute;
        std::map<size_t, int> media;
        for (const Choice& choice : placed) {
          const Position& position = table.positions()[choice.position];
          const auto& profile = model.profiles[position.profile];
          for (int slice = 0; slice < profile.memory_slices; ++slice) {
            ASSERT_TRUE(slices.emplace(choice.gpu, position.start + slice).second);
          }
          ASSERT_LE(position.start + profile.memory_slices, model.memory_slices);
          ASSERT_LE(++count[std::make_pair(choice.gpu, position.profile)], profile.most);
          ASSERT_LE(compute[choice.gpu] += profile.compute_slices, model.compute_slices);
          ASSERT_LE(media[choice.gpu] += profile.media_extensions ? 1 : 0, 1);
        }
      }
      ASSERT_EQ(runs[0], runs[1]);
    }
  }
}

}  // namespace
}  // namespace capstan::mig
