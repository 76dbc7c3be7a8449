#include "services/scheduler/core/round/round.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/round/accept.h"
#include "services/scheduler/core/round/fleet_fixture.h"

namespace capstan::scheduler::round {
namespace {

using Runs = std::vector<TaskRun>;
using Gangs = std::vector<GangIndex>;

class RoundTest : public ::testing::Test {
 protected:
  Proposal Run(const Gangs& order, Budgets budgets = {}) {
    RoundInput input;
    input.snapshot = fleet_.Freeze();
    input.order = order;
    input.budgets = std::move(budgets);
    input.now = now_;
    return Round(options_).Run(std::move(input));
  }

  GangIndex Running(ShapeId shape, Runs runs, int priority = 0,
                    absl::Duration declared = absl::InfiniteDuration(), QueueId queue = 0) {
    const GangIndex gang = fixture_.AddGang(shape, priority, queue, declared);
    EXPECT_TRUE(fleet_.Start(gang, std::move(runs), now_).ok());
    return gang;
  }

  const Reason& ReasonOf(const Proposal& proposal, GangIndex gang) {
    for (const Wait& wait : proposal.waits) {
      if (wait.gang == gang) return proposal.reasons[wait.reason];
    }
    ADD_FAILURE() << "gang " << gang << " does not wait";
    static const auto& none = *new Reason();
    return none;
  }

  static Gangs Started(const Proposal& proposal) {
    Gangs gangs;
    for (const Start& start : proposal.starts) gangs.push_back(start.gang);
    return gangs;
  }

  FleetFixture fixture_;
  Fleet& fleet_ = fixture_.fleet();
  RoundOptions options_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
};

TEST_F(RoundTest, StartsInOrderWhatFits) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  const ShapeId five = fixture_.Flat(fixture_.Class(1000, 1), 5, 5);
  const ShapeId three = fixture_.Flat(fixture_.Class(1000, 1), 3, 3);
  options_.backfill = false;
  const GangIndex a = fixture_.AddGang(five);
  const GangIndex b = fixture_.AddGang(five);
  const GangIndex c = fixture_.AddGang(three);
  const Proposal proposal = Run({a, b, c});
  EXPECT_EQ(Started(proposal), (Gangs{a, c}));
  const Reason& reason = ReasonOf(proposal, b);
  EXPECT_EQ(reason.obstacle, Obstacle::kRoom);
  EXPECT_EQ(reason.wanted, 5);
  EXPECT_EQ(reason.best, 3);
}

TEST_F(RoundTest, HoldsBackForAQueueOrOneAboveIt) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  Budgets budgets;
  const QueueId root = budgets.AddQueue({});
  const QueueId team = budgets.AddQueue(root);
  const QueueId other = budgets.AddQueue(root);
  budgets.SetLeft(root, fixture_.gpu(), 4);
  budgets.SetLeft(team, fixture_.gpu(), 3);
  const ShapeId two = fixture_.Flat(fixture_.Class(1000, 1), 2, 2);
  const GangIndex a = fixture_.AddGang(two, 0, team);
  const GangIndex b = fixture_.AddGang(two, 0, team);
  const GangIndex c = fixture_.AddGang(two, 0, other);
  const GangIndex d = fixture_.AddGang(two, 0, other);
  const Proposal proposal = Run({a, b, c, d}, budgets);
  EXPECT_EQ(Started(proposal), (Gangs{a, c}));
  EXPECT_EQ(ReasonOf(proposal, b).obstacle, Obstacle::kQuota);
  EXPECT_EQ(ReasonOf(proposal, b).refusal.queue, team);
  EXPECT_EQ(ReasonOf(proposal, b).refusal.left, 1);
  EXPECT_EQ(ReasonOf(proposal, d).refusal.queue, root);
  EXPECT_EQ(ReasonOf(proposal, d).refusal.dimension, fixture_.gpu());
}

