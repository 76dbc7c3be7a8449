#include "libs/crc32c/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace capstan {
namespace {

// Test vectors of RFC 3720, B.4.
TEST(Crc32cTest, GivesTheStandardValues) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, GoesOnFromAPrefix) {
  std::string text;
  for (int i = 0; i < 100; ++i) text.push_back(static_cast<char>(i * 7));
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), Crc32c(text));
  }
}

}  // namespace
}  // namespace capstan
