// Against everything that could have been done instead, on one GPU in every state and on two.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "libs/mig/packing.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "libs/random/random.h"

namespace capstan::mig {
namespace {

// Where an instance goes on one GPU.
using Policy = std::function<absl::optional<int>(State, int profile)>;

Policy Lowest(const StateTable& table) {
  return [&table](State state, int profile) -> absl::optional<int> {
    const auto choice = FirstFit(table, {state}, profile);
    if (!choice.has_value()) return absl::nullopt;
    return choice->position;
  };
}

Policy Least(const Packing& packing) {
  return [&packing](State state, int profile) { return packing.Best(state, profile); };
}

std::vector<DemandMix> Demands(const DeviceModel& model) {
  std::vector<DemandMix> demands = {EvenDemand(model)};
  Random random(11);
  for (int i = 0; i < 6; ++i) {
    DemandMix demand;
    for (size_t p = 0; p < model.profiles.size(); ++p) {
      demand.weights.push_back(static_cast<int64_t>(random.Below(5)));
    }
    demands.push_back(demand);
  }
  return demands;
}

TEST(PackingOracleTest, NoPositionKeepsAllTheChosenOneKeepsAndMore) {
  int64_t decisions = 0;
  int64_t with_best = 0;
  for (const char* name : {"A30-24GB", "H100-80GB"}) {
    const StateTable table(FindDeviceModel(name).value());
    for (const DemandMix& demand : Demands(table.model())) {
      const Packing packing(&table, demand);
      for (int s = 0; s < table.size(); ++s) {
        const auto state = static_cast<State>(s);
        for (int p = 0; p < static_cast<int>(table.model().profiles.size()); ++p) {
          const absl::optional<int> chosen = packing.Best(state, p);
          ASSERT_EQ(chosen.has_value(), table.Room(state, p) > 0);
          if (!chosen.has_value()) continue;
          ++decisions;
          const State kept = table.Add(state, *chosen).value();
          std::vector<State> others;
          for (size_t i = 0; i < table.positions().size(); ++i) {
            if (table.positions()[i].profile != p) continue;
            const auto other = table.Add(state, static_cast<int>(i));
            if (other.has_value()) others.push_back(*other);
          }
          for (const State other : others) {
            ASSERT_FALSE(table.Includes(other, kept) && !table.Includes(kept, other));
          }
          // A position that keeps all that any other keeps is as good as the chosen one.
          for (const State best : others) {
            const bool keeps_all =
                std::all_of(others.begin(), others.end(),
                            [&table, best](State other) { return table.Includes(best, other); });
            if (!keeps_all) continue;
            ++with_best;
            ASSERT_TRUE(table.Includes(kept, best));
            break;
          }
        }
      }
    }
  }
  std::printf("decisions %ld, with one position that keeps all %ld\n", static_cast<long>(decisions),
              static_cast<long>(with_best));
  EXPECT_LT(with_best, decisions);
}

struct Lost {
  int64_t sequences = 0;
  // Of these, sequences that fit whole but in which the policy had to refuse one.
  int64_t lost = 0;
};

// Every state, every sequence of profiles of `length` that fits if all of it is known beforehand.
Lost CountLost(const StateTable& table, const Policy& policy, int length) {
  Lost result;
  const int profiles = static_cast<int>(table.model().profiles.size());
  std::vector<int> count(static_cast<size_t>(profiles));
  const std::function<void(State, absl::optional<State>, int)> walk =
      [&](State from, const absl::optional<State>& at, int left) {
        if (left == 0) {
          ++result.sequences;
          if (!at.has_value()) ++result.lost;
          return;
        }
        for (int p = 0; p < profiles; ++p) {
          ++count[static_cast<size_t>(p)];
          if (table.Fits(from, count)) {
            absl::optional<State> next;
            if (at.has_value()) {
              const absl::optional<int> position = policy(*at, p);
              if (position.has_value()) next = table.Add(*at, *position);
            }
            walk(from, next, left - 1);
          }
          --count[static_cast<size_t>(p)];
        }
      };
  for (int s = 0; s < table.size(); ++s) walk(static_cast<State>(s), static_cast<State>(s), length);
  return result;
}

TEST(PackingOracleTest, SequencesLostOnOneGpuAreFewerThanFirstFits) {
  for (const char* name : {"A30-24GB", "H100-80GB"}) {
    const StateTable table(FindDeviceModel(name).value());
    const Packing packing(&table, EvenDemand(table.model()));
    for (int length = 1; length <= 4; ++length) {
      const Lost ours = CountLost(table, Least(packing), length);
      const Lost first = CountLost(table, Lowest(table), length);
      std::printf("%s length %d: of %ld sequences that fit, packing loses %ld, first fit %ld\n",
                  name, length, static_cast<long>(ours.sequences), static_cast<long>(ours.lost),
                  static_cast<long>(first.lost));
      EXPECT_EQ(ours.sequences, first.sequences);
      EXPECT_LE(ours.lost, first.lost);
      if (length == 1) {
        EXPECT_EQ(ours.lost, 0);
      }
    }
  }
}

// Expected memory slices placed from an empty GPU until the first refusal, each request drawn from
// `demand`; the best that any policy reaches that knows the mix but not the sequence if `policy` is
// empty.
double UntilRefusal(const StateTable& table, const DemandMix& demand, const Policy& policy) {
  double total = 0;
  for (const int64_t weight : demand.weights) total += static_cast<double>(weight);
  std::vector<double> expected(static_cast<size_t>(table.size()));
  for (int s = table.size() - 1; s >= 0; --s) {
    const auto state = static_cast<State>(s);
    for (size_t p = 0; p < demand.weights.size(); ++p) {
      double best = -1;
      for (size_t i = 0; i < table.positions().size(); ++i) {
        if (table.positions()[i].profile != static_cast<int>(p)) continue;
        if (policy && policy(state, static_cast<int>(p)) != static_cast<int>(i)) continue;
        const auto next = table.Add(state, static_cast<int>(i));
        if (next.has_value()) best = std::max(best, expected[*next]);
      }
      if (best < 0) continue;
      expected[state] += static_cast<double>(demand.weights[p]) / total *
                         (table.model().profiles[p].memory_slices + best);
    }
  }
  return expected[kEmpty];
}

TEST(PackingOracleTest, ExpectedPlacementsAreWithinAFewPerCentOfTheBestPolicy) {
  for (const char* name : {"A30-24GB", "H100-80GB"}) {
    const StateTable table(FindDeviceModel(name).value());
    double worst = 1;
    double worst_first = 1;
    for (const DemandMix& demand : Demands(table.model())) {
      const Packing packing(&table, demand);
      const double best = UntilRefusal(table, demand, {});
      const double ours = UntilRefusal(table, demand, Least(packing));
      const double first = UntilRefusal(table, demand, Lowest(table));
      ASSERT_LE(ours, best + 1e-9);
      worst = std::min(worst, ours / best);
      worst_first = std::min(worst_first, first / best);
    }
    std::printf(
        "%s: of the best policy's slices until the first refusal, packing %.4f, first fit "
        "%.4f at worst\n",
        name, worst, worst_first);
    EXPECT_GT(worst, 0.95);
    EXPECT_GE(worst, worst_first);
  }
}

// Whether the sequence can be placed on these GPUs at all, by trying everything.
bool CanPlace(const StateTable& table, std::vector<State>& gpus, const std::vector<int>& sequence,
              size_t from) {
  if (from == sequence.size()) return true;
  for (State& gpu : gpus) {
    const State before = gpu;
    for (size_t i = 0; i < table.positions().size(); ++i) {
      if (table.positions()[i].profile != sequence[from]) continue;
      const auto next = table.Add(before, static_cast<int>(i));
      if (!next.has_value()) continue;
      gpu = *next;
      const bool placed = CanPlace(table, gpus, sequence, from + 1);
      gpu = before;
      if (placed) return true;
    }
  }
  return false;
}

bool Places(const StateTable& table, std::vector<State> gpus, const std::vector<int>& sequence,
            const std::function<absl::optional<Choice>(const std::vector<State>&, int)>& choose) {
  for (const int profile : sequence) {
    const absl::optional<Choice> choice = choose(gpus, profile);
    if (!choice.has_value()) return false;
    gpus[choice->gpu] = table.Add(gpus[choice->gpu], choice->position).value();
  }
  return true;
}

TEST(PackingOracleTest, SequencesLostOnTwoGpusAreFewerThanFirstFits) {
  const StateTable table(FindDeviceModel("H100-80GB").value());
  const Packing packing(&table, EvenDemand(table.model()));
  int64_t fit = 0;
  int64_t lost = 0;
  int64_t lost_first = 0;
  Random random(5);
  for (int i = 0; i < 4000; ++i) {
    std::vector<State> gpus(2);
    for (State& gpu : gpus) gpu = static_cast<State>(random.Below(table.size()));
    if (random.OneIn(2)) gpus[random.Below(2)] = kEmpty;
    std::vector<int> sequence(2 + random.Below(4));
    for (int& profile : sequence) {
      profile = static_cast<int>(random.Below(table.model().profiles.size()));
    }
    if (!CanPlace(table, gpus, sequence, 0)) continue;
    ++fit;
    lost += Places(table, gpus, sequence,
                   [&packing](const std::vector<State>& at, int profile) {
                     return packing.Choose(at, profile);
                   })
                ? 0
                : 1;
    lost_first += Places(table, gpus, sequence,
                         [&table](const std::vector<State>& at, int profile) {
                           return FirstFit(table, at, profile);
                         })
                      ? 0
                      : 1;
  }
  std::printf("two GPUs: of %ld sequences that fit, packing loses %ld, first fit %ld\n",
              static_cast<long>(fit), static_cast<long>(lost), static_cast<long>(lost_first));
  EXPECT_GT(fit, 300);
  EXPECT_LT(lost, lost_first);
}

}  // namespace
}  // namespace capstan::mig
