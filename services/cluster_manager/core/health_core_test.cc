#include "services/cluster_manager/core/health_core.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/simulated_clock.h"

namespace capstan::cluster_manager {
namespace {

namespace pb = ::capstan::clustermanager::v1;
using ::capstan::scheduler::v1::Node;
using ::capstan::type::v1::NodeObservation;

constexpr char kOwner[] = "spiffe://d/svc/cluster_manager";
constexpr char kNode[] = "clusters/local/nodes/a";

// The core, its disk, and a scheduler that keeps the cordons asked for.
class HealthCoreTest : public ::testing::Test {
 protected:
  HealthCoreTest() { Restart(); }

  void Restart() {
    core_ = std::make_unique<HealthCore>(HealthConfig{.owner = kOwner});
    for (const auto& [key, value] : disk_) {
      store::KeyValue kv;
      kv.key = key;
      kv.value = value;
      ASSERT_TRUE(core_->Load(kv).ok());
    }
    for (const auto& [name, node] : world_) Keep(core_->NodeSeen(node, "u", clock_.Read()));
    Keep(core_->Synced(clock_.Read()));
  }

  void Keep(const Step& step) {
    for (const store::Put& put : step.puts) disk_[put.key] = put.value;
    for (const store::Delete& gone : step.deletes) disk_.erase(gone.key);
    for (const Effect& effect : step.after) {
      ++acts_;
      if (!scheduler_answers_) continue;
      if (const auto* cordon = std::get_if<CordonNode>(&effect)) {
        auto* added = world_[cordon->node].add_cordons();
        added->set_owner(kOwner);
        added->set_reason(cordon->reason);
        Keep(core_->NodeSeen(world_[cordon->node], "u", clock_.Read()));
      } else {
        const std::string& name = std::get<UncordonNode>(effect).node;
        world_[name].clear_cordons();
        Keep(core_->NodeSeen(world_[name], "u", clock_.Read()));
      }
    }
  }

  void Show(bool full, Node::State state = Node::STATE_ACTIVE, const std::string& name = kNode) {
    Node& node = world_[name];
    node.set_name(name);
    node.set_state(state);
    node.clear_limitations();
    if (full) node.add_limitations(NodeObservation::LIMITATION_DISK_FULL);
    Keep(core_->NodeSeen(node, "u", clock_.Read()));
  }

  // Moves time, ticking exactly when the core asks to be.
  void Advance(absl::Duration d) {
    const BootTime end = clock_.Read().boot + d;
    while (core_->NextDeadline().has_value() && *core_->NextDeadline() <= end) {
      const absl::Duration wait = *core_->NextDeadline() - clock_.Read().boot;
      if (wait > absl::ZeroDuration()) clock_.Advance(wait);
      Keep(core_->Tick(clock_.Read()));
    }
    clock_.Advance(end - clock_.Read().boot);
  }

  bool Cordoned(const std::string& name = kNode) { return world_[name].cordons_size() != 0; }
  pb::NodeVerdict Verdict(const std::string& name = kNode) {
    VerdictRecord record;
    EXPECT_TRUE(record.ParseFromString(disk_[VerdictKey(name)]));
    return record.verdict();
  }

