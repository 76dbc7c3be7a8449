#include "tools/capstan/cli/live_table.h"

#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace capstan::cli {
namespace {

TEST(LiveTableTest, DrawsOverWhatItDrew) {
  std::ostringstream out;
  LiveTable table(&out);
  table.Draw("a\nb\n", {80, 24});
  EXPECT_EQ(out.str(), "\x1b[?7la\x1b[K\nb\x1b[K\n\x1b[?7h\x1b[J");
  out.str("");
  table.Draw("c\n", {80, 24});
  EXPECT_EQ(out.str(), "\x1b[2F\x1b[?7lc\x1b[K\n\x1b[?7h\x1b[J");
  out.str("");
  table.Draw("d\n", {80, 24});
  EXPECT_EQ(out.str(), "\x1b[1F\x1b[?7ld\x1b[K\n\x1b[?7h\x1b[J");
}

TEST(LiveTableTest, WhatDoesNotFitIsCounted) {
  std::ostringstream out;
  LiveTable table(&out);
  table.Draw("a\nb\nc\nd\n", {80, 4});
  EXPECT_EQ(out.str(), "\x1b[?7la\x1b[K\nb\x1b[K\n... 2 more\x1b[K\n\x1b[?7h\x1b[J");
  out.str("");
  table.Draw("a\nb\nc\n", {80, 4});
  EXPECT_EQ(out.str().find("\x1b[3F"), 0u);
  EXPECT_EQ(out.str().find("more"), std::string::npos);
}

TEST(LiveTableTest, AWindowThatHasBecomeLowerIsNotLeft) {
  std::ostringstream out;
  LiveTable table(&out);
  table.Draw("a\nb\nc\nd\ne\n", {80, 24});
  out.str("");
  table.Draw("a\nb\n", {80, 4});
  EXPECT_EQ(out.str().find("\x1b[3F"), 0u);
}

}  // namespace
}  // namespace capstan::cli
