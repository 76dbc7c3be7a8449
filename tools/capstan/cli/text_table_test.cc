#include "tools/capstan/cli/text_table.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "tools/capstan/cli/human_format.h"

namespace capstan::cli {
namespace {

TEST(TextTableTest, AlignsAndHasNoSpacesAtTheEnd) {
  TextTable table({"NAME", "STATE"});
  table.AddRow({"digits", "RUNNING"});
  table.AddRow({"ä", ""});
  EXPECT_EQ(table.Render(Terminal()), "NAME    STATE\ndigits  RUNNING\nä       -\n");
}

TEST(TextTableTest, ColourGoesToTerminalsOnlyAndDoesNotShiftColumns) {
  TextTable table({"A", "B"});
  table.AddRow({TextTable::Cell("x", Colour::kRed), "y"});
  EXPECT_EQ(table.Render(Terminal()), "A  B\nx  y\n");
  const Terminal terminal = {.interactive = true, .colour = true, .columns = 80};
  EXPECT_EQ(table.Render(terminal), "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m\n\x1b[31mx\x1b[0m  y\n");
}

TEST(TerminalTest, APipeIsNoTerminal) {
  const Terminal terminal = Terminal::Detect(-1, nullptr, "xterm");
  EXPECT_FALSE(terminal.interactive);
  EXPECT_FALSE(terminal.colour);
}

TEST(TerminalTest, ForeignTextCannotMoveTheCursor) {
  EXPECT_EQ(WithoutControls("a\x1b[2J\tb\r"), "a\\x1b[2J\tb\\x0d");
  EXPECT_EQ(WithoutControls("\xc2\x9b"
                            "1A ä"),
            "\\u009b1A ä");
  // The same command in one byte, and characters that are none.
  EXPECT_EQ(WithoutControls("\x9b"
                            "1A\xc2 \xff\xe2\x82"),
            "\\x9b1A\\xc2 \\xff\\xe2\\x82");
  TextTable table({"A\x1b[2J"});
  table.AddRow({"x\x1b]0;title\x07"});
  EXPECT_EQ(table.Render(Terminal()).find('\x1b'), std::string::npos);
}

TEST(HumanFormatTest, RoundsForPeople) {
  EXPECT_EQ(Percent(std::numeric_limits<int64_t>::max(), 1), "100%");
  EXPECT_EQ(Percent(std::numeric_limits<int64_t>::min(), 1), "0%");
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(int64_t{12} << 30), "12 GiB");
  EXPECT_EQ(HumanDuration(absl::Milliseconds(3)), "0s");
  EXPECT_EQ(HumanDuration(absl::Seconds(200)), "3m20s");
  EXPECT_EQ(HumanDuration(absl::Hours(2)), "2h");
  EXPECT_EQ(HumanDuration(absl::Hours(76)), "3d4h");
  EXPECT_EQ(HumanAge(absl::UnixEpoch(), absl::UnixEpoch() + absl::Hours(1)), "");
  EXPECT_EQ(Percent(1, 3), "33%");
  EXPECT_EQ(Percent(1, 0), "?");
  EXPECT_EQ(ProgressBar(5, 10, 10), "[#####.....] 50%");
  EXPECT_EQ(LastSegment("projects/p/jobs/j"), "j");
  type::v1::TaskEnd end;
  end.set_cause(type::v1::TaskEnd::CAUSE_OUT_OF_MEMORY);
  EXPECT_EQ(DescribeEnd(end), "out of memory");
  end.set_cause(type::v1::TaskEnd::CAUSE_EXITED);
  end.set_exit_code(3);
  EXPECT_EQ(DescribeEnd(end), "exit 3");
}

}  // namespace
}  // namespace capstan::cli
