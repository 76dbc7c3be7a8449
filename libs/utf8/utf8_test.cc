#include "libs/utf8/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace capstan {
namespace {

TEST(Utf8Test, TakesWhatTheStandardTakes) {
  for (const char* text : {"", "a", "\u00e9", "\u0800", "\uffff", "\U00010000", "\U0010ffff"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* bytes : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                            "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
                            "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc3\x41"}) {
    EXPECT_FALSE(IsUtf8(bytes));
  }
  EXPECT_TRUE(IsUtf8(std::string("a\0b", 3)));
}

TEST(Utf8Test, ReplacesEachByteOfNoCharacter) {
  EXPECT_EQ(ToUtf8("a\xff\xc3\xa9\xe2\x82"), "a\uFFFD\u00e9\uFFFD\uFFFD");
  EXPECT_EQ(ToUtf8(""), "");
}

TEST(Utf8Test, KnowsWhatTerminalsObey) {
  for (const char* control :
       {"\n", "\x1b", "\x7f", "\u0080", "\u0085", "\u009b", "\u2028", "\u2029"}) {
    EXPECT_TRUE(IsControl(control)) << control;
  }
  for (const char* shown : {"a", " ", "\u00a0", "\u00e9", "\u2027", "\U0001f600"}) {
    EXPECT_FALSE(IsControl(shown)) << shown;
  }
}

}  // namespace
}  // namespace capstan
