#include "libs/resource/page.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"

namespace capstan::resource {
namespace {

scheduler::v1::ListJobsRequest Request() {
  scheduler::v1::ListJobsRequest request;
  request.set_parent("projects/p");
  request.set_filter("state=RUNNING");
  return request;
}

TEST(PageTest, SizesAreDefaultedCoercedAndRefused) {
  EXPECT_EQ(EffectivePageSize(0).value(), 100);
  EXPECT_EQ(EffectivePageSize(7).value(), 7);
  EXPECT_EQ(EffectivePageSize(100000).value(), 1000);
  EXPECT_EQ(status::GetFieldViolations(EffectivePageSize(-1).status())[0].field, "page_size");
}

TEST(PageTest, TokensGoRoundAndAreUrlSafe) {
  const PageTokens tokens("0123456789abcdef0123456789abcdef");
  const std::string arguments = PageArguments(Request());
  for (const std::string& position :
       {std::string(), std::string("/a/b"), std::string("\0\xff\x10", 3)}) {
    const std::string token = tokens.Seal(position, arguments);
    EXPECT_EQ(
        token.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
        std::string::npos);
    EXPECT_EQ(tokens.Open(token, arguments).value(), position);
  }
  EXPECT_EQ(tokens.Open("", arguments).value(), "");
}

TEST(PageTest, PageSizeMayChangeButNoOtherArgument) {
  const PageTokens tokens("0123456789abcdef");
  scheduler::v1::ListJobsRequest request = Request();
  const std::string token = tokens.Seal("x", PageArguments(request));
  request.set_page_size(5);
  request.set_page_token(token);
  EXPECT_TRUE(tokens.Open(token, PageArguments(request)).ok());
  request.set_filter("state=QUEUED");
  EXPECT_EQ(
      status::GetFieldViolations(tokens.Open(token, PageArguments(request)).status())[0].field,
      "page_token");
}

TEST(PageTest, EveryChangedBitIsRefused) {
  const PageTokens tokens("0123456789abcdef");
  const std::string arguments = PageArguments(Request());
  const std::string token = tokens.Seal("position", arguments);
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    const auto opened = tokens.Open(changed, arguments);
    // The last character may hold bits that base64 does not use.
    EXPECT_TRUE(!opened.ok() || (i + 1 == token.size() && *opened == "position")) << i;
  }
  EXPECT_FALSE(PageTokens("another key 0123").Open(token, arguments).ok());
  EXPECT_FALSE(tokens.Open("!!", arguments).ok());
  EXPECT_FALSE(tokens.Open(std::string(10000, 'A'), arguments).ok());
}

}  // namespace
}  // namespace capstan::resource