TEST_F(RoundTest, SaysWhyByNodeCounts) {
  fixture_.AddNode("c", "r1", "full", 64000, 1);
  fixture_.AddNode("c", "r1", "narrow", 500, 8);
  const NodeIndex cordoned = fixture_.AddNode("c", "r1", "cordoned", 64000, 8);
  fleet_.SetSchedulable(cordoned, false);
  NodeTraits tainted = fixture_.Traits("c", "r2", "tainted", 64000, 8);
  tainted.taints = {{"team", "x"}};
  fleet_.AddNode(tainted);
  for (const char* host : {"s1", "s2"}) {
    NodeTraits old = fixture_.Traits("c", "r2", host, 64000, 8);
    old.labels["gpu"] = "v100";
    fleet_.AddNode(old);
  }
  Constraints constraints;
  constraints.selector = {{"gpu", {"v100"}, true}};
  const ShapeId shape = fixture_.Flat(fixture_.Class(1000, 2, constraints), 2, 2);
  const GangIndex gang = fixture_.AddGang(shape);
  const Proposal proposal = Run({gang});
  const Reason& reason = ReasonOf(proposal, gang);
  EXPECT_EQ(reason.obstacle, Obstacle::kRoom);
  EXPECT_EQ(reason.best, 0);
  EXPECT_EQ(reason.nodes_with_room, 0);
  const std::vector<NodeCount> counts = {{NodeObstacle::kUnschedulable, 0, 1},
                                         {NodeObstacle::kSelector, 0, 2},
                                         {NodeObstacle::kTaint, 0, 1},
                                         {NodeObstacle::kResource, kCpuMillis, 1},
                                         {NodeObstacle::kResource, fixture_.gpu(), 1}};
  EXPECT_TRUE(
      std::is_permutation(reason.nodes.begin(), reason.nodes.end(), counts.begin(), counts.end()));
}

TEST_F(RoundTest, TellsTopologyFromRoomAndFromNever) {
  fixture_.AddNode("c", "r1", "a", 64000, 4);
  fixture_.AddNode("c", "r2", "a", 64000, 4);
  const ClassId gpu = fixture_.Class(1000, 1);
  Running(fixture_.Flat(gpu, 1, 1), {{0, 0, 1}});
  Running(fixture_.Flat(gpu, 1, 1), {{1, 0, 1}});
  const GangIndex topology = fixture_.AddGang(fixture_.Flat(gpu, 4, 4, Level::kRack));
  const GangIndex never = fixture_.AddGang(fixture_.Flat(gpu, 5, 5, Level::kRack));
  const GangIndex room = fixture_.AddGang(fixture_.Flat(gpu, 7, 7));
  const Proposal proposal = Run({never, topology, room});
  EXPECT_EQ(ReasonOf(proposal, topology).obstacle, Obstacle::kTopology);
  EXPECT_EQ(ReasonOf(proposal, topology).best, 3);
  EXPECT_EQ(ReasonOf(proposal, topology).nearest, NodeIndex{0}) << "rack r1 lacks one";
  EXPECT_EQ(ReasonOf(proposal, never).obstacle, Obstacle::kNeverFits);
  EXPECT_EQ(ReasonOf(proposal, room).obstacle, Obstacle::kRoom);
  EXPECT_EQ(proposal.reservation->gang, topology) << "not for one that never fits";
}

TEST_F(RoundTest, ReservesForTheHeadAndLetsOnlyHarmlessGangsPass) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  const ClassId gpu = fixture_.Class(1000, 1);
  Running(fixture_.Flat(gpu, 6, 6), {{0, 0, 6}}, 0, absl::Hours(2));
  const GangIndex head = fixture_.AddGang(fixture_.Flat(gpu, 7, 7));
  const ShapeId one = fixture_.Flat(gpu, 1, 1);
  const GangIndex undeclared = fixture_.AddGang(one);
  const GangIndex second = fixture_.AddGang(one, 0, 0, absl::Hours(3));
  const GangIndex quick = fixture_.AddGang(one, 0, 0, absl::Hours(2));
  const Proposal proposal = Run({head, undeclared, second, quick});
  ASSERT_TRUE(proposal.reservation.has_value());
  EXPECT_EQ(proposal.reservation->gang, head);
  EXPECT_EQ(proposal.reservation->start, now_ + absl::Hours(2));
  EXPECT_FALSE(proposal.reservation->assumed);
  EXPECT_EQ(proposal.reservation->runs, (Runs{{0, 0, 7}}));
  // One GPU is left beside the seven: the first long gang has it, the next would delay the head.
  EXPECT_EQ(Started(proposal), (Gangs{undeclared, quick}));
  EXPECT_EQ(ReasonOf(proposal, second).obstacle, Obstacle::kReservation);
}

