#include "tools/testenv/s3_server.h"

#include <stdlib.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace capstan::testenv {
namespace {

S3Server::Options Options() {
  const char* const server = ::getenv("TEST_S3_SERVER");
  return server == nullptr ? S3Server::Options{} : S3Server::Options{.server = server};
}

TEST(S3ServerTest, BucketsAreATestsOwnAndOutliveADeath) {
  auto started = S3Server::Start(Options());
  ASSERT_TRUE(started.ok()) << started.status();
  const std::unique_ptr<S3Server> s3 = *std::move(started);
  EXPECT_FALSE(s3->secret_key().empty());
  const auto first = s3->CreateBucket();
  ASSERT_TRUE(first.ok()) << first.status();
  s3->Kill();
  EXPECT_FALSE(s3->CreateBucket().ok());
  const absl::Status restarted = s3->Restart();
  ASSERT_TRUE(restarted.ok()) << restarted;
  const auto second = s3->CreateBucket();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*first, *second);
}

TEST(S3ServerTest, KeysDifferBetweenServers) {
  auto first = S3Server::Start(Options());
  auto second = S3Server::Start(Options());
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*first)->secret_key(), (*second)->secret_key());
  EXPECT_NE((*first)->endpoint(), (*second)->endpoint());
}

}  // namespace
}  // namespace capstan::testenv
