#include "libs/auth/spiffe_id.h"

#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::auth {
namespace {

constexpr char kUid[] = "6f1c2f2e-5c3f-4b8e-9d7a-0123456789ab";

TEST(SpiffeIdTest, EveryFormComesBack) {
  const SpiffeId ids[] = {
      SpiffeId::Service("td.example", "data_loader"),
      SpiffeId::Executor("td.example", "c1"),
      SpiffeId::Node("td.example", "c1", "ip-10-0-0-1.ec2.internal"),
      SpiffeId::ServiceAccount("td.example", "p", "trainer"),
      SpiffeId::Task("td.example", "p", "trainer", kUid, 3, "worker-a", 12),
      SpiffeId::Person("td.example", "1000"),
  };
  const std::string texts[] = {
      "spiffe://td.example/svc/data_loader",
      "spiffe://td.example/executor/c1",
      "spiffe://td.example/node/c1/ip-10-0-0-1.ec2.internal",
      "spiffe://td.example/project/p/sa/trainer",
      absl::StrCat("spiffe://td.example/project/p/sa/trainer/job/", kUid,
                   "/gen/3/task/worker-a-12"),
      "spiffe://td.example/person/1000",
  };
  for (size_t i = 0; i < std::size(ids); ++i) {
    EXPECT_EQ(ids[i].ToString(), texts[i]);
    const absl::StatusOr<SpiffeId> parsed = SpiffeId::Parse(texts[i]);
    ASSERT_TRUE(parsed.ok()) << texts[i] << parsed.status();
    EXPECT_EQ(*parsed, ids[i]);
    EXPECT_EQ(SpiffeId::ParsePath("td.example", ids[i].Path()).value(), ids[i]);
  }
}

TEST(SpiffeIdTest, EverythingElseIsRefused) {
  const std::string task = absl::StrCat("spiffe://td/project/p/sa/a/job/", kUid, "/gen/1/task/");
  for (const std::string& text : {
           std::string(),
           std::string("spiffe://"),
           std::string("spiffe://td"),
           std::string("spiffe://td/"),
           std::string("spiffe:///svc/a"),
           std::string("https://td/svc/a"),
           std::string("SPIFFE://td/svc/a"),
           std::string("spiffe://TD/svc/a"),
           std::string("spiffe://td:443/svc/a"),
           std::string("spiffe://user@td/svc/a"),
           std::string("spiffe://td/svc/"),
           std::string("spiffe://td/svc/a/"),
           std::string("spiffe://td/svc//a"),
           std::string("spiffe://td//svc/a"),
           std::string("spiffe://td/svc/A"),
           std::string("spiffe://td/svc/a?b"),
           std::string("spiffe://td/svc/a#b"),
           std::string("spiffe://td/svc/%61"),
           std::string("spiffe://td/svc/."),
           std::string("spiffe://td/svc/.."),
           std::string("spiffe://td/svc/../svc/a"),
           std::string("spiffe://td/svc/a\0", 18),
           std::string("spiffe://td/svc/a "),
           std::string("spiffe://td/svc/ä"),
           std::string("spiffe://td/svc/a/b"),
           std::string("spiffe://td/executor/-c"),
           std::string("spiffe://td/executor/c-"),
           std::string("spiffe://td/executor/c_1"),
           std::string("spiffe://td/node/c1"),
           std::string("spiffe://td/node/c1/n1/x"),
           std::string("spiffe://td/node/c1/.."),
           std::string("spiffe://td/person/"),
           std::string("spiffe://td/project/p"),
           std::string("spiffe://td/project/p/sa"),
           std::string("spiffe://td/project/p/sa/a/job/u"),
           std::string("spiffe://td/project/p/sa/a/job/u/gen/1"),
           std::string("spiffe://td/project/p/sa/a/gen/1/job/u/task/w-0"),
           task + "w",
           task + "w-",
           task + "-0",
           task + "w-00",
           task + "w-+1",
           task + "w--1",
           task + "w-99999999999",
           absl::StrCat("spiffe://td/project/p/sa/a/job/", kUid, "/gen/01/task/w-0"),
           absl::StrCat("spiffe://td/project/p/sa/a/job/", kUid, "/gen/-1/task/w-0"),
           absl::StrCat("spiffe://td/project/p/sa/a/job/", kUid,
                        "/gen/9223372036854775808/task/w-0"),
           absl::StrCat("spiffe://td/executor/", std::string(64, 'c')),
           absl::StrCat("spiffe://", std::string(256, 't'), "/svc/a"),
           absl::StrCat("spiffe://td/svc/", std::string(3000, 'a')),
       }) {
    EXPECT_EQ(status::Reason(SpiffeId::Parse(text).status()), "INVALID_SPIFFE_ID") << text;
  }
}

TEST(SpiffeIdTest, TheLongestParts) {
  EXPECT_TRUE(SpiffeId::Parse(absl::StrCat("spiffe://", std::string(255, 't'), "/executor/",
                                           std::string(63, 'c')))
                  .ok());
  EXPECT_TRUE(SpiffeId::Parse(absl::StrCat("spiffe://td/node/c/", std::string(253, 'n'))).ok());
  EXPECT_TRUE(SpiffeId::Parse(absl::StrCat("spiffe://td/project/p/sa/a/job/", kUid,
                                           "/gen/9223372036854775807/task/w-2147483647"))
                  .ok());
}

}  // namespace
}  // namespace capstan::auth
