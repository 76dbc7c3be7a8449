#include "services/scheduler/core/leases.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace capstan::scheduler {
namespace {

BootTime At(absl::Duration d) { return BootTime() + d; }

TEST(LeaseTableTest, AnExecutorFallsSilentAfterSuspectAfter) {
  LeaseTable table((CoreConfig()));
  table.AddCluster("c", At(absl::ZeroDuration()));
  table.AddNode({"c", "n"}, false, false, At(absl::ZeroDuration()));
  table.Heard("c", At(absl::Seconds(10)));
  EXPECT_EQ(table.NextExpiry(), At(absl::Seconds(25)));
  EXPECT_TRUE(table.Expire(At(absl::Seconds(24))).empty());
  EXPECT_EQ(table.Expire(At(absl::Seconds(25))).size(), 1u);
  EXPECT_TRUE(table.NodeSilent({"c", "n"}));
  EXPECT_EQ(table.ConfirmedBound({"c", "n"}), At(absl::Seconds(10)));
  EXPECT_EQ(table.NextExpiry(), BootTime::InfiniteFuture());
  table.Heard("c", At(absl::Seconds(30)));
  EXPECT_FALSE(table.NodeSilent({"c", "n"}));
}

TEST(LeaseTableTest, ANodeReportedSilentIsBoundByTheReportHoweverLongItsExecutorTalks) {
  LeaseTable table((CoreConfig()));
  table.AddCluster("c", At(absl::ZeroDuration()));
  table.AddNode({"c", "n"}, false, false, At(absl::ZeroDuration()));
  table.ReportNode({"c", "n"}, true, At(absl::Seconds(5)));
  table.Heard("c", At(absl::Hours(1)));
  EXPECT_EQ(table.ConfirmedBound({"c", "n"}), At(absl::Seconds(5)));
  table.ReportNode({"c", "n"}, true, At(absl::Hours(2)));
  EXPECT_EQ(table.ConfirmedBound({"c", "n"}), At(absl::Seconds(5))) << "saying it again is no news";
  table.ReportNode({"c", "n"}, false, At(absl::Hours(3)));
  table.Heard("c", At(absl::Hours(3)));
  EXPECT_EQ(table.ConfirmedBound({"c", "n"}), At(absl::Hours(3)));
}

TEST(LeaseTableTest, NamesThoseThatAreSilentOrWhoseExecutorIsEachOnceAndInOrder) {
  LeaseTable table((CoreConfig()));
  for (const char* cluster : {"a", "b"}) {
    table.AddCluster(cluster, At(absl::ZeroDuration()));
    table.AddNode({cluster, "n1"}, false, false, At(absl::ZeroDuration()));
    table.AddNode({cluster, "n2"}, true, false, At(absl::ZeroDuration()));
  }
  EXPECT_EQ(table.SilentNodes(), (std::vector<NodeId>{{"a", "n2"}, {"b", "n2"}}));
  table.Heard("b", At(absl::Seconds(10)));
  table.Expire(At(absl::Seconds(15)));
  EXPECT_EQ(table.SilentNodes(), (std::vector<NodeId>{{"a", "n1"}, {"a", "n2"}, {"b", "n2"}}));
  table.ReportNode({"b", "n2"}, false, At(absl::Seconds(16)));
  table.ReportNode({"a", "n1"}, true, At(absl::Seconds(16)));
  EXPECT_EQ(table.SilentNodes(), (std::vector<NodeId>{{"a", "n1"}, {"a", "n2"}}));
  table.Heard("a", At(absl::Seconds(17)));
  EXPECT_EQ(table.SilentNodes(), (std::vector<NodeId>{{"a", "n1"}, {"a", "n2"}}));
  for (const char* node : {"n1", "n2"}) table.ReportNode({"a", node}, false, At(absl::Hours(1)));
  EXPECT_TRUE(table.SilentNodes().empty());
}

TEST(LeaseTableTest, WhatIsUnknownIsNeverGivenUp) {
  LeaseTable table((CoreConfig()));
  EXPECT_EQ(table.ConfirmedBound({"c", "n"}), BootTime::InfiniteFuture());
}

struct FreezeCase {
  int total;
  int fallen;
  absl::Duration apart;
  bool frozen;
};

class ExecutorFreezeTest : public ::testing::TestWithParam<FreezeCase> {};

TEST_P(ExecutorFreezeTest, CountsBothShareAndNumberWithinTheWindow) {
  const FreezeCase& c = GetParam();
  LeaseTable table((CoreConfig()));
  for (int i = 0; i < c.total; ++i)
    table.AddCluster(absl::StrCat("c", i), At(absl::ZeroDuration()));
  BootTime now = At(absl::ZeroDuration());
  for (int i = 0; i < c.fallen; ++i) {
    // All others are heard all the time, those before it no more.
    for (absl::Duration passed; passed < c.apart + absl::Seconds(15); passed += absl::Seconds(5)) {
      now = now + absl::Seconds(5);
      for (int j = i + 1; j < c.total; ++j) table.Heard(absl::StrCat("c", j), now);
      table.Expire(now);
    }
  }
  EXPECT_EQ(table.frozen(), c.frozen);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ExecutorFreezeTest,
    ::testing::Values(FreezeCase{3, 2, absl::ZeroDuration(), false},  // fewer than 3
                      FreezeCase{3, 3, absl::ZeroDuration(), true},
                      FreezeCase{14, 3, absl::ZeroDuration(), true},   // 21 %
                      FreezeCase{15, 3, absl::ZeroDuration(), false},  // 20 % is not more than 20 %
                      FreezeCase{5, 3, absl::Minutes(6), false},       // one after the other
                      FreezeCase{5, 3, absl::Minutes(1), true}));

TEST(LeaseTableTest, FreezesForNodesExceptThoseOfASilentExecutor) {
  LeaseTable table((CoreConfig()));
  const BootTime now = At(absl::ZeroDuration());
  for (const char* cluster : {"a", "b"}) {
    table.AddCluster(cluster, now);
    for (int i = 0; i < 20; ++i) table.AddNode({cluster, absl::StrCat("n", i)}, false, false, now);
  }
  for (int i = 0; i < 9; ++i) table.ReportNode({"a", absl::StrCat("n", i)}, true, now);
  EXPECT_FALSE(table.frozen()) << "nine are fewer than ten";
  table.ReportNode({"a", "n9"}, true, now);
  EXPECT_TRUE(table.frozen());
  // Fewer are silent: it thaws by itself.
  table.ReportNode({"a", "n9"}, false, now);
  EXPECT_FALSE(table.frozen());
  table.ReportNode({"a", "n9"}, true, now);
  EXPECT_TRUE(table.frozen());
  // Their executor falls silent too: now it is one executor, not ten Nodes.
  table.Heard("b", At(absl::Seconds(10)));
  table.Expire(At(absl::Seconds(15)));
  EXPECT_FALSE(table.frozen());
}

TEST(LeaseTableTest, AnOperatorsWordThawsAndCountsUntilTheyReturn) {
  LeaseTable table((CoreConfig()));
  for (int i = 0; i < 4; ++i) table.AddCluster(absl::StrCat("c", i), At(absl::ZeroDuration()));
  table.Heard("c3", At(absl::Seconds(10)));
  table.Expire(At(absl::Seconds(15)));
  EXPECT_TRUE(table.frozen());
  table.Confirm();
  EXPECT_FALSE(table.frozen());
  table.Expire(At(absl::Seconds(25)));
  EXPECT_FALSE(table.frozen()) << "a single further one";
}

}  // namespace
}  // namespace capstan::scheduler
