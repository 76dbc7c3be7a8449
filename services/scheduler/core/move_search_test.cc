// Whom the placer would move, against the plans of libs/mig, which look at GPUs alone and at all
// that can be done on one.
#include "services/scheduler/core/move_search.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/mig/layouts.h"
#include "libs/mig/profiles.h"
#include "libs/mig/repartition.h"
#include "libs/random/random.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/tight_placer.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

GangRequest Asks(const std::string& profile) {
  capstan::type::v1::Resources resources;
  resources.set_cpu_millis(10);
  resources.mutable_mig()->set_model("H100-80GB");
  resources.mutable_mig()->set_profile(profile);
  GangRequest gang;
  gang.groups.push_back({1, Amounts::From(resources)});
  return gang;
}

// A Node with some H100, on which Jobs of one Task each stand at random.
class ScatteredNode : public MoveRules {
 public:
  ScatteredNode(int gpus, Random* random)
      : model_(mig::ModelIndex("H100-80GB")), layouts_(mig::Layouts::Of(model_)), gpus_(gpus) {
    const mig::DeviceModel& model = mig::DeviceModels()[model_];
    std::vector<uint32_t> standing(static_cast<size_t>(gpus), 0);
    for (int tried = 0; tried < 8 * gpus; ++tried) {
      const int gpu = static_cast<int>(random->Below(static_cast<uint64_t>(gpus)));
      const auto positions = layouts_.table().positions().size();
      const int position = static_cast<int>(random->Below(positions));
      const mig::Position at = layouts_.table().positions()[static_cast<size_t>(position)];
      // Small ones are in the way of large ones.
      if (model.profiles[at.profile].memory_slices > 2 && !random->OneIn(4)) continue;
      if ((layouts_.Addable(standing[gpu]) >> position & 1) == 0) continue;
      standing[gpu] |= uint32_t{1} << position;
      Holder& holder = holders_.emplace_back();
      holder.spot = {gpu, model_, position};
      holder.request = Asks(model.profiles[at.profile].name);
      holder.cost = random->Between(1, 100);
    }
  }

  absl::optional<int64_t> CostOf(int held) const override { return holders_[held].cost; }
  GangRequest RequestOf(int held) const override { return holders_[held].request; }

  // Whether a place is free for it as it is.
  bool Fits(const GangRequest& wants) const { return Begin()->Place(wants).has_value(); }

  absl::optional<MovePlan> Find(const GangRequest& wants, int64_t max_cost) const {
    return Begin()->FindMoves(wants, *this, max_cost, /*has_reservation=*/false);
  }

