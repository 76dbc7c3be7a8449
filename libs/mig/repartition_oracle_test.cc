// Plans against every end that there could be, and random life under them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "libs/mig/packing.h"
#include "libs/mig/plan_judge.h"
#include "libs/mig/profiles.h"
#include "libs/mig/repartition.h"
#include "libs/mig/state_table.h"
#include "libs/random/random.h"

namespace capstan::mig {
namespace {

// The cost of the cheapest plan, over every fate of every gang and every pair of legal states in
// which one or two GPUs could end. Absent if there is none.
class Oracle {
 public:
  explicit Oracle(const StateTable& table) : table_(table) {
    for (int s = 0; s < table.size(); ++s) {
      std::vector<int>& count = counts_.emplace_back(table.model().profiles.size());
      for (size_t i = 0; i < table.positions().size(); ++i) {
        if ((table.Instances(static_cast<State>(s)) >> i & 1) != 0) {
          ++count[static_cast<size_t>(table.positions()[i].profile)];
        }
      }
    }
  }

  absl::optional<int64_t> Cheapest(const RepartitionRequest& request) const {
    int64_t best = std::numeric_limits<int64_t>::max();
    std::vector<int> fates(request.gangs.size());
    Try(request, 0, 0, fates, best);
    if (best == std::numeric_limits<int64_t>::max()) return absl::nullopt;
    return best;
  }

 private:
  void Try(const RepartitionRequest& request, size_t gang, int64_t cost, std::vector<int>& fates,
           int64_t& best) const {
    if (cost >= best) return;
    if (gang == fates.size()) {
      Finish(request, cost, fates, best);
      return;
    }
    fates[gang] = 0;
    Try(request, gang + 1, cost, fates, best);
    fates[gang] = 1;
    const HoldingGang& of = request.gangs[gang];
    if (of.move_cost) Try(request, gang + 1, cost + *of.move_cost, fates, best);
    fates[gang] = 2;
    if (of.evict_cost) Try(request, gang + 1, cost + *of.evict_cost, fates, best);
  }

  void Finish(const RepartitionRequest& request, int64_t cost, const std::vector<int>& fates,
              int64_t& best) const {
    std::vector<uint32_t> exist(request.gpus);
    std::vector<uint32_t> kept(request.gpus);
    std::vector<int> needed(table_.model().profiles.size());
    for (const int profile : request.wanted) ++needed[static_cast<size_t>(profile)];
    for (const Instance& instance : request.instances) {
      const uint32_t bit = uint32_t{1} << instance.place.position;
      exist[instance.place.gpu] |= bit;
      if (instance.holder < 0) continue;
      const int fate = fates[static_cast<size_t>(instance.holder)];
      const int profile = table_.positions()[static_cast<size_t>(instance.place.position)].profile;
      if (fate == 0) kept[instance.place.gpu] |= bit;
      if (fate < 2) ++needed[static_cast<size_t>(profile)];
    }
    for (int a = 0; a < table_.size(); ++a) {
      const uint32_t at_a = table_.Instances(static_cast<State>(a));
      if ((at_a & kept[0]) != kept[0]) continue;
      const int64_t cost_a = cost + request.act_cost * Differ(at_a, exist[0]);
      if (cost_a >= best) continue;
      for (int b = 0; b < (request.gpus == 1 ? 1 : table_.size()); ++b) {
        const uint32_t at_b = table_.Instances(static_cast<State>(b));
        int64_t total = cost_a;
        if (request.gpus > 1) {
          if ((at_b & kept[1]) != kept[1]) continue;
          total += request.act_cost * Differ(at_b, exist[1]);
        }
        if (total >= best) continue;
        bool enough = true;
        for (size_t p = 0; p < needed.size(); ++p) {
          enough =
              enough &&
              counts_[static_cast<size_t>(a)][p] + counts_[static_cast<size_t>(b)][p] >= needed[p];
        }
        if (enough) best = total;
      }
    }
  }

  static int64_t Differ(uint32_t a, uint32_t b) {
    return static_cast<int64_t>(__builtin_popcount(a ^ b));
  }

