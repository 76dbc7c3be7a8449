#include "libs/resource/etag.h"

#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::resource {
namespace {

TEST(EtagTest, HasQuotesAndFollowsContent) {
  EXPECT_EQ(MakeEtag(int64_t{42}), "\"r42\"");
  EXPECT_EQ(MakeEtag("abc"), "\"ba7816bf8f01cfea\"");
  EXPECT_NE(MakeEtag("abc"), MakeEtag("abd"));
}

TEST(EtagTest, ComparesStrongly) {
  EXPECT_TRUE(CheckEtag("", "\"r1\"").ok());
  EXPECT_TRUE(CheckEtag("\"r1\"", "\"r1\"").ok());
  EXPECT_EQ(CheckEtag("\"r2\"", "\"r1\"").code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status::Reason(CheckEtag("\"r2\"", "\"r1\"")), "ETAG_MISMATCH");
  EXPECT_EQ(CheckEtag("W/\"r1\"", "W/\"r1\"").code(), absl::StatusCode::kAborted);
}

TEST(EtagTest, RefusesWhatIsNoTag) {
  for (const char* tag : {"r1", "\"", "\"a\"b\"", "\"a b\"", "w/\"a\""}) {
    EXPECT_EQ(CheckEtag(tag, "\"r1\"").code(), absl::StatusCode::kInvalidArgument) << tag;
  }
}

}  // namespace
}  // namespace capstan::resource
