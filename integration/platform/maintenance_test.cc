// A maintenance window on a platform: it stops what runs on its Node, over a killed scheduler, and
// the Job goes on when it is over.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;

class MaintenanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>();
    platform_->Up();
  }

  void Submit(const std::string& id, const std::string& limit) {
    const CommandResult result = platform_->SubmitText(
        id, absl::StrCat("job_id: ", id, "\nspec:\n", limit,
                         "  stop_grace: 1s\n  task_groups:\n    - name: w\n      replicas: 1\n"
                         "      argv: [/bin/sleep, '600']\n"
                         "      resources: {cpu: 10m, memory: 32Mi}\n"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(MaintenanceTest, StopsWhatRunsAndLetsItGoOn) {
  Submit("long", "");
  ASSERT_TRUE(platform_->AwaitJob("long", "STATE_RUNNING STARTED 1"));
  const std::string made =
      platform_->MustCapstan({"node", "maintenance", "create", "disks", "--all-nodes", "--start",
                              "1h", "--for", "1h", "--reason", "new disks"});
  EXPECT_THAT(made, HasSubstr("clusters/local/maintenanceWindows/disks created: in"));
  EXPECT_THAT(platform_->MustCapstan({"node", "list"}), HasSubstr("ACTIVE "));
  EXPECT_THAT(platform_->MustCapstan({"node", "get", "node-0"}),
              HasSubstr("clusters/local/maintenanceWindows/disks"));
  // No time limit: it cannot be known to be over in time.
  Submit("late", "");
  ASSERT_TRUE(platform_->AwaitJob("late", "STATE_QUEUED INSUFFICIENT_RESOURCES"));
  EXPECT_THAT(platform_->MustCapstan({"job", "explain", "late"}), HasSubstr("maintenance window"));
  Submit("soon", "  time_limit: 10m\n");
  ASSERT_TRUE(platform_->AwaitJob("soon", "STATE_RUNNING STARTED 1"));

  platform_->MustCapstan(
      {"node", "maintenance", "create", "now", "--all-nodes", "--for", "30m", "--evict"});
  ASSERT_TRUE(platform_->AwaitJob("long", "STATE_QUEUED MAINTENANCE 1"));
  EXPECT_THAT(platform_->MustCapstan({"node", "list"}), HasSubstr("ACTIVE,MAINTENANCE"));
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());
  EXPECT_THAT(platform_->MustCapstan({"node", "maintenance", "list"}), HasSubstr("new disks"));
  EXPECT_THAT(platform_->MustCapstan({"node", "maintenance", "get", "now"}),
              HasSubstr("is stopped with grace"));
  platform_->MustCapstan({"node", "maintenance", "delete", "now"});
  platform_->MustCapstan({"node", "maintenance", "delete", "disks"});
  EXPECT_TRUE(platform_->AwaitJob("long", "STATE_RUNNING STARTED 2"));
  EXPECT_TRUE(platform_->AwaitJob("late", "STATE_RUNNING STARTED 1"));
}

}  // namespace
}  // namespace capstan::integration
