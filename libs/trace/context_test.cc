#include "libs/trace/context.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"

namespace capstan::trace {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kExample[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(ContextTest, ReadsAndWritesTheStandardsExample) {
  const absl::optional<Context> context = Parse(kExample);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_high, 0x4bf92f3577b34da6u);
  EXPECT_EQ(context->trace_low, 0xa3ce929d0e0e4736u);
  EXPECT_EQ(context->span, 0x00f067aa0ba902b7u);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(ToTraceparent(*context), kExample);
  EXPECT_EQ(TraceIdOf(*context), kTrace);
}

TEST(ContextTest, UsesOnlyTheSampledFlagAndWhatVersion00Has) {
  EXPECT_FALSE(Parse(absl::StrCat("00-", kTrace, "-00f067aa0ba902b7-02"))->sampled);
  EXPECT_TRUE(Parse(absl::StrCat("00-", kTrace, "-00f067aa0ba902b7-03"))->sampled);
  const auto later = Parse(absl::StrCat("01-", kTrace, "-00f067aa0ba902b7-01-more"));
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(ToTraceparent(*later), kExample);
}

TEST(ContextTest, RefusesWhatIsNoTraceparent) {
  for (const std::string& wrong :
       {std::string(), std::string("00"), absl::StrCat(kExample, "0"),
        absl::StrCat(kExample, "-more"), absl::StrCat("ff-", kTrace, "-00f067aa0ba902b7-01"),
        absl::StrCat("00-", kTrace, "-0000000000000000-01"),
        std::string("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
        absl::StrCat("00-", kTrace, "-00F067aa0ba902b7-01"),
        absl::StrCat("00_", kTrace, "-00f067aa0ba902b7-01"),
        absl::StrCat("01-", kTrace, "-00f067aa0ba902b7-01more"),
        absl::StrCat("00-", kTrace, "-00f067aa0ba902b7-0\n")}) {
    EXPECT_FALSE(Parse(wrong).has_value()) << wrong;
  }
}

TEST(ContextTest, ADerivedSpanFollowsFromTraceAndNameAlone) {
  const Context parent = *Parse(kExample);
  const Context job = Derive(parent, "uid/job");
  EXPECT_EQ(job.trace_low, parent.trace_low);
  EXPECT_TRUE(job.sampled);
  EXPECT_NE(job.span, parent.span);
  EXPECT_NE(job.span, 0u);
  Context sibling = parent;
  sibling.span = 77;
  EXPECT_EQ(Derive(sibling, "uid/job"), job);
  EXPECT_NE(Derive(parent, "uid/run").span, job.span);
  Context other = parent;
  other.trace_low ^= 1;
  EXPECT_NE(Derive(other, "uid/job").span, job.span);
  // Fixed for ever: replicas of two versions speak of one span.
  EXPECT_EQ(ToTraceparent(job), "00-4bf92f3577b34da6a3ce929d0e0e4736-edd14f066b98177b-01");
}

}  // namespace
}  // namespace capstan::trace
