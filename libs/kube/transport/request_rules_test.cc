#include "libs/kube/transport/request_rules.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

HttpRequest Good() {
  HttpRequest request;
  request.method = "PATCH";
  request.target = "/apis/a/v1/x%20y?labelSelector=a%3Db&limit=5";
  request.headers = {{"Content-Type", "application/json"}, {"X-Text", "t\xc3\xa4\tb"}};
  return request;
}

TEST(RequestRulesTest, TakeAPlainRequest) { EXPECT_EQ(CheckRequest(Good()), absl::OkStatus()); }

TEST(RequestRulesTest, RefuseWhatWouldBeMoreThanOneRequest) {
  std::vector<HttpRequest> bad;
  const auto add = [&bad]() -> HttpRequest& { return bad.emplace_back(Good()); };
  for (const std::string method : {"", "G T", "GET\r", "GET/"}) add().method = method;
  for (const std::string target : {"", "x", "*", "/ ", "/\n", "/#", "/\"", "/\x7f", "/\xc3\xa4"}) {
    add().target = target;
  }
  for (const std::string name : {"", "A B", "A:", "A\n", "hOsT", "Authorization", "Content-Length",
                                 "Transfer-Encoding", "Connection", ":authority"}) {
    add().headers = {{name, "x"}};
  }
  for (const std::string value : {"a\nb", "a\r\nB: c", "\x7f"}) add().headers = {{"A", value}};
  add().headers = {{"A", std::string(1, 0)}};
  add().timeout = absl::ZeroDuration();
  add().idle_timeout = -absl::Seconds(1);
  for (const HttpRequest& request : bad) {
    const absl::Status status = CheckRequest(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status::Reason(status), kBadRequest);
  }
}

TEST(RequestRulesTest, ErrorsShowNoValue) {
  HttpRequest request = Good();
  request.headers = {{"X-Secret", "word\n"}};
  EXPECT_FALSE(absl::StrContains(CheckRequest(request).message(), "word"));
}

TEST(RequestRulesTest, EscapeTheKeysOfImpersonation) {
  const std::vector<HttpHeader> headers =
      ImpersonationHeaders({"u", "", {"g"}, {{"Acme/a%b", {"1", "2"}}}});
  EXPECT_EQ(headers, (std::vector<HttpHeader>{{"Impersonate-User", "u"},
                                              {"Impersonate-Group", "g"},
                                              {"Impersonate-Extra-acme%2Fa%25b", "1"},
                                              {"Impersonate-Extra-acme%2Fa%25b", "2"}}));
  EXPECT_TRUE(ImpersonationHeaders({}).empty());
  EXPECT_FALSE(CheckImpersonation({"", "", {"g"}, {}}).ok());
  EXPECT_FALSE(CheckImpersonation({"a\nb", "", {}, {}}).ok());
  EXPECT_FALSE(CheckImpersonation({"a", "", {}, {{"k", {"\r"}}}}).ok());
}

}  // namespace
}  // namespace capstan::kube