TEST_F(RoundTest, EstimatesEndsThatNobodyDeclaredOrKept) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  const ClassId gpu = fixture_.Class(1000, 1);
  Running(fixture_.Flat(gpu, 8, 8), {{0, 0, 8}}, 0, absl::Hours(2));
  const GangIndex head = fixture_.AddGang(fixture_.Flat(gpu, 1, 1));
  now_ += absl::Hours(3);
  const Proposal overrun = Run({head});
  EXPECT_EQ(overrun.reservation->start, now_ + absl::Hours(3));
  EXPECT_TRUE(overrun.reservation->assumed);
}

TEST_F(RoundTest, PreemptsOneGangWhereOneSuffices) {
  // A gang of one task of eight GPUs, and ten gangs that hold one GPU each on ten nodes.
  const ShapeId one = fixture_.Flat(fixture_.Class(1000, 1), 1, 1);
  for (int n = 0; n < 10; ++n) {
    fixture_.AddNode("c", "r", absl::StrCat("n", n), 64000, 8);
    Running(one, {{static_cast<NodeIndex>(n), 0, 1}});
  }
  now_ += absl::Hours(1);
  const GangIndex big = fixture_.AddGang(fixture_.Flat(fixture_.Class(1000, 8), 1, 1), 10);
  const Proposal proposal = Run({big});
  ASSERT_EQ(proposal.preemptions.size(), 1u);
  EXPECT_EQ(proposal.preemptions[0].victims.size(), 1u);
}

TEST_F(RoundTest, NeverEvictsForAGangThatWouldNotFitOrHasNoStanding) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  fixture_.AddNode("c", "r", "b", 64000, 8);
  const ClassId gpu = fixture_.Class(1000, 1);
  Running(fixture_.Flat(gpu, 8, 8), {{0, 0, 8}}, 5);
  Running(fixture_.Flat(gpu, 8, 8), {{1, 0, 8}}, 20);
  now_ += absl::Hours(1);
  EXPECT_TRUE(Run({fixture_.AddGang(fixture_.Flat(gpu, 9, 9), 10)}).preemptions.empty());
  EXPECT_TRUE(Run({fixture_.AddGang(fixture_.Flat(gpu, 8, 8), 5)}).preemptions.empty());
  EXPECT_TRUE(Run({fixture_.AddGang(fixture_.Flat(gpu, 8, 8), 10, 1)}).preemptions.empty())
      << "another queue";
  options_.preemption_limits.min_runtime = absl::Hours(2);
  EXPECT_TRUE(Run({fixture_.AddGang(fixture_.Flat(gpu, 8, 8), 10)}).preemptions.empty());
  options_.preemption_limits.min_runtime = absl::Hours(1);
  EXPECT_EQ(Run({fixture_.AddGang(fixture_.Flat(gpu, 8, 8), 10)}).preemptions.size(), 1u);
}

TEST_F(RoundTest, TakesLowestPriorityThenLeastLostWork) {
  const ClassId gpu = fixture_.Class(1000, 1);
  const ShapeId node_wide = fixture_.Flat(gpu, 8, 8);
  Gangs running;
  for (NodeIndex n = 0; n < 3; ++n) {
    fixture_.AddNode("c", "r", absl::StrCat("n", n), 64000, 8);
    running.push_back(Running(node_wide, {{n, 0, 8}}, n == 0 ? 1 : 2));
  }
  now_ += absl::Hours(10);
  fleet_.SetCheckpointed(running[2], now_ - absl::Minutes(1));
  const GangIndex one = fixture_.AddGang(node_wide, 10);
  EXPECT_EQ(Run({one}).preemptions.at(0).victims, (Gangs{running[0]}));
  const GangIndex two = fixture_.AddGang(fixture_.Flat(gpu, 16, 16), 10);
  EXPECT_EQ(Run({two}).preemptions.at(0).victims, (Gangs{running[0], running[2]}));
}

TEST_F(RoundTest, ReclaimsAcrossQueuesByGuarantee) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  const ShapeId all = fixture_.Flat(fixture_.Class(1000, 1), 8, 8);
  Budgets budgets;
  const QueueId mine = budgets.AddQueue({});
  const QueueId yours = budgets.AddQueue({});
  const GangIndex borrower = Running(all, {{0, 0, 8}}, 100, absl::InfiniteDuration(), yours);
  const GangIndex gang = fixture_.AddGang(all, 0, mine);
  EXPECT_TRUE(Run({gang}, budgets).preemptions.empty());
  budgets.SetMayReclaim(mine, true);
  EXPECT_TRUE(Run({gang}, budgets).preemptions.empty());
  budgets.SetAboveGuarantee(yours, true);
  EXPECT_EQ(Run({gang}, budgets).preemptions.at(0).victims, (Gangs{borrower}));
}

