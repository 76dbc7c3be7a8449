#include "services/scheduler/core/round/fleet.h"

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/round/fleet_fixture.h"

namespace capstan::scheduler::round {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();

class FleetTest : public ::testing::Test {
 protected:
  int64_t FreeGpus(NodeIndex node) { return fixture_.fleet().node(node).free[fixture_.gpu()]; }

  FleetFixture fixture_;
  Fleet& fleet_ = fixture_.fleet();
};

TEST_F(FleetTest, GivesEqualClassesAndShapesOneId) {
  const ClassId one = fixture_.Class(1000, 1);
  EXPECT_EQ(fleet_.InternClass({}, {{fixture_.gpu(), 1}, {kCpuMillis, 400}, {kCpuMillis, 600}}),
            one);
  EXPECT_NE(fixture_.Class(1000, 2), one);
  EXPECT_EQ(fixture_.Flat(one, 2, 4), fixture_.Flat(one, 2, 4));
  EXPECT_NE(fixture_.Flat(one, 2, 4), fixture_.Flat(one, 2, 5));
  Constraints constraints;
  constraints.selector = {{"gpu", {"h100"}, false}};
  EXPECT_NE(fixture_.Class(1000, 1, constraints), one);
}

TEST_F(FleetTest, RefusesShapesThatAreNoTree) {
  const ClassId one = fixture_.Class(1000, 1);
  GangShape shape;
  EXPECT_FALSE(fleet_.InternShape(shape).ok());
  shape.groups.resize(2);
  EXPECT_FALSE(fleet_.InternShape(shape).ok()) << "two roots";
  shape.groups[1].parent = 1;
  EXPECT_FALSE(fleet_.InternShape(shape).ok()) << "its own parent";
  shape.groups[1].parent = 0;
  EXPECT_TRUE(fleet_.InternShape(shape).ok());
  shape.groups[1].min = 2;
  shape.groups[1].max = 1;
  EXPECT_FALSE(fleet_.InternShape(shape).ok());
  shape.groups[1].max = 2;
  shape.groups[1].task_class = one + 1;
  EXPECT_FALSE(fleet_.InternShape(shape).ok());
}

TEST_F(FleetTest, ChargesWhatRunsAndFreesWhatLeft) {
  const NodeIndex node = fixture_.AddNode("c", "r", "a", 8000, 8);
  const GangIndex gang = fixture_.AddGang(fixture_.Flat(fixture_.Class(1000, 2), 3, 3));
  EXPECT_FALSE(fleet_.Start(gang, {{node, 0, 2}}, kNow).ok()) << "not whole";
  EXPECT_FALSE(fleet_.Start(gang, {{node + 1, 0, 3}}, kNow).ok()) << "no such node";
  ASSERT_TRUE(fleet_.Start(gang, {{node, 0, 3}}, kNow).ok());
  EXPECT_EQ(FreeGpus(node), 2);
  EXPECT_FALSE(fleet_.Start(gang, {{node, 0, 3}}, kNow).ok()) << "runs already";
  EXPECT_FALSE(fleet_.RemoveNode(node).ok());

  const GangIndex late = fixture_.AddGang(fixture_.Flat(fixture_.Class(1000, 2), 2, 2));
  EXPECT_FALSE(fleet_.Start(late, {{node, 0, 2}}, kNow).ok()) << "no room";
  EXPECT_EQ(FreeGpus(node), 2);
  fleet_.RemoveGang(gang);
  EXPECT_EQ(FreeGpus(node), 8);
  fleet_.SetSchedulable(node, false);
  EXPECT_FALSE(fleet_.Start(late, {{node, 0, 2}}, kNow).ok()) << "cordoned";
  EXPECT_TRUE(fleet_.RemoveNode(node).ok());
}

TEST_F(FleetTest, NominatesBeforeTheVictimHasGone) {
  const NodeIndex node = fixture_.AddNode("c", "r", "a", 8000, 8);
  const GangIndex victim = fixture_.AddGang(fixture_.Flat(fixture_.Class(1000, 8), 1, 1));
  ASSERT_TRUE(fleet_.Start(victim, {{node, 0, 1}}, kNow).ok());
  const GangIndex gang = fixture_.AddGang(fixture_.Flat(fixture_.Class(1000, 4), 1, 1));
  EXPECT_FALSE(fleet_.Nominate(gang, {{node, 0, 1}}, {}).ok()) << "no victim, no room";
  ASSERT_TRUE(fleet_.Nominate(gang, {{node, 0, 1}}, {victim}).ok());
  EXPECT_EQ(FreeGpus(node), -4);
  EXPECT_EQ(fleet_.gang(victim).state, GangState::kEnding);
  EXPECT_FALSE(fleet_.StartNominated(gang, kNow).ok());
  fleet_.RemoveGang(victim);
  EXPECT_TRUE(fleet_.StartNominated(gang, kNow).ok());
  EXPECT_EQ(FreeGpus(node), 4);
}

TEST_F(FleetTest, GrowsUpToTheMaximum) {
  const NodeIndex node = fixture_.AddNode("c", "r", "a", 8000, 8);
  const GangIndex gang = fixture_.AddGang(fixture_.Flat(fixture_.Class(1000, 1), 1, 3));
  ASSERT_TRUE(fleet_.Start(gang, {{node, 0, 1}}, kNow).ok());
  EXPECT_FALSE(fleet_.Grow(gang, {{node, 0, 3}}).ok());
  EXPECT_TRUE(fleet_.Grow(gang, {{node, 0, 2}}).ok());
  EXPECT_EQ(FreeGpus(node), 5);
}

TEST_F(FleetTest, FreezesAVersionForGood) {
  const NodeIndex node = fixture_.AddNode("c", "r", "a", 8000, 8);
  const GangIndex gang = fixture_.AddGang(fixture_.Flat(fixture_.Class(1000, 1), 1, 3));
  const auto before = fleet_.Freeze();
  ASSERT_TRUE(fleet_.Start(gang, {{node, 0, 1}}, kNow).ok());
  const auto after = fleet_.Freeze();
  EXPECT_EQ(before->nodes[node].free[fixture_.gpu()], 8);
  EXPECT_EQ(before->gangs[gang].state, GangState::kPending);
  EXPECT_EQ(before->holders.size(), 0u);
  EXPECT_EQ(after->nodes[node].free[fixture_.gpu()], 7);
  EXPECT_EQ(after->gangs[gang].state, GangState::kRunning);
  EXPECT_EQ(after->holders.size(), 1u);
  EXPECT_EQ(before->node_set, after->node_set);
  fleet_.SetSchedulable(node, false);
  EXPECT_NE(before->node_set, fleet_.Freeze()->node_set);
  EXPECT_LT(before->version, after->version);
}

TEST_F(FleetTest, ForksThatLeaveEachOtherAlone) {
  const NodeIndex node = fixture_.AddNode("c", "r", "a", 8000, 8);
  const ShapeId shape = fixture_.Flat(fixture_.Class(1000, 1), 1, 1);
  const GangIndex gang = fixture_.AddGang(shape);
  const std::unique_ptr<Fleet> fork = fleet_.Fork();
  ASSERT_TRUE(fork->Start(gang, {{node, 0, 1}}, kNow).ok());
  const NodeIndex more = fork->AddNode(fixture_.Traits("c", "r", "b", 8000, 8));
  EXPECT_EQ(fork->InternShape(fleet_.shape(shape)).value(), shape);
  EXPECT_EQ(FreeGpus(node), 8);
  EXPECT_EQ(fleet_.gang(gang).state, GangState::kPending);
  ASSERT_TRUE(fleet_.Start(gang, {{node, 0, 1}}, kNow).ok());
  fleet_.RemoveGang(gang);
  EXPECT_EQ(fork->gang(gang).state, GangState::kRunning);
  EXPECT_EQ(fork->node(node).free[fixture_.gpu()], 7);
  EXPECT_EQ(fork->Freeze()->nodes.size(), more + 1);
  EXPECT_EQ(fleet_.Freeze()->nodes.size(), more);
}

TEST(ConstraintsTest, SelectAndTolerate) {
  NodeTraits node;
  node.labels = {{"zone", "a"}, {"gpu", "h100"}};
  node.taints = {{"team", "vision"}};
  Constraints constraints;
  EXPECT_EQ(Admit(node, constraints), Admission::kTaint);
  constraints.tolerations = {{"team", false, "speech"}};
  EXPECT_EQ(Admit(node, constraints), Admission::kTaint);
  constraints.tolerations.push_back({"team", true, ""});
  EXPECT_EQ(Admit(node, constraints), Admission::kAdmitted);
  constraints.selector = {{"gpu", {"a100", "h100"}, false}, {"zone", {}, false}};
  EXPECT_EQ(Admit(node, constraints), Admission::kAdmitted);
  constraints.selector.push_back({"zone", {"a"}, true});
  EXPECT_EQ(Admit(node, constraints), Admission::kSelector);
}

}  // namespace
}  // namespace capstan::scheduler::round
