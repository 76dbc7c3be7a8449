#include "libs/crash_point/crash_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace capstan {
namespace {

class CrashPlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = absl::StrCat(::testing::TempDir(), "/plan-XXXXXX");
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    top_ = folder;
    plan_ = absl::StrCat(top_, "/", kCrashPlanFolder);
    for (const char* name : {"", "/seen", "/claimed"}) {
      ASSERT_EQ(mkdir(absl::StrCat(plan_, name).c_str(), 0700), 0);
    }
  }
  void Write(const std::string& text) { std::ofstream(plan_ + "/plan") << text << std::flush; }
  bool Exists(const std::string& name) {
    return access(absl::StrCat(plan_, "/", name).c_str(), F_OK) == 0;
  }

  std::string top_;
  std::string plan_;
};

TEST_F(CrashPlanTest, ARoleIsReadFromTheCommandLine) {
  const auto part = FindCrashRole(
      {"capstan", "serve", "scheduler", "--config=" + top_ + "/data/scheduler-2/config.yaml"});
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->part, "scheduler-2");
  EXPECT_EQ(part->folder, plan_);
  const auto shim = FindCrashRole({"capstan", "shim", top_ + "/data/node_agent/tasks/job/1/w-0"});
  ASSERT_TRUE(shim.has_value());
  EXPECT_EQ(shim->part, "shim");
  EXPECT_EQ(shim->folder, plan_);
}

TEST_F(CrashPlanTest, EveryOtherProcessHasNoRole) {
  EXPECT_FALSE(FindCrashRole({}).has_value());
  EXPECT_FALSE(FindCrashRole({"capstan", "--data-dir", top_ + "/data", "dev", "up"}).has_value());
  EXPECT_FALSE(FindCrashRole({"capstan", "shim", "--probe", top_ + "/data/x"}).has_value());
  EXPECT_FALSE(FindCrashRole({"capstan", "serve", "scheduler"}).has_value());
  rmdir((plan_ + "/seen").c_str());
  rmdir((plan_ + "/claimed").c_str());
  rmdir(plan_.c_str());
  EXPECT_FALSE(FindCrashRole({"capstan", "shim", top_ + "/data/node_agent/tasks/x"}).has_value());
}

TEST_F(CrashPlanTest, AFaultHappensOnceAtTheNthTimeOfItsPart) {
  Write("f1 executor store.committed 2 kill\nf2 executor store.committed 1 stop\n");
  CrashPlan other({"scheduler", plan_});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(other.Reached("store.committed"), CrashAction::kNone);
  CrashPlan executor({"executor", plan_});
  EXPECT_EQ(executor.Reached("store.before_commit"), CrashAction::kNone);
  EXPECT_EQ(executor.Reached("store.committed"), CrashAction::kStop);
  EXPECT_TRUE(Exists("claimed/f2"));
  EXPECT_FALSE(Exists("claimed/f1"));
  EXPECT_EQ(executor.Reached("store.committed"), CrashAction::kKill);
  EXPECT_EQ(executor.Reached("store.committed"), CrashAction::kNone);
  // Started again, it goes on.
  CrashPlan again({"executor", plan_});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(again.Reached("store.committed"), CrashAction::kNone);
}

TEST_F(CrashPlanTest, AFaultOfAnyPartIsOfTheFirstThatIsThereOftenEnough) {
  Write("f1 any audit.synced 2 kill\n");
  CrashPlan telemetry({"telemetry", plan_});
  CrashPlan executor({"executor", plan_});
  EXPECT_EQ(telemetry.Reached("audit.synced"), CrashAction::kNone);
  EXPECT_EQ(executor.Reached("audit.synced"), CrashAction::kNone);
  EXPECT_EQ(executor.Reached("audit.synced"), CrashAction::kKill);
  EXPECT_EQ(telemetry.Reached("audit.synced"), CrashAction::kNone);
}

TEST_F(CrashPlanTest, ALaterPlanIsSeenAndWhatWasReachedIsNoted) {
  CrashPlan plan({"shim", plan_});
  EXPECT_EQ(plan.Reached("shim.forked"), CrashAction::kNone);
  EXPECT_TRUE(Exists("seen/shim@shim.forked"));
  Write("late shim shim.forked 1 kill\n");
  EXPECT_EQ(plan.Reached("shim.forked"), CrashAction::kKill);
}

}  // namespace
}  // namespace capstan