  SimulatedClock clock_;
  std::map<std::string, std::string> disk_;
  std::map<std::string, Node> world_;
  std::unique_ptr<HealthCore> core_;
  bool scheduler_answers_ = true;
  int acts_ = 0;
};

TEST_F(HealthCoreTest, CordonsWhatLastsAndLiftsWhatIsOver) {
  Show(false);
  EXPECT_FALSE(core_->NextDeadline().has_value());
  Show(true);
  EXPECT_EQ(Verdict().health(), pb::NodeVerdict::HEALTH_SUSPECT);
  Advance(absl::Seconds(29));
  EXPECT_FALSE(Cordoned());
  Advance(absl::Seconds(1));
  EXPECT_TRUE(Cordoned());
  EXPECT_EQ(Verdict().health(), pb::NodeVerdict::HEALTH_UNHEALTHY);
  EXPECT_EQ(world_[kNode].cordons(0).reason(), "unhealthy: DISK_FULL");
  Show(false);
  Advance(absl::Seconds(59));
  EXPECT_TRUE(Cordoned());
  Advance(absl::Seconds(1));
  EXPECT_FALSE(Cordoned());
  EXPECT_EQ(Verdict().health(), pb::NodeVerdict::HEALTH_HEALTHY);
  EXPECT_FALSE(core_->NextDeadline().has_value());
}

TEST_F(HealthCoreTest, WhatComesAndGoesChangesNothing) {
  Show(false);
  for (int i = 0; i < 20; ++i) {
    Show(true);
    Advance(absl::Seconds(20));
    Show(false);
    Advance(absl::Seconds(20));
  }
  EXPECT_EQ(acts_, 0);
}

TEST_F(HealthCoreTest, SilenceAndPreflightAreFindings) {
  Show(false, Node::STATE_SILENT);
  EXPECT_EQ(Verdict().findings(0), "NODE_SILENT");
  Node node;
  node.add_limitations(NodeObservation::LIMITATION_PREFLIGHT_FAILED);
  node.add_limitations(NodeObservation::LIMITATION_LIMITS_NOT_ENFORCED);
  EXPECT_EQ(Findings(node), std::set<std::string>{"PREFLIGHT_FAILED"});
}

TEST_F(HealthCoreTest, ABlindObserverJudgesNoOne) {
  Show(true);
  core_->WatchLost();
  EXPECT_FALSE(core_->NextDeadline().has_value());
  clock_.Advance(absl::Hours(1));
  Keep(core_->Tick(clock_.Read()));
  EXPECT_EQ(acts_, 0);
  // Seen again, the finding counts anew.
  Restart();
  EXPECT_FALSE(Cordoned());
  Advance(absl::Seconds(30));
  EXPECT_TRUE(Cordoned());
}

TEST_F(HealthCoreTest, AsksAgainUntilTheSchedulerShowsIt) {
  Show(true);
  scheduler_answers_ = false;
  Advance(absl::Seconds(42));
  EXPECT_EQ(acts_, 3);
  scheduler_answers_ = true;
  Advance(absl::Seconds(5));
  EXPECT_TRUE(Cordoned());
  const int acts = acts_;
  Advance(absl::Hours(1));
  EXPECT_EQ(acts_, acts);
}

TEST_F(HealthCoreTest, LeavesTheCordonsOfOthersAlone) {
  Show(false);
  world_[kNode].add_cordons()->set_owner("person/1000");
  Show(false);
  Advance(absl::Hours(1));
  EXPECT_EQ(acts_, 0);
  EXPECT_TRUE(Cordoned());
}

TEST_F(HealthCoreTest, RestartKeepsVerdictsAndForgetsNodesThatAreGone) {
  Show(true);
  Show(false, Node::STATE_ACTIVE, "clusters/local/nodes/b");
  Advance(absl::Seconds(30));
  world_.erase("clusters/local/nodes/b");
  Restart();
  EXPECT_EQ(Verdict().health(), pb::NodeVerdict::HEALTH_UNHEALTHY);
  EXPECT_TRUE(Cordoned());
  EXPECT_EQ(disk_.count(VerdictKey("clusters/local/nodes/b")), 0u);
  EXPECT_EQ(disk_.count(ClusterKey("clusters/local")), 1u);
  Keep(core_->NodeGone(kNode));
  EXPECT_EQ(disk_.count(VerdictKey(kNode)), 0u);
}

// Whatever is shown in whatever order, a settled world ends with cordons exactly on the sick.
TEST_F(HealthCoreTest, SettlesOnTheTruth) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    world_.clear();
    disk_.clear();
    Restart();
    for (int i = 0; i < 60; ++i) {
      const std::string name = absl::StrCat("clusters/local/nodes/n", random.Below(4));
      Show(random.OneIn(2), random.OneIn(3) ? Node::STATE_SILENT : Node::STATE_ACTIVE, name);
      if (random.OneIn(10)) scheduler_answers_ = !scheduler_answers_;
      if (random.OneIn(15)) {
        core_->WatchLost();
        Restart();
      }
      Advance(random.Between(absl::ZeroDuration(), absl::Seconds(50)));
    }
    scheduler_answers_ = true;
    Advance(absl::Minutes(5));
    for (const auto& [name, node] : world_) {
      EXPECT_EQ(Cordoned(name), !Findings(node).empty()) << seed << " " << name;
    }
  }
}

}  // namespace
}  // namespace capstan::cluster_manager
