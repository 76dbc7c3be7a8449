#include "tools/testenv/gcs_server.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace capstan::testenv {
namespace {

TEST(GcsServerTest, BucketsAreATestsOwnAndOutliveADeath) {
  auto started = GcsServer::Start();
  ASSERT_TRUE(started.ok()) << started.status();
  const std::unique_ptr<GcsServer> gcs = *std::move(started);
  const auto first = gcs->CreateBucket();
  ASSERT_TRUE(first.ok()) << first.status();
  gcs->Kill();
  EXPECT_FALSE(gcs->CreateBucket().ok());
  const absl::Status restarted = gcs->Restart();
  ASSERT_TRUE(restarted.ok()) << restarted;
  const auto second = gcs->CreateBucket();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace capstan::testenv
