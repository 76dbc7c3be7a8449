#include "libs/lifecycle/process_end.h"

#include <signal.h>

#include <cstdio>
#include <cstdlib>

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

}  // namespace
}  // namespace capstan::lifecycle
