// An elastic Job that grows into room that is left, on a platform whose scheduler is killed before
// it does and while it does. A minute after its START, and once the room was free for another, so it
// takes two.
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/slot_job.h"
#include "integration/platform/test_platform.h"
#include "libs/time/proto_time.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::HasSubstr;

TEST(GrowthTest, AJobGrowsIntoRoomThatIsSpare) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  TestPlatform platform(
      "node_agent:\n  reserved: {cpu: 0, memory: 0}\n  accelerators: {slot: 3}\n");
  platform.Up();
  MustSubmit({.id = "holder", .replicas = 2}, &platform);
  ASSERT_TRUE(platform.AwaitJob("holder", "STATE_RUNNING STARTED 1"));
  MustSubmit({.id = "elastic",
              .replicas = 3,
              .script = absl::StrCat("echo one of $WORLD_SIZE; ", StayingScript(platform)),
              .group_lines = "      min_replicas: 1\n",
              .spec_lines = "  checkpoint_period: 10s\n  grow_after: 1m\n"},
             &platform);
  ASSERT_TRUE(platform.AwaitJob("elastic", "STATE_RUNNING STARTED 1"));
  const absl::Time started = ToTime(platform.Get("elastic").start_time());
  EXPECT_THAT(platform.MustCapstan({"job", "get", "elastic"}), HasSubstr("w: 1 of 1..3 x "));
  platform.MustCapstan({"job", "cancel", "holder", "--wait"});
  platform.KillAndAwait("scheduler");
  ASSERT_TRUE(platform.AwaitReady());
  ASSERT_TRUE(platform.Await([&] { return WasAskedToEnd(platform); }, absl::Minutes(4)));
  EXPECT_EQ(platform.Get("elastic").state(), Job::STATE_STOPPING);
  EXPECT_EQ(platform.Get("elastic").generation(), 1);
  EXPECT_GE(ToTime(platform.Get("elastic").update_time()) - started, absl::Minutes(2));
  platform.KillAndAwait("scheduler");
  ASSERT_TRUE(platform.AwaitReady());
  OpenGate(platform);
  ASSERT_TRUE(platform.AwaitJob("elastic", "STATE_RUNNING STARTED 2"));
  EXPECT_TRUE(platform.Await([&] {
    return absl::StrContains(platform.MustCapstan({"job", "logs", "elastic"}), "one of 3");
  }));
  const Job grown = platform.Get("elastic");
  EXPECT_EQ(grown.tasks_size(), 3);
  EXPECT_EQ(grown.counted_restarts(), 0);
  EXPECT_EQ(grown.preemptions(), 0);
  EXPECT_THAT(platform.MustCapstan({"job", "list"}), HasSubstr("3 of 1..3"));
}

}  // namespace
}  // namespace capstan::integration
