#include "tools/capstan/cli/whole_number.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace capstan::cli {
namespace {

TEST(WholeNumberTest, IsDigitsAlone) {
  EXPECT_EQ(ParseWholeNumber("0"), 0);
  EXPECT_EQ(ParseWholeNumber("080"), 80);
  EXPECT_EQ(ParseWholeNumber("9223372036854775807"), INT64_MAX);
  for (const char* other :
       {"", " ", "+1", "-1", " 1", "1 ", "1.5", "0x1", "9223372036854775808", "1\n"}) {
    EXPECT_EQ(ParseWholeNumber(other), absl::nullopt) << other;
  }
}

}  // namespace
}  // namespace capstan::cli
