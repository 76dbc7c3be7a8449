#include "libs/lifecycle/process_end.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace capstan::lifecycle {
namespace {

// A line that no one flushes is still printed; nothing runs after it. All through stderr, the only
// stream that a death test sees.
void EndWithHandlers() {
  std::atexit([] { std::fputs("atexit ran\n", stderr); });
  struct Farewell {
    ~Farewell() { std::fputs("a destructor ran\n", stderr); }
  };
  static const Farewell farewell;
  setvbuf(stderr, nullptr, _IOFBF, 1024);
  std::fputs("last words\n", stderr);
  EndProcess(7);
}

TEST(ProcessEndDeathTest, FlushesAndRunsNothingElse) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(EndWithHandlers(), testing::ExitedWithCode(7), "^last words\n$");
}

TEST(ProcessEndDeathTest, ACrashSaysWhereAndIsStillOne) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        ReportCrashes("process_end_test");
        raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), "SIGSEGV received at(.|\n)*PC: @");
}

TEST(ProcessEndDeathTest, BeingAskedToEndIsNoCrash) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        ReportCrashes("process_end_test");
        raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "^$");
}

// Where cores would be left if the machine leaves them.
void AbortWithoutCore(const std::string& folder) {
  const rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_CORE, &any);
  if (chdir(folder.c_str()) != 0) _exit(1);
  ForbidCores();
  rlimit now = {};
  getrlimit(RLIMIT_CORE, &now);
  // With a limit of 0 a program that core_pattern names would still get it.
  if (now.rlim_cur != 1 || now.rlim_max != 1) _exit(2);
  abort();
}

TEST(ProcessEndDeathTest, ACrashLeavesNoCore) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  std::string folder = testing::TempDir() + "/cores-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_EXIT(AbortWithoutCore(folder), testing::KilledBySignal(SIGABRT), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace capstan::lifecycle