TEST_F(RoundTest, MakesRoomInTheQuotaTooButOnlyInItsOwn) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  const ShapeId two = fixture_.Flat(fixture_.Class(1000, 1), 2, 2);
  Budgets budgets;
  const QueueId mine = budgets.AddQueue({});
  budgets.SetLeft(mine, fixture_.gpu(), 0);
  const GangIndex low = Running(two, {{0, 0, 2}}, 1, absl::InfiniteDuration(), mine);
  const GangIndex gang = fixture_.AddGang(two, 5, mine);
  const Proposal proposal = Run({gang}, budgets);
  ASSERT_EQ(proposal.preemptions.size(), 1u);
  EXPECT_EQ(proposal.preemptions[0].victims, (Gangs{low}));
}

TEST_F(RoundTest, WhatVictimsLeaveIsNobodysUntilTheyHaveGone) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  const ClassId gpu = fixture_.Class(1000, 1);
  const GangIndex victim = Running(fixture_.Flat(gpu, 8, 8), {{0, 0, 8}});
  now_ += absl::Hours(1);
  const GangIndex high = fixture_.AddGang(fixture_.Flat(gpu, 6, 6), 10);
  const GangIndex small = fixture_.AddGang(fixture_.Flat(gpu, 2, 2), 0);
  const Proposal proposal = Run({high, small});
  EXPECT_EQ(proposal.preemptions.size(), 1u);
  EXPECT_TRUE(proposal.starts.empty());
  const Accepted accepted = Accept(fleet_, proposal, now_);
  EXPECT_EQ(accepted.nominated.size(), 1u);
  EXPECT_TRUE(Run({small}).starts.empty());
  fleet_.RemoveGang(victim);
  EXPECT_TRUE(fleet_.StartNominated(high, now_).ok());
  EXPECT_EQ(Started(Run({small})), (Gangs{small}));
}

TEST_F(RoundTest, GrowsElasticGangsOnlyIntoSpareRoom) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  const ClassId gpu = fixture_.Class(1000, 1);
  const GangIndex elastic = Running(fixture_.Flat(gpu, 2, 6), {{0, 0, 2}});
  const GangIndex fixed = fixture_.AddGang(fixture_.Flat(gpu, 3, 3));
  const Proposal proposal = Run({fixed});
  EXPECT_EQ(Started(proposal), (Gangs{fixed}));
  ASSERT_EQ(proposal.growths.size(), 1u);
  EXPECT_EQ(proposal.growths[0].gang, elastic);
  EXPECT_EQ(proposal.growths[0].runs, (Runs{{0, 0, 3}}));
  EXPECT_TRUE(Accept(fleet_, proposal, now_).conflicts.empty());
  EXPECT_EQ(fleet_.gang(elastic).runs->size(), 2u);
}

TEST_F(RoundTest, LeavesOutWhatNoLongerHolds) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  fixture_.AddNode("c", "r", "b", 64000, 8);
  const ShapeId eight = fixture_.Flat(fixture_.Class(1000, 1), 8, 8);
  const GangIndex a = fixture_.AddGang(eight);
  const GangIndex b = fixture_.AddGang(eight);
  const Proposal proposal = Run({a, b});
  ASSERT_EQ(Started(proposal), (Gangs{a, b}));
  fleet_.SetSchedulable(0, false);
  const Accepted accepted = Accept(fleet_, proposal, now_);
  EXPECT_EQ(accepted.conflicts, (Gangs{a}));
  EXPECT_EQ(accepted.started, (Gangs{b}));
  EXPECT_EQ(fleet_.gang(a).state, GangState::kPending);
}

TEST_F(RoundTest, ABoundOnWorkLeavesTheRestForTheNextRound) {
  fixture_.AddNode("c", "r", "a", 64000, 8);
  options_.max_failed_placements = 1;
  const ClassId gpu = fixture_.Class(1000, 1);
  const GangIndex nine = fixture_.AddGang(fixture_.Flat(gpu, 9, 9));
  const GangIndex eight = fixture_.AddGang(fixture_.Flat(gpu, 8, 8));
  const Proposal proposal = Run({nine, eight});
  EXPECT_TRUE(proposal.starts.empty());
  EXPECT_EQ(ReasonOf(proposal, eight).obstacle, Obstacle::kNotTried);
}

}  // namespace
}  // namespace capstan::scheduler::round