  const StateTable& table_;
  std::vector<std::vector<int>> counts_;
};

RepartitionRequest Draw(const StateTable& table, size_t gpus, Random& random) {
  RepartitionRequest request;
  request.gpus = gpus;
  request.act_cost = random.Between(0, 3);
  const int gangs = static_cast<int>(random.Between(1, 4));
  for (int i = 0; i < gangs; ++i) {
    HoldingGang gang;
    const int64_t lost = random.Between(0, 20);
    if (!random.OneIn(4)) gang.move_cost = lost;
    if (!random.OneIn(4)) gang.evict_cost = lost + random.Between(0, 10);
    request.gangs.push_back(gang);
  }
  for (size_t gpu = 0; gpu < gpus; ++gpu) {
    const auto state = static_cast<State>(random.Below(static_cast<uint64_t>(table.size())));
    for (int i = 0; i < static_cast<int>(table.positions().size()); ++i) {
      if ((table.Instances(state) >> i & 1) == 0) continue;
      const int holder =
          random.OneIn(3) ? kNobody : static_cast<int>(random.Below(static_cast<uint64_t>(gangs)));
      request.instances.push_back({{gpu, i}, holder});
    }
  }
  const int64_t wanted = random.Between(1, 2);
  for (int64_t i = 0; i < wanted; ++i) {
    request.wanted.push_back(static_cast<int>(random.Below(table.model().profiles.size())));
  }
  return request;
}

struct Result {
  int64_t possible = 0;
  int64_t found = 0;
  int64_t optimal = 0;
  double cost = 0;
  double least = 0;
};

Result Compare(const std::string& model, size_t gpus, int cases, uint64_t seed) {
  const StateTable table(FindDeviceModel(model).value());
  const Packing packing(&table, EvenDemand(table.model()));
  const Oracle oracle(table);
  Random random(seed);
  Result result;
  for (int i = 0; i < cases; ++i) {
    const RepartitionRequest request = Draw(table, gpus, random);
    const absl::optional<int64_t> least = oracle.Cheapest(request);
    const auto plan = PlanRepartition(packing, request).value();
    if (least.has_value()) ++result.possible;
    if (!plan.has_value()) continue;
    EXPECT_EQ(WhatIsWrong(table, request, *plan), "") << model << " case " << i;
    EXPECT_TRUE(least.has_value()) << model << " case " << i;
    EXPECT_GE(plan->cost, least.value_or(0)) << model << " case " << i;
    ++result.found;
    if (plan->cost == least.value_or(0)) ++result.optimal;
    result.cost += static_cast<double>(plan->cost);
    result.least += static_cast<double>(least.value_or(0));
  }
  std::printf(
      "%s, %zu GPUs: %ld cases with a plan, %ld found, %ld of these cheapest; cost %.4f of "
      "the least\n",
      model.c_str(), gpus, static_cast<long>(result.possible), static_cast<long>(result.found),
      static_cast<long>(result.optimal), result.cost / result.least);
  return result;
}

TEST(RepartitionOracleTest, OneGpuIsExact) {
  for (const char* model : {"A30-24GB", "H100-80GB"}) {
    const Result result = Compare(model, 1, model[0] == 'A' ? 3000 : 300, 3);
    EXPECT_GT(result.possible, 100);
    EXPECT_EQ(result.found, result.possible);
    EXPECT_EQ(result.optimal, result.possible);
  }
}

TEST(RepartitionOracleTest, TwoGpusWithinTheStatedGap) {
  const Result result = Compare("A30-24GB", 2, 3000, 4);
  EXPECT_GT(result.possible, 1000);
  EXPECT_GT(static_cast<double>(result.found), 0.97 * static_cast<double>(result.possible));
  EXPECT_GT(static_cast<double>(result.optimal), 0.9 * static_cast<double>(result.found));
  EXPECT_LT(result.cost, 1.1 * result.least);
}

// Fleets beyond what an oracle can do: plans are safe, and the same each time.
TEST(RepartitionOracleTest, PlansOfLargerFleetsAreSafeAndTheSameEachTime) {
  const StateTable table(FindDeviceModel("H200-141GB").value());
  const Packing packing(&table, EvenDemand(table.model()));
  int found = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const RepartitionRequest request =
        Draw(table, static_cast<size_t>(random.Between(3, 8)), random);
    const auto plan = PlanRepartition(packing, request).value();
    const auto again = PlanRepartition(packing, request).value();
    ASSERT_EQ(plan.has_value(), again.has_value());
    if (!plan.has_value()) continue;
    ++found;
    ASSERT_EQ(WhatIsWrong(table, request, *plan), "") << seed;
    ASSERT_EQ(plan->granted, again->granted);
    ASSERT_EQ(plan->acts.size(), again->acts.size());
    for (size_t i = 0; i < plan->acts.size(); ++i) {
      ASSERT_EQ(plan->acts[i].kind, again->acts[i].kind);
      ASSERT_EQ(plan->acts[i].place, again->acts[i].place);
      ASSERT_EQ(plan->acts[i].gang, again->acts[i].gang);
      ASSERT_EQ(plan->acts[i].places, again->acts[i].places);
    }
  }
  EXPECT_GT(found, 50);
}

// What an act makes of the instances.
void Carry(const Act& act, RepartitionRequest& fleet) {
  std::vector<Instance>& instances = fleet.instances;
  switch (act.kind) {
    case Act::Kind::kStop:
      for (Instance& instance : instances) {
        if (instance.holder == act.gang) instance.holder = kNobody;
      }
      break;
    case Act::Kind::kDestroy:
      instances.erase(
          std::remove_if(instances.begin(), instances.end(),
                         [&act](const Instance& each) { return each.place == act.place; }),
          instances.end());
      break;
    case Act::Kind::kCreate:
      instances.push_back({act.place, kNobody});
      break;
    case Act::Kind::kStart:
      for (Instance& instance : instances) {
        const bool mine =
            std::find(act.places.begin(), act.places.end(), instance.place) != act.places.end();
        if (mine) instance.holder = act.gang;
      }
      break;
    case Act::Kind::kCordon:
    case Act::Kind::kUncordon:
      break;
  }
}

// Tasks start, end, and others make way for them, for long: never an illegal state, and all that is
// kept here agrees with what the plans say.
TEST(RepartitionOracleTest, LivesOfPlacingFreeingAndRepartitioning) {
  const StateTable table(FindDeviceModel("H100-80GB").value());
  const Packing packing(&table, EvenDemand(table.model()));
  int plans = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    RepartitionRequest fleet;
    fleet.gpus = 3;
    for (int step = 0; step < 60; ++step) {
      if (random.OneIn(3) && !fleet.instances.empty()) {
        // The gang that holds a random instance ends, or an unused one is destroyed.
        const size_t which = random.Below(fleet.instances.size());
        const int holder = fleet.instances[which].holder;
        if (holder == kNobody) {
          fleet.instances.erase(fleet.instances.begin() + static_cast<std::ptrdiff_t>(which));
        }
        for (Instance& instance : fleet.instances) {
          if (instance.holder == holder) instance.holder = kNobody;
        }
        continue;
      }
      fleet.wanted = {static_cast<int>(random.Below(table.model().profiles.size()))};
      const auto plan = PlanRepartition(packing, fleet).value();
      if (!plan.has_value()) continue;
      ++plans;
      ASSERT_EQ(WhatIsWrong(table, fleet, *plan), "") << seed << " step " << step;
      for (const Act& act : plan->acts) Carry(act, fleet);
      HoldingGang gang;
      const int64_t lost = random.Between(0, 20);
      if (!random.OneIn(3)) gang.move_cost = lost;
      if (!random.OneIn(3)) gang.evict_cost = lost + 5;
      fleet.gangs.push_back(gang);
      for (Instance& instance : fleet.instances) {
        if (instance.place == plan->granted[0]) {
          ASSERT_EQ(instance.holder, kNobody);
          instance.holder = static_cast<int>(fleet.gangs.size()) - 1;
        }
      }
      std::vector<std::vector<Position>> gpus(fleet.gpus);
      for (const Instance& instance : fleet.instances) {
        gpus[instance.place.gpu].push_back(
            table.positions()[static_cast<size_t>(instance.place.position)]);
      }
      for (const std::vector<Position>& gpu : gpus) ASSERT_TRUE(table.FromPositions(gpu).ok());
    }
  }
  EXPECT_GT(plans, 200);
}

}  // namespace
}  // namespace capstan::mig
