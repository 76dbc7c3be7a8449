#include "tools/capstan/cli/live_lines.h"

#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace capstan::cli {
namespace {

Terminal Wide(int columns) {
  Terminal terminal;
  terminal.interactive = true;
  terminal.columns = columns;
  return terminal;
}

TEST(LiveLinesTest, APipeGetsWholeLinesOnly) {
  std::ostringstream out;
  {
    LiveLines lines(&out, Terminal());
    lines.Show("data", "50%");
    lines.Print("one");
    lines.Show("data", "");
    lines.Print("two");
  }
  EXPECT_EQ(out.str(), "one\ntwo\n");
}

TEST(LiveLinesTest, ATerminalHasOneLineThatIsRewritten) {
  std::ostringstream out;
  {
    LiveLines lines(&out, Wide(80));
    lines.Show("data", "50%");
    lines.Show("data", "60%");
    lines.Print("one");
  }
  EXPECT_EQ(out.str(), "50%\r\x1b[K60%\r\x1b[Kone\n60%\r\x1b[K");
}

TEST(LiveLinesTest, TheLineIsCutToTheTerminalAndHoldsNoControls) {
  std::ostringstream out;
  LiveLines lines(&out, Wide(14));
  lines.Show("data", "ä\x1b[2J0123456789abcdef");
  EXPECT_EQ(out.str(), "ä\\x1b[2J01234");
}

}  // namespace
}  // namespace capstan::cli