  // The cost of what libs/mig would move; absent if it finds nothing.
  absl::optional<int64_t> PlannedCost(int profile) const {
    mig::RepartitionRequest request;
    request.gpus = static_cast<size_t>(gpus_);
    request.act_cost = 0;
    request.wanted = {profile};
    for (size_t i = 0; i < holders_.size(); ++i) {
      request.instances.push_back(
          {{static_cast<size_t>(holders_[i].spot.gpu), holders_[i].spot.position},
           static_cast<int>(i)});
      request.gangs.push_back({holders_[i].cost, absl::nullopt});
    }
    const auto plan = mig::PlanRepartition(layouts_.packing(), request);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok() || !plan->has_value()) return absl::nullopt;
    return (*plan)->work_lost;
  }

  // Whether all stand legally once those are moved, and the profile has a place beside them.
  void Check(const MovePlan& plan, int profile) const {
    std::vector<mig::Instances> gpus(static_cast<size_t>(gpus_));
    int64_t cost = 0;
    std::set<int> moved;
    for (const Relocation& move : plan.moves) {
      ASSERT_TRUE(moved.insert(move.held).second);
      cost += holders_[move.held].cost;
      ASSERT_EQ(move.to.nodes, std::vector<int>{0});
      ASSERT_EQ(move.to.mig.size(), 1u);
      const MigSpot& spot = *move.to.mig[0];
      EXPECT_EQ(layouts_.table().positions()[spot.position].profile,
                layouts_.table().positions()[holders_[move.held].spot.position].profile);
      gpus[spot.gpu].Add(spot.position);
    }
    EXPECT_EQ(plan.cost, cost);
    for (size_t i = 0; i < holders_.size(); ++i) {
      if (moved.count(static_cast<int>(i)) > 0) continue;
      gpus[holders_[i].spot.gpu].Add(holders_[i].spot.position);
    }
    int room = 0;
    for (const mig::Instances& gpu : gpus) {
      EXPECT_EQ(gpu.twice, 0u);
      uint32_t beside = 0;
      for (size_t p = 0; p < layouts_.table().positions().size(); ++p) {
        if ((gpu.once >> p & 1) == 0) continue;
        EXPECT_NE(layouts_.Addable(beside) >> p & 1, 0u) << "not legal";
        beside |= uint32_t{1} << p;
      }
      room += layouts_.Room(layouts_.Addable(gpu.once), profile);
    }
    EXPECT_GE(room, 1);
  }

 private:
  struct Holder {
    MigSpot spot;
    GangRequest request;
    int64_t cost = 0;
  };

  std::unique_ptr<PlacingRound> Begin() const {
    NodeCapacity node;
    node.id = {"c", "n"};
    node.eligible = true;
    node.free.cpu_millis = 100'000;
    const mig::DeviceModel& model = mig::DeviceModels()[model_];
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      node.free.accelerators[mig::SliceResource(model)] += model.memory_slices;
      node.free.mig.AddGpu(gpu, model_);
    }
    std::vector<HeldGang> held;
    for (const Holder& holder : holders_) {
      HeldGang& gang = held.emplace_back();
      gang.preemptible = true;
      gang.left = kAssumedRun;
      gang.shares.emplace_back(0, WithInstance(holder.request.groups[0].each, holder.spot));
      node.free.Subtract(gang.shares[0].second);
    }
    return TightPlacer().Begin({node}, held);
  }

  const int model_;
  const mig::Layouts& layouts_;
  const int gpus_;
  std::vector<Holder> holders_;
};

TEST(MoveSearchTest, FindsWhatThePlannerFinds) {
  const mig::DeviceModel& model = mig::DeviceModels()[mig::ModelIndex("H100-80GB")];
  int both = 0;
  int only_planner = 0;
  int only_search = 0;
  int64_t cost = 0;
  int64_t planned = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    const ScatteredNode node(static_cast<int>(random.Between(1, 4)), &random);
    for (const char* profile : {"2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}) {
      const GangRequest wants = Asks(profile);
      if (node.Fits(wants)) continue;
      const int wanted = *mig::ParseProfile(model, profile);
      const auto plan = node.Find(wants, std::numeric_limits<int64_t>::max());
      const auto best = node.PlannedCost(wanted);
      if (plan.has_value()) {
        node.Check(*plan, wanted);
        // Equal questions have equal answers, and the bound is one.
        EXPECT_EQ(node.Find(wants, plan->cost)->cost, plan->cost);
        EXPECT_FALSE(node.Find(wants, plan->cost - 1).has_value());
      }
      both += plan.has_value() && best.has_value() ? 1 : 0;
      only_planner += !plan.has_value() && best.has_value() ? 1 : 0;
      only_search += plan.has_value() && !best.has_value() ? 1 : 0;
      if (!plan.has_value() || !best.has_value()) continue;
      cost += plan->cost;
      planned += *best;
    }
  }
  RecordProperty("both", both);
  RecordProperty("only_planner", only_planner);
  RecordProperty("only_search", only_search);
  RecordProperty("cost", static_cast<int>(cost));
  RecordProperty("planned", static_cast<int>(planned));
  EXPECT_GT(both, 300);
  EXPECT_LE(100 * only_planner, 5 * (both + only_planner)) << both << " " << only_planner;
  EXPECT_LE(100 * cost, 105 * planned) << cost << " " << planned;
}

}  // namespace
}  // namespace capstan::scheduler
