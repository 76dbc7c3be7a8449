// What waiting gangs need of more Nodes, as an operator sees it, over a killed scheduler.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;

class DemandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>("scheduler: {demand: {hold_for: 2s}}\n");
    platform_->Up();
  }

  void Submit(const std::string& id, int replicas, const std::string& accelerator) {
    const CommandResult result = platform_->SubmitText(
        id, absl::StrCat("job_id: ", id,
                         "\nspec:\n  task_groups:\n    - name: w\n      replicas: ", replicas,
                         "\n      argv: [/bin/true]\n      resources: {cpu: 10m, memory: 32Mi, "
                         "accelerators: {",
                         accelerator, ": 8}}\n"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  std::string Demand(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"node", "demand"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return platform_->MustCapstan(arguments);
  }
  bool AwaitText(const std::string& text) {
    return platform_->Await([&] { return absl::StrContains(Demand(), text); });
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(DemandTest, ShowsWhatIsMissingUntilItIsNot) {
  EXPECT_EQ(Demand(), "no gang waits for more Nodes\n");
  Submit("large", 4, "nvidia.com/h100");
  Submit("small", 1, "nvidia.com/h100");
  const std::vector<std::string> sums = {
      "-o",
      "jsonpath={.classes[0].gangs} {.classes[0].tasks} {.classes[0].largest_job} "
      "{.classes[0].reasons[0].reason}"};
  // Either Job may be told of before the other is.
  EXPECT_TRUE(platform_->Await([&] {
    return Demand(sums) == "2 5 projects/default/jobs/large INSUFFICIENT_RESOURCES";
  })) << Demand(sums);
  EXPECT_THAT(Demand({"--cluster", "local", "-o", "wide"}), HasSubstr("nvidia.com/h100 40"));
  // Another leader tells the same.
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());
  ASSERT_TRUE(AwaitText("nvidia.com/h100 8"));
  platform_->MustCapstan({"queue", "hold", "default"});
  ASSERT_TRUE(AwaitText("waiting for something else: 2 QUEUE_HELD"));
  EXPECT_THAT(Demand(), HasSubstr("no gang waits for more Nodes"));
  platform_->MustCapstan({"queue", "release", "default"});
  ASSERT_TRUE(AwaitText("nvidia.com/h100 8"));
  platform_->MustCapstan({"job", "cancel", "large"});
  platform_->MustCapstan({"job", "cancel", "small"});
  ASSERT_TRUE(AwaitText("no gang waits for more Nodes\n"));
}

TEST_F(DemandTest, NodesThatWereOrderedAreKeptForTheirGang) {
  Submit("gang", 2, "nvidia.com/h100");
  ASSERT_TRUE(AwaitText("nvidia.com/h100 8"));
  const std::string id = Demand({"-o", "jsonpath={.classes[0].id}"});
  EXPECT_THAT(platform_->MustCapstan({"node", "order", "create", "more", "--nodes", "2", "--class",
                                      id, "--expires-in", "1h"}),
              HasSubstr("kept for projects/default/jobs/gang"));
  ASSERT_TRUE(AwaitText("1 ORDERED"));
  EXPECT_THAT(Demand(), HasSubstr("no gang waits for more Nodes"));
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());
  EXPECT_THAT(platform_->MustCapstan({"job", "explain", "gang"}),
              HasSubstr("0 of 2 Nodes of capacityOrders/more have come"));
  EXPECT_THAT(platform_->MustCapstan({"node", "order", "list"}), HasSubstr("NOMINATED"));
  EXPECT_THAT(platform_->MustCapstan({"node", "order", "get", "more"}), HasSubstr("0 of 2"));
  platform_->MustCapstan({"node", "order", "delete", "more"});
  ASSERT_TRUE(AwaitText("nvidia.com/h100 8"));
}

}  // namespace
}  // namespace capstan::integration
