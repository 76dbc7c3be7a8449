#include "tools/capstan/dev/credentials_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"
#include "tools/capstan/dev/restart_policy.h"

namespace capstan::dev {
namespace {

TEST(CredentialsLinkTest, ParsesWhatTheReadmeSays) {
  const auto ready = ParseCredentialsMessage("ready capstan-1.local 00ff 30001 30002");
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(ready->kind, CredentialsMessage::Kind::kReady);
  EXPECT_EQ(ready->trust_domain, "capstan-1.local");
  const auto token = ParseCredentialsMessage("token /svc/scheduler a.b.c");
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->path, "/svc/scheduler");
  EXPECT_EQ(token->text, "a.b.c");
  const auto error = ParseCredentialsMessage("error /svc/x this path is not supervised");
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(error->kind, CredentialsMessage::Kind::kError);
  EXPECT_EQ(error->text, "this path is not supervised");
}

TEST(CredentialsLinkTest, RefusesTheRestWithoutShowingIt) {
  for (const char* packet : {"", "ready", "ready a b c", "token", "token /svc/x", "token x a.b.c",
                             "token /svc/x a b", "other /svc/x y"}) {
    const auto message = ParseCredentialsMessage(packet);
    EXPECT_EQ(message.status().code(), absl::StatusCode::kInvalidArgument) << packet;
    EXPECT_EQ(message.status().message().find("a.b.c"), std::string::npos);
  }
}

TEST(CredentialsLinkTest, AsksAndReads) {
  UniqueFd child_end;
  auto link = CredentialsLink::Create(&child_end);
  ASSERT_TRUE(link.ok());
  EXPECT_FALSE(link->TryRead()->has_value());
  ASSERT_TRUE(link->AskForToken("/svc/scheduler").ok());
  char buffer[100];
  const ssize_t n = recv(child_end.get(), buffer, sizeof(buffer), 0);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(n)), "token /svc/scheduler");
  const std::string answer = "token /svc/scheduler t";
  send(child_end.get(), answer.data(), answer.size(), 0);
  EXPECT_EQ((*link->TryRead())->text, "t");
  child_end.Reset(-1);
  EXPECT_EQ(link->TryRead().status().code(), absl::StatusCode::kUnavailable);
}

TEST(RestartPolicyTest, WaitsLongerEachTimeUntilARunWasGood) {
  RestartPolicy policy;
  BootTime now = BootTime() + absl::Hours(1);
  absl::Duration wait = RestartPolicy::kFirst;
  for (int i = 0; i < 12; ++i) {
    policy.Started(now);
    now = now + absl::Seconds(1);
    EXPECT_EQ(policy.Ended(now) - now, wait);
    wait = std::min(wait * 2, RestartPolicy::kLongest);
  }
  EXPECT_EQ(policy.restarts(), 12);
  policy.Started(now);
  now = now + RestartPolicy::kGoodRun;
  EXPECT_EQ(policy.Ended(now) - now, RestartPolicy::kFirst);
}

}  // namespace
}  // namespace capstan::dev
