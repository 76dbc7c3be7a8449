#include "libs/kube/transport/transport.h"

#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"

namespace capstan::kube {
namespace {

TEST(FindHeaderTest, FindsTheFirstOfANameInAnyCase) {
  const std::vector<HttpHeader> headers = {
      {"Retry-After", "1"}, {"retry-after", "2"}, {"Empty", ""}};
  EXPECT_EQ(FindHeader(headers, "RETRY-AFTER"), "1");
  EXPECT_EQ(FindHeader(headers, "empty"), "");
  EXPECT_EQ(FindHeader(headers, "Retry"), absl::nullopt);
}

}  // namespace
}  // namespace capstan::kube
