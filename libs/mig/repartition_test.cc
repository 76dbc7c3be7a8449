#include "libs/mig/repartition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "libs/mig/packing.h"
#include "libs/mig/plan_judge.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "libs/status/error.h"

namespace capstan::mig {
namespace {

class RepartitionTest : public ::testing::Test {
 protected:
  int Profile(const std::string& name) const { return ParseProfile(table_.model(), name).value(); }
  void Stands(size_t gpu, const std::string& name, int start, int holder) {
    request_.gpus = std::max(request_.gpus, gpu + 1);
    request_.instances.push_back(
        {{gpu, table_.FindPosition({Profile(name), start}).value()}, holder});
  }
  void Wants(const std::string& name) { request_.wanted.push_back(Profile(name)); }
  absl::optional<RepartitionPlan> Plan() {
    absl::optional<RepartitionPlan> plan = PlanRepartition(packing_, request_).value();
    if (plan.has_value()) {
      EXPECT_EQ(WhatIsWrong(table_, request_, *plan), "");
    }
    return plan;
  }
  static int Count(const RepartitionPlan& plan, Act::Kind kind) {
    return static_cast<int>(std::count_if(plan.acts.begin(), plan.acts.end(),
                                          [kind](const Act& act) { return act.kind == kind; }));
  }

  StateTable table_{FindDeviceModel("H100-80GB").value()};
  Packing packing_{&table_, EvenDemand(table_.model())};
  RepartitionRequest request_;
};

TEST_F(RepartitionTest, FreeInstanceOfTheProfileCostsNothing) {
  Stands(0, "3g.40gb", 4, kNobody);
  Wants("3g.40gb");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->cost, 0);
  EXPECT_EQ(plan->granted[0].position, request_.instances[0].place.position);
}

// Seven free 1g left over from yesterday do not keep a 7g from being made: nobody is stopped.
TEST_F(RepartitionTest, UnusedInstancesMakeWay) {
  for (int start = 0; start < 7; ++start) Stands(0, "1g.10gb", start, kNobody);
  Wants("7g.80gb");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->work_lost, 0);
  EXPECT_EQ(plan->cost, 8);
  EXPECT_EQ(Count(*plan, Act::Kind::kDestroy), 7);
}

TEST_F(RepartitionTest, UnusedInstancesOutOfTheWayStay) {
  Stands(0, "1g.10gb", 0, kNobody);
  Stands(0, "1g.10gb", 5, kNobody);
  Wants("3g.40gb");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(Count(*plan, Act::Kind::kDestroy), 1);
  EXPECT_EQ(plan->cost, 2);
}

// A 1g in the middle of the lower half moves to the upper one instead of being ended.
TEST_F(RepartitionTest, OneThatStandsInTheWayMovesOnItsGpu) {
  request_.gangs = {{100, 150}};
  Stands(0, "1g.10gb", 1, 0);
  Wants("4g.40gb");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->work_lost, 100);
  EXPECT_EQ(Count(*plan, Act::Kind::kStart), 1);
}

TEST_F(RepartitionTest, TheCheaperOfTwoIsEnded) {
  request_.gangs = {{absl::nullopt, 70}, {absl::nullopt, 60}};
  Stands(0, "3g.40gb", 0, 0);
  Stands(0, "3g.40gb", 4, 1);
  Wants("2g.20gb");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->work_lost, 60);
}

// Volcano #5984 ended ten where one sufficed.
TEST_F(RepartitionTest, OneIsStoppedWhereOneSuffices) {
  for (int gpu = 0; gpu < 3; ++gpu) {
    request_.gangs.push_back({absl::nullopt, 10});
    request_.gangs.push_back({absl::nullopt, 10});
    Stands(static_cast<size_t>(gpu), "4g.40gb", 0, 2 * gpu);
    Stands(static_cast<size_t>(gpu), "3g.40gb", 4, 2 * gpu + 1);
  }
  Wants("3g.40gb");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(Count(*plan, Act::Kind::kStop), 1);
}

TEST_F(RepartitionTest, WhoMustNotBeStoppedIsNot) {
  request_.gangs = {{}};
  Stands(0, "1g.10gb", 3, 0);
  Wants("7g.80gb");
  EXPECT_FALSE(Plan().has_value());
  request_.wanted.clear();
  Wants("3g.40gb");
  EXPECT_TRUE(Plan().has_value());
}

// A gang on two GPUs is ended on both, and counted once.
TEST_F(RepartitionTest, GangsGoWhole) {
  request_.gangs = {{absl::nullopt, 500}};
  Stands(0, "7g.80gb", 0, 0);
  Stands(1, "7g.80gb", 0, 0);
  Wants("7g.80gb");
  Wants("7g.80gb");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->cost, 500);
  EXPECT_EQ(Count(*plan, Act::Kind::kStop), 1);
}

// Two GPUs with one small Task each: one moves to the other GPU, and a whole GPU is there.
TEST_F(RepartitionTest, SmallTasksMoveTogether) {
  request_.gangs = {{30, 90}, {20, 80}};
  Stands(0, "1g.10gb", 2, 0);
  Stands(1, "1g.10gb", 2, 1);
  Wants("7g.80gb");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->work_lost, 20);
  EXPECT_EQ(plan->granted[0].gpu, 1U);
  EXPECT_EQ(Count(*plan, Act::Kind::kStart), 1);
}

TEST_F(RepartitionTest, WrongRequestsAreRefused) {
  request_.gpus = 1;
  const auto reason = [this] {
    return status::Reason(PlanRepartition(packing_, request_).status());
  };
  request_.wanted = {7};
  EXPECT_EQ(reason(), "WRONG_REPARTITION");
  request_.wanted = {};
  request_.instances = {{{1, 0}, kNobody}};
  EXPECT_EQ(reason(), "WRONG_REPARTITION");
  request_.instances = {{{0, 99}, kNobody}};
  EXPECT_EQ(reason(), "WRONG_REPARTITION");
  request_.instances = {{{0, 0}, 0}};
  EXPECT_EQ(reason(), "WRONG_REPARTITION");
  request_.instances = {{{0, 0}, kNobody}, {{0, 0}, kNobody}};
  EXPECT_EQ(reason(), "ILLEGAL_MIG_LAYOUT");
  request_.instances = {};
  request_.gangs = {{-1, 0}};
  EXPECT_EQ(reason(), "WRONG_REPARTITION");
  request_.gangs = {};
  request_.act_cost = -1;
  EXPECT_EQ(reason(), "WRONG_REPARTITION");
}

}  // namespace
}  // namespace capstan::mig
