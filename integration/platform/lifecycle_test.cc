// Starting, showing and stopping a platform as a person does, with nothing left behind.
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/terminal.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kInterrupted = 130;

class LifecycleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>();
  }

  // Starts a command whose output goes to a file; `until` is awaited there.
  dev::Child StartUntil(const std::vector<std::string>& arguments, absl::string_view until) {
    dev::SpawnOptions spawn;
    spawn.argv = platform_->CommandLine(arguments);
    spawn.environment = {"PATH=/usr/bin:/bin", "HOME=" + platform_->folder(), "LANG=C.UTF-8"};
    output_ = absl::StrCat(platform_->folder(), "/shown-", ++shown_);
    spawn.output_file = output_;
    auto child = dev::Child::Spawn(spawn);
    EXPECT_TRUE(child.ok()) << child.status();
    EXPECT_TRUE(platform_->Await([&] { return absl::StrContains(Shown(), until); })) << Shown();
    return *std::move(child);
  }
  std::string Shown() const {
    std::ifstream in(output_);
    return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }
  int Finish(dev::Child child) {
    int wait_status = 0;
    waitpid(child.id().pid, &wait_status, 0);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  }
  void ExpectNothingLeft() {
    EXPECT_EQ(::testing::PrintToString(platform_->Leftovers()), "{}") << Shown();
  }

  std::unique_ptr<TestPlatform> platform_;
  std::string output_;
  int shown_ = 0;
};

TEST_F(LifecycleTest, TheDemoSucceedsIntoAFileTwice) {
  const std::string example = platform_->CopyOfExample();
  for (int run = 0; run < 2; ++run) {
    const CommandResult demo = platform_->Capstan({"dev", "demo", "--example", example});
    EXPECT_EQ(demo.exit_code, 0) << demo.out << demo.err;
    for (const char* part : {"RUNNING", "[3]", "loss", "\"accuracy\": 0.9", "outputs"}) {
      EXPECT_THAT(demo.out, HasSubstr(part));
    }
    // The second one finds the Dataset loaded.
    EXPECT_THAT(demo.out, HasSubstr(run == 0 ? "100%" : "already"));
    EXPECT_THAT(demo.out, Not(HasSubstr("\x1b"))) << "no colour where there is no terminal";
    ExpectNothingLeft();
  }
}

TEST_F(LifecycleTest, AKeptDemoRunsOnUntilItIsStopped) {
  const CommandResult demo =
      platform_->Capstan({"dev", "demo", "--keep", "--example", platform_->CopyOfExample()});
  EXPECT_EQ(demo.exit_code, 0) << demo.out << demo.err;
  EXPECT_THAT(platform_->MustCapstan({"dev", "status"}), HasSubstr("READY"));
  EXPECT_THAT(platform_->MustCapstan({"job", "list"}), HasSubstr("SUCCEEDED"));
  platform_->MustCapstan({"dev", "down"});
  ExpectNothingLeft();
}

TEST_F(LifecycleTest, AnInterruptedDemoLeavesNothingBehind) {
  const std::string example = platform_->CopyOfExample();
  for (const char* stage : {"starting the platform", "submitting", "RUNNING", "step 500/"}) {
    SCOPED_TRACE(stage);
    dev::Child demo = StartUntil({"dev", "demo", "--example", example}, stage);
    dev::SignalProcess(demo.id(), SIGINT);
    EXPECT_EQ(Finish(std::move(demo)), kInterrupted) << Shown();
    ExpectNothingLeft();
  }
}

TEST_F(LifecycleTest, InATerminalTheDemoHasColourAndCtrlCEndsIt) {
  const auto demo = Terminal::Start(
      platform_->CommandLine({"dev", "demo", "--example", platform_->CopyOfExample()}),
      {"PATH=/usr/bin:/bin", "HOME=" + platform_->folder(), "LANG=C.UTF-8", "TERM=xterm-256color"});
  ASSERT_NE(demo, nullptr);
  EXPECT_TRUE(demo->AwaitText("step 100/", absl::Seconds(60))) << demo->shown();
  EXPECT_THAT(demo->shown(), HasSubstr("\x1b["));
  demo->Type("\x03");
  EXPECT_EQ(demo->Finish(absl::Seconds(60)), kInterrupted) << demo->shown();
  ExpectNothingLeft();
}

TEST_F(LifecycleTest, KeptTasksAreAdoptedByTheNextPlatform) {
  platform_->Up();
  platform_->Submit({.id = "kept", .ranks = 1, .steps = 160, .checkpoint_every = 40});
  ASSERT_TRUE(platform_->Await([&] { return platform_->Witnesses().Count("start") == 1; }));
  const auto task = platform_->FindTask("kept", 1, 0);
  ASSERT_TRUE(task.has_value());
  platform_->Down({"--keep-tasks"});
  EXPECT_TRUE(dev::IsAlive(task->program)) << "the Task runs without any platform";
  platform_->Up();
  EXPECT_TRUE(dev::IsAlive(task->program));
  EXPECT_EQ(platform_->MustSucceed("kept").generation(), 1);
  EXPECT_EQ(platform_->Witnesses().Count("start"), 1);
}

TEST_F(LifecycleTest, CtrlCInTheForegroundStopsPartsAndTasks) {
  dev::Child up = StartUntil({"dev", "up", "--config", platform_->config_file()}, "Ctrl-C");
  platform_->Submit({.id = "ended", .ranks = 2, .steps = 10000, .orphan = true});
  ASSERT_TRUE(platform_->Await([&] { return platform_->Witnesses().Count("start") == 2; }));
  dev::SignalProcess(up.id(), SIGINT);
  EXPECT_EQ(Finish(std::move(up)), 0) << Shown();
  ExpectNothingLeft();
}

}  // namespace
}  // namespace capstan::integration
