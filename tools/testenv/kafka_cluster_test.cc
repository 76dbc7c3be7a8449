#include "tools/testenv/kafka_cluster.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace capstan::testenv {
namespace {

TEST(KafkaClusterTest, TwoClustersSideBySideOutliveADeath) {
  auto started = KafkaCluster::Start({.clusters = 2});
  ASSERT_TRUE(started.ok()) << started.status();
  const std::unique_ptr<KafkaCluster> kafka = *std::move(started);
  const std::string first = kafka->bootstrap_servers(0);
  EXPECT_NE(first, kafka->bootstrap_servers(1));
  for (int cluster = 0; cluster < 2; ++cluster) {
    const absl::Status created =
        kafka->CreateTopic(cluster, "events", 3, {{"retention.ms", "60000"}});
    ASSERT_TRUE(created.ok()) << created;
  }
  kafka->Kill(0);
  EXPECT_FALSE(kafka->CreateTopic(0, "more", 1).ok());
  const absl::Status restarted = kafka->Restart(0);
  ASSERT_TRUE(restarted.ok()) << restarted;
  EXPECT_EQ(kafka->bootstrap_servers(0), first);
  // What was there is there.
  const absl::Status again = kafka->CreateTopic(0, "events", 3);
  EXPECT_NE(again.message().find("already exists"), std::string::npos) << again;
}

}  // namespace
}  // namespace capstan::testenv
