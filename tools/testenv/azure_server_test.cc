#include "tools/testenv/azure_server.h"

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace capstan::testenv {
namespace {

TEST(AzureServerTest, ContainersAreATestsOwnAndOutliveADeath) {
  auto started = AzureServer::Start();
  ASSERT_TRUE(started.ok()) << started.status();
  const std::unique_ptr<AzureServer> azure = *std::move(started);
  EXPECT_TRUE(absl::EndsWith(azure->endpoint(), "/" + azure->account()));
  const auto first = azure->CreateContainer();
  ASSERT_TRUE(first.ok()) << first.status();
  azure->Kill();
  EXPECT_FALSE(azure->CreateContainer().ok());
  const absl::Status restarted = azure->Restart();
  ASSERT_TRUE(restarted.ok()) << restarted;
  const auto second = azure->CreateContainer();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace capstan::testenv
