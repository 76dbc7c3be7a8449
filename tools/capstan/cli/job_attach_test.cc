#include "tools/capstan/cli/job_attach.h"

#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "tools/capstan/cli/command_exit.h"

namespace capstan::cli {
namespace {

TEST(ParsePortPairTest, OneNumberStandsForBoth) {
  EXPECT_EQ(ParsePortPair("8080")->local, 8080);
  EXPECT_EQ(ParsePortPair("8080")->remote, 8080);
  EXPECT_EQ(ParsePortPair("9000:80")->local, 9000);
  EXPECT_EQ(ParsePortPair("9000:80")->remote, 80);
  EXPECT_EQ(ParsePortPair(":80")->local, 0);
  EXPECT_EQ(ParsePortPair(":80")->remote, 80);
}

TEST(ParsePortPairTest, EverythingElseIsRefused) {
  for (const char* bad : {"", ":", "0", "65536", "80:", "80:0", "a:80", "80:80:80", "-1", "1.5",
                          "+80", " 80", "80 ", "8080:+80"}) {
    EXPECT_EQ(status::Reason(ParsePortPair(bad).status()), "BAD_PORT") << bad;
  }
}

TEST(CommandExitTest, TheCodeComesBackUnlessItIsZero) {
  EXPECT_TRUE(CommandExit(0).ok());
  EXPECT_FALSE(CommandExitCode(CommandExit(0)).has_value());
  EXPECT_EQ(CommandExitCode(CommandExit(7)), 7);
  EXPECT_EQ(CommandExitCode(CommandExit(255)), 255);
  EXPECT_FALSE(CommandExitCode(absl::AbortedError("other")).has_value());
}

}  // namespace
}  // namespace capstan::cli
