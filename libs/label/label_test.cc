#include "libs/label/label.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace capstan::label {
namespace {

TEST(LabelTest, KeysAreANameThatMayHaveADnsNameBefore) {
  const std::string longest(63, 'n');
  for (const std::string& key : {std::string("gpu"), std::string("Gpu.product_2"), longest,
                                 std::string("nvidia.com/gpu.product"), std::string("a-1.b/x")}) {
    EXPECT_TRUE(IsKey(key)) << key;
  }
  for (const std::string& key :
       {std::string(), longest + "n", std::string("-gpu"), std::string("gpu."), std::string("a b"),
        std::string("/gpu"), std::string("nvidia.com/"), std::string("NVIDIA.com/gpu"),
        std::string("a..b/gpu"), std::string("-a/gpu"), std::string("a/b/c"),
        absl::StrCat(std::string(254, 'a'), "/gpu"), std::string("gpu\xc3\xa4x")}) {
    EXPECT_FALSE(IsKey(key)) << key;
  }
}

TEST(LabelTest, ValuesAreNamesOrNothing) {
  for (const char* value : {"", "A100", "80.0_GB-x"}) EXPECT_TRUE(IsValue(value)) << value;
  for (const char* value : {"a/b", "-a", "a ", "a\n"}) EXPECT_FALSE(IsValue(value)) << value;
  EXPECT_FALSE(IsValue(std::string(64, 'v')));
}

}  // namespace
}  // namespace capstan::label
