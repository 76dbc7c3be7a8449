// What people do to a Job that runs, on a whole platform: look at what its Tasks use.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/terminal.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

constexpr int kHeldMiB = 96;

// Rank 0 burns a core and holds memory that it has written to; rank 1 does nothing. By $FILE the
// platform's test finds the Task's processes.
constexpr char kJob[] =
    "job_id: uses\n"
    "spec:\n"
    "  task_groups:\n"
    "    - name: busy\n"
    "      replicas: 1\n"
    "      argv: [/usr/bin/python3, -c, \"held = b'x' * (96 << 20)\\nwhile True: pass\"]\n"
    "      env: {WITNESS_FILE: $FILE}\n"
    "      resources: {cpu: 500m, memory: 192Mi}\n"
    "    - name: idle\n"
    "      replicas: 1\n"
    "      argv: [/bin/sleep, '3600']\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

class RunningJobTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    platform_ = new TestPlatform();
    platform_->Up();
    const CommandResult submitted = platform_->SubmitText(
        "uses",
        absl::StrReplaceAll(kJob, {{"$FILE", absl::StrCat(platform_->folder(), "/witness/log")}}));
    EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
    EXPECT_TRUE(platform_->Await(
        [] { return platform_->Get("uses").state() == scheduler::v1::Job::STATE_RUNNING; }));
  }
  static void TearDownTestSuite() {
    if (platform_ == nullptr) return;
    platform_->MustCapstan({"job", "cancel", "uses", "--wait"});
    delete platform_;
    platform_ = nullptr;
  }
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
  }

  // What a template makes of `job top`.
  static std::string Top(const std::string& path) {
    return platform_->MustCapstan({"job", "top", "uses", "-o", absl::StrCat("jsonpath=", path)});
  }

  static TestPlatform* platform_;
};

TestPlatform* RunningJobTest::platform_ = nullptr;

