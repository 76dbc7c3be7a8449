// A fleet that is kept from round to round, beside one that is made anew for each: rounds in both
// answer alike, whatever came between them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/mig/profiles.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/tight_placer.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::NodeRequirement;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::NodeObservation;

constexpr char kGpu[] = "gpu";

// Those of lower priority, or all.
class Rules final : public VictimRules {
 public:
  Rules(const std::vector<HeldGang>* held, int32_t below) : held_(*held), below_(below) {}
  bool MayEvict(int held) const override { return held_[held].priority < below_; }
  std::vector<int> Together(const std::vector<int>& held) const override { return held; }
  void SetEnded(int, bool) override {}
  bool MayStart() const override { return true; }

 private:
  const std::vector<HeldGang>& held_;
  const int32_t below_;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    const int nodes = static_cast<int>(random_.Between(2, 12));
    with_mig_ = random_.OneIn(4);
    for (int n = 0; n < nodes; ++n) AddNode();
  }

  // Nodes and gangs become others.
  void Change() {
    for (int n = random_.Below(4); n > 0; --n) {
      switch (random_.Below(12)) {
        case 0:
        case 1:
        case 2:
        case 3:
          AddGang();
          break;
        case 4:
        case 5:
          if (!held_.empty()) EndGang(random_.Below(held_.size()));
          break;
        case 6: {
          NodeCapacity& node = AnyNode();
          node.eligible = !node.eligible;
          break;
        }
        case 7: {
          NodeCapacity& node = AnyNode();
          node.only_submitter.reset();
          if (random_.OneIn(2)) node.only_submitter = absl::StrCat("person-", random_.Below(2));
          break;
        }
        case 8:
          AnyNode().order = random_.OneIn(2) ? "order" : "";
          break;
        case 9: {
          NodeCapacity& node = AnyNode();
          node.avoided = !node.avoided;
          break;
        }
        case 10:
          Report();
          break;
        default:
          // It shrinks, or grows again, perhaps by what no Node had before.
          AnyNode().free.cpu_millis += static_cast<int64_t>(random_.Between(-3, 3)) * 1000;
          if (random_.OneIn(8)) ++AnyNode().free.accelerators["fpga"];
      }
    }
    if (random_.OneIn(30)) AddNode();
    for (HeldGang& gang : held_) {
      gang.left += absl::Minutes(static_cast<int64_t>(random_.Between(-1, 1)));
      gang.left = std::max(gang.left, absl::Seconds(1));
      gang.unsaved += absl::Seconds(7);
      if (random_.OneIn(10)) gang.preemptible = !gang.preemptible;
      if (random_.OneIn(20)) gang.ending = !gang.ending;
    }
  }

  // All answers of a round of the Placer's.
  std::string Round(TightPlacer* placer, bool is_next, Random random) {
    std::vector<HeldGang> held = held_;
    // What is kept for somebody comes behind, and is known to be the same of nobody.
    if (!held.empty() && last_is_unknown_) held.back().revision = 0;
    std::set<std::string> keys = {"kind"};
    if (random.OneIn(20)) keys.insert("other");
    const std::unique_ptr<PlacingRound> round =
        is_next ? placer->BeginNext(nodes_, held, &keys) : placer->Begin(nodes_, held, &keys);
    std::string said;
    for (int n = 0; n < 12; ++n) {
      const GangRequest gang = AnyRequest(&random);
      switch (random.Below(7)) {
        case 0:
        case 1:
          AddPlace(round->Place(gang), &said);
          break;
        case 2: {
          const absl::optional<StartEstimate> start = round->Reserve(gang);
          absl::StrAppend(&said, " reserve ",
                          start ? absl::FormatDuration(start->wait) : std::string("none"),
                          start && start->assumed ? "?" : "");
          break;
        }
        case 3: {
          Rules rules(&held, static_cast<int32_t>(random.Between(0, 3)));
          absl::StrAppend(&said, " victims");
          for (const Victim& victim : round->FindVictims(gang, 1, &rules)) {
            absl::StrAppend(&said, " ", victim.held, "/", static_cast<int>(victim.need.kind), "/",
                            victim.need.tasks);
          }
          break;
        }
        case 4:
          absl::StrAppend(&said, " after ", round->FitsAfterEnding(gang) ? "yes" : "no",
                          random.OneIn(2) && round->HoldAfterEnding(gang) ? " held" : "");
          break;
        case 5: {
          GangPlacement has;
          for (const GangRequest::Group& group : gang.groups) {
            has.sizes.push_back(1);
            has.nodes.push_back(static_cast<int>(random.Below(nodes_.size())));
            (void)group;
          }
          for (const MoreTasks& more :
               round->Grow(gang, has, 1, [](const Amounts&) { return true; })) {
            absl::StrAppend(&said, " more ", more.count, "@", more.node);
          }
          break;
        }
        default:
          absl::StrAppend(&said, " bound ", round->IsBound(gang) ? "yes" : "no", " else ",
                          round->FitsUnbound(gang) ? "fits" : "not", round->Openings(gang));
      }
    }
    return said;
  }

  int64_t last_revision() const { return static_cast<int64_t>(revisions_); }
  Random Fork() { return Random(random_.Next()); }
  void TossLast() { last_is_unknown_ = random_.OneIn(3); }

 private:
  static void AddPlace(const absl::optional<GangPlacement>& placement, std::string* said) {
    absl::StrAppend(said, " place ",
                    placement ? absl::StrJoin(placement->nodes, ",") : std::string("none"));
    if (!placement) return;
    for (const auto& spot : placement->mig) {
      if (spot) absl::StrAppend(said, " gpu ", spot->gpu, " at ", spot->position);
    }
  }

  NodeCapacity& AnyNode() { return nodes_[random_.Below(nodes_.size())]; }

  void AddNode() {
    NodeCapacity node;
    const int number = static_cast<int>(nodes_.size());
    node.id = {"c", absl::StrCat("n", 100 + number)};
    node.free = {1000 * static_cast<int64_t>(random_.Between(2, 8)), int64_t{1} << 30, {}};
    if (random_.OneIn(2)) node.free.accelerators[kGpu] = 8;
    if (with_mig_ && random_.OneIn(2)) {
      const int model = mig::ModelIndex("H100-80GB");
      node.free.accelerators[mig::SliceResource(mig::DeviceModels()[model])] = 8;
      node.free.mig.AddGpu(0, model);
    }
    node.eligible = true;
    node.unisolated = random_.OneIn(6);
    node.topology.rack = absl::StrCat("r", number % 3);
    auto report = std::make_unique<NodeObservation>();
    (*report->mutable_labels())["kind"] = "a";
    node.reported = report.get();
    node.revision = ++revisions_;
    reports_.push_back(std::move(report));
    nodes_.push_back(std::move(node));
  }

  // A Node says other labels and taints.
  void Report() {
    const size_t at = random_.Below(nodes_.size());
    NodeObservation& report = *reports_[at];
    (*report.mutable_labels())["kind"] = random_.OneIn(2) ? "a" : "b";
    report.clear_taints();
    if (random_.OneIn(3)) report.add_taints()->set_key(random_.OneIn(2) ? "t" : "u");
    nodes_[at].revision = ++revisions_;
  }

  void AddGang() {
    HeldGang gang;
    gang.uid = absl::StrCat("g", random_.Below(1000));
    const auto is_before = [](const HeldGang& held, const std::string& uid) {
      return held.uid < uid;
    };
    const auto at = std::lower_bound(held_.begin(), held_.end(), gang.uid, is_before);
    if (at != held_.end() && at->uid == gang.uid) return;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      Amounts share = {1000 * static_cast<int64_t>(random_.Between(1, 2)), 1, {}};
      if (random_.OneIn(3)) share.accelerators[kGpu] = 1;
      if (!random_.OneIn(3) || nodes_[n].free.Fits(share, 1) < 1) continue;
      nodes_[n].free.Subtract(share);
      gang.shares.emplace_back(static_cast<int>(n), std::move(share));
    }
    if (gang.shares.empty()) return;
    gang.priority = static_cast<int32_t>(random_.Between(0, 2));
    gang.preemptible = !random_.OneIn(4);
    gang.left = absl::Minutes(static_cast<int64_t>(random_.Between(1, 60)));
    gang.left_is_assumed = random_.OneIn(3);
    gang.unsaved = absl::Minutes(static_cast<int64_t>(random_.Below(60)));
    gang.grace = absl::Seconds(static_cast<int64_t>(random_.Below(30)));
    gang.revision = ++revisions_;
    std::vector<HeldGang> parts = {gang};
    if (gang.shares.size() > 1 && random_.OneIn(3)) {
      parts.push_back(gang);
      parts[0].shares.pop_back();
      parts[1].shares = {gang.shares.back()};
      parts[1].is_spare = true;
      parts[1].revision = ++revisions_;
    }
    held_.insert(at, parts.begin(), parts.end());
  }

  void EndGang(size_t at) {
    const std::string uid = held_[at].uid;
    for (size_t i = 0; i < held_.size();) {
      if (held_[i].uid != uid) {
        ++i;
        continue;
      }
      for (const auto& [node, amounts] : held_[i].shares) nodes_[node].free.Add(amounts);
      held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  GangRequest AnyRequest(Random* random) const {
    GangRequest gang;
    for (int g = random->OneIn(4) ? 2 : 1; g > 0; --g) {
      GangRequest::Group& group = gang.groups.emplace_back();
      group.replicas = static_cast<int>(random->Between(1, 4));
      group.each = {1000 * static_cast<int64_t>(random->Between(1, 3)), 1, {}};
      if (random->OneIn(4)) group.each.accelerators[random->OneIn(8) ? "fpga" : kGpu] = 1;
      if (random->OneIn(4)) group.more = 2;
    }
    if (with_mig_ && random->OneIn(3)) {
      const int model = mig::ModelIndex("H100-80GB");
      const mig::DeviceModel& of = mig::DeviceModels()[model];
      const int profile = static_cast<int>(random->Below(of.profiles.size()));
      gang.groups[0].each.accelerators[mig::SliceResource(of)] = of.profiles[profile].memory_slices;
      gang.groups[0].each.mig.AddAsk({model, profile});
    }
    gang.submitter = absl::StrCat("person-", random->Below(2));
    if (random->OneIn(3)) gang.topology.set_required(Topology::LEVEL_RACK);
    if (random->OneIn(3)) gang.orders = {"order"};
    if (random->OneIn(4)) gang.avoided = {nodes_[random->Below(nodes_.size())].id};
    if (random->OneIn(3)) gang.duration = absl::Minutes(static_cast<int64_t>(random->Below(90)));
    if (random->OneIn(3)) {
      NodeRequirement& asks = *gang.node_requirements.Add();
      asks.set_key("kind");
      asks.set_operator_(NodeRequirement::OPERATOR_IN);
      asks.add_values(random->OneIn(2) ? "a" : "b");
    }
    if (random->OneIn(3)) {
      auto& tolerates = *gang.tolerations.Add();
      if (random->OneIn(2)) tolerates.set_key("t");
      tolerates.set_any_value(true);
    }
    return gang;
  }

  Random random_;
  bool with_mig_ = false;
  bool last_is_unknown_ = false;
  uint64_t revisions_ = 0;
  std::vector<NodeCapacity> nodes_;
  std::vector<std::unique_ptr<NodeObservation>> reports_;
  std::vector<HeldGang> held_;
};

TEST(KeptFleetPropertyTest, ARoundInItAnswersAsInANewOne) {
  std::set<std::string> kinds;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(seed);
    TightPlacer kept;
    for (int round = 0; round < 30; ++round) {
      world.Change();
      world.TossLast();
      const Random random = world.Fork();
      const std::string expected = world.Round(&kept, /*is_next=*/false, random);
      ASSERT_EQ(world.Round(&kept, /*is_next=*/true, random), expected) << "in round " << round;
      for (const char* kind : {"place 1", "reserve 1", "victims 1", "held", "more", "gpu"}) {
        if (expected.find(kind) != std::string::npos) kinds.insert(kind);
      }
    }
  }
  EXPECT_EQ(kinds.size(), 6u) << absl::StrJoin(kinds, ", ");
}

// One that is not over has its fleet to itself.
TEST(KeptFleetPropertyTest, RoundsAtTheSameTimeDoNotMeet) {
  World world(7);
  TightPlacer placer;
  for (int n = 0; n < 10; ++n) world.Change();
  const Random random = world.Fork();
  const std::string expected = world.Round(&placer, /*is_next=*/true, random);
  const std::vector<NodeCapacity> none;
  const auto open = placer.BeginNext(none, {}, nullptr);
  EXPECT_EQ(world.Round(&placer, /*is_next=*/true, random), expected);
  EXPECT_EQ(world.Round(&placer, /*is_next=*/true, random), expected);
}

}  // namespace
}  // namespace capstan::scheduler
