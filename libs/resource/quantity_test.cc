#include "libs/resource/quantity.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::resource {
namespace {

TEST(QuantityTest, ParsesWholeUnits) {
  const std::vector<std::pair<const char*, int64_t>> cases = {
      {"0", 0},
      {"1", 1},
      {"+5", 5},
      {"4Gi", int64_t{4} << 30},
      {"256Mi", 256 << 20},
      {"1.5Gi", int64_t{3} << 29},
      {"1k", 1000},
      {"2M", 2'000'000},
      {"1e3", 1000},
      {"1E3", 1000},
      {"1E", 1'000'000'000'000'000'000},
      {"12e-1k", -1},
      {"1000m", 1},
      {".5k", 500},
      {"5.", 5},
      {"0.000000001G", 1},
      {"1e-3k", -1},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
      {"7.5Ei", int64_t{15} << 59},
      {"0e60", 0},
      {"100e-2", 1}};
  for (const auto& [text, expected] : cases) {
    const auto parsed = ParseQuantity(text);
    if (expected < 0) {
      EXPECT_FALSE(parsed.ok()) << text;
    } else {
      ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
      EXPECT_EQ(*parsed, expected) << text;
    }
  }
}

TEST(QuantityTest, ParsesThousandths) {
  EXPECT_EQ(ParseMilliQuantity("500m").value(), 500);
  EXPECT_EQ(ParseMilliQuantity("0.5").value(), 500);
  EXPECT_EQ(ParseMilliQuantity("2").value(), 2000);
  EXPECT_EQ(ParseMilliQuantity("1500u").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseMilliQuantity("1000u").value(), 1);
}

TEST(QuantityTest, RefusesInsteadOfRoundingOrOverflowing) {
  for (const char* text : {"",
                           "-1",
                           "abc",
                           "1.2.3",
                           "1Kib",
                           "1 Gi",
                           "4gi",
                           "0.1",
                           "1m",
                           "9223372036854775808",
                           "8Ei",
                           "1e99",
                           "1e",
                           "e3",
                           ".",
                           "1e-70",
                           "99999999999999999999999999999999999999999",
                           "0x10",
                           "1e+",
                           "1ee3",
                           "inf"}) {
    const auto parsed = ParseQuantity(text);
    EXPECT_EQ(status::Reason(parsed.status()), "INVALID_QUANTITY") << text;
  }
}

TEST(QuantityTest, FormatsExactly) {
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(1500), "1500");
  EXPECT_EQ(FormatBytes(int64_t{4} << 30), "4Gi");
  EXPECT_EQ(FormatBytes((int64_t{4} << 30) + 1024), "4194305Ki");
  EXPECT_EQ(FormatMillis(2000), "2");
  EXPECT_EQ(FormatMillis(250), "250m");
  for (const int64_t value : {int64_t{1}, int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(ParseQuantity(FormatBytes(value)).value(), value);
    EXPECT_EQ(ParseMilliQuantity(FormatMillis(value)).value(), value);
  }
}

TEST(DurationTest, ParsesAndRefuses) {
  EXPECT_EQ(ParseDuration("30s").value(), absl::Seconds(30));
  EXPECT_EQ(ParseDuration("1h30m").value(), absl::Minutes(90));
  EXPECT_EQ(ParseDuration("1.5s").value(), absl::Milliseconds(1500));
  EXPECT_EQ(ParseDuration("0").value(), absl::ZeroDuration());
  for (const char* text : {"", "30", "-1s", "+1s", "inf", "1y", "s", "9999999999h", "1d"}) {
    EXPECT_EQ(status::Reason(ParseDuration(text).status()), "INVALID_DURATION") << text;
  }
}

}  // namespace
}  // namespace capstan::resource