// Seconds of cpu that a process has had, by the kernel's count of ticks.
double CpuSeconds(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::vector<std::string> fields = absl::StrSplit(all.substr(all.rfind(')') + 2), ' ');
  double user = 0;
  double system = 0;
  if (fields.size() < 13 || !absl::SimpleAtod(fields[11], &user) ||
      !absl::SimpleAtod(fields[12], &system)) {
    return -1;
  }
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double Seconds(std::string text) {
  double seconds = -1;
  if (!text.empty() && text.back() == 's') text.pop_back();
  return absl::SimpleAtod(text, &seconds) ? seconds : -1;
}

int64_t Number(const std::string& text) {
  int64_t number = -1;
  return absl::SimpleAtoi(text, &number) ? number : -1;
}

TEST_F(RunningJobTest, TopShowsWhatTheKernelAccounts) {
  absl::optional<TaskProcesses> task;
  ASSERT_TRUE(platform_->Await([&] {
    task = platform_->FindTask("uses", 1, 0);
    return task.has_value();
  }));
  const double before = CpuSeconds(task->program.pid);
  // Samples that were taken after `before`, two of them for a rate.
  ASSERT_TRUE(platform_->Await([&] {
    return Seconds(Top("{.items[0].usage.cpu_time}")) > before + 1 &&
           Number(Top("{.items[0].usage.cpu_millis}")) > 0;
  })) << Top("{.items[*]}");
  const double shown = Seconds(Top("{.items[0].usage.cpu_time}"));
  // The group has the init as well, and a tick is a hundredth.
  EXPECT_LE(shown, CpuSeconds(task->program.pid) + 0.5);
  // As much of a core as this machine has to give at that moment, and no more than one.
  EXPECT_THAT(Number(Top("{.items[0].usage.cpu_millis}")), AllOf(Ge(20), Le(1200)));
  EXPECT_THAT(Number(Top("{.items[0].usage.memory_bytes}")),
              AllOf(Ge(int64_t{kHeldMiB} << 20), Le(int64_t{kHeldMiB + 40} << 20)));
  EXPECT_THAT(Number(Top("{.items[0].usage.memory_peak_bytes}")), Ge(int64_t{kHeldMiB} << 20));
  // Half of what was asked for, and the interpreter.
  EXPECT_THAT(Number(absl::StrCat(static_cast<int64_t>(
                  Seconds(absl::StrCat(Top("{.items[0].memory_percent}"), "s"))))),
              AllOf(Ge(50), Le(75)));
  // The init and the program.
  EXPECT_EQ(Top("{.items[0].usage.processes}"), "2");
  // No device port: no figure, rather than 0.
  EXPECT_EQ(Top("{.items[0].usage.accelerators}"), "");

  ASSERT_TRUE(platform_->Await([&] { return !Top("{.items[1].usage.cpu_millis}").empty(); }));
  EXPECT_THAT(Number(Top("{.items[1].usage.cpu_millis}")), Le(15));
  EXPECT_THAT(Number(Top("{.items[1].usage.memory_bytes}")), Le(int64_t{20} << 20));
}

TEST_F(RunningJobTest, TopIsPrintedOnceIntoAPipeInTheOrderAskedFor) {
  ASSERT_TRUE(platform_->Await([&] {
    return Number(Top("{.items[0].usage.cpu_millis}")) > 0 &&
           !Top("{.items[1].usage.cpu_millis}").empty();
  }));
  const std::string table = platform_->MustCapstan({"job", "top", "uses", "--sort-by", "cpu"});
  const std::vector<std::string> lines = absl::StrSplit(table, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u) << table;
  EXPECT_THAT(lines[0], ::testing::MatchesRegex(
                            "RANK +TASK +NODE +CPU +CPU% +MEMORY +MEMORY% +GPU +GPU MEMORY +AGE"));
  EXPECT_THAT(lines[1], ::testing::MatchesRegex(
                            "0 +busy-0 +node-0 +[0-9]+m +[0-9]+% +.* MiB +[0-9]+% +- +- +[0-9]+s"));
  EXPECT_THAT(lines[2], HasSubstr("idle-0"));
  EXPECT_EQ(table.find('\x1b'), std::string::npos);
}

TEST_F(RunningJobTest, TopIsDrawnAgainOnATerminal) {
  const auto terminal = Terminal::Start(platform_->CommandLine({"job", "top", "uses"}),
                                        {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TERM=xterm"});
  ASSERT_NE(terminal, nullptr);
  // State, header and two Tasks: the second drawing begins four lines up.
  EXPECT_TRUE(terminal->AwaitText("busy-0", absl::Seconds(30))) << terminal->shown();
  EXPECT_TRUE(terminal->AwaitText("\x1b[4F", absl::Seconds(30))) << terminal->shown();
  EXPECT_THAT(terminal->shown(), HasSubstr("uses "));
  terminal->Type("\x03");
  terminal->Finish(absl::Seconds(10));
}

TEST_F(RunningJobTest, TopOfAJobThatIsOverOrUnknownSaysSo) {
  const CommandResult submitted = platform_->SubmitText(
      "short",
      "job_id: short\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
      "      argv: [/bin/true]\n      resources: {cpu: 10m, memory: 32Mi}\n");
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  platform_->MustSucceed("short");
  const CommandResult over = platform_->Capstan({"job", "top", "short"});
  EXPECT_EQ(over.exit_code, 0);
  EXPECT_EQ(over.out, "");
  EXPECT_THAT(over.err, HasSubstr("short has ended as SUCCEEDED: its Tasks use nothing any more"));
  EXPECT_EQ(platform_->Capstan({"job", "top", "nosuch"}).exit_code, 4);
  EXPECT_EQ(platform_->Capstan({"job", "top", "short", "--sort-by", "age"}).exit_code, 2);
}

}  // namespace
}  // namespace capstan::integration
