// One Job that has others ended on a platform, or has them give up what they can do without: what
// both sides are told, over a scheduler that is killed meanwhile, and that the others go on.
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using ::testing::HasSubstr;

class PreemptionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(
        "node_agent:\n  reserved: {cpu: 0, memory: 0}\n  accelerators: {slot: 4}\n");
    platform_->Up();
  }

  // Tasks of a slot each, which end only when they are killed, once they have said that.
  void Submit(const std::string& id, int priority, int replicas) {
    const CommandResult result = platform_->SubmitText(
        id, absl::StrCat(
                "job_id: ", id, "\nspec:\n  priority: ", priority,
                "\n  stop_grace: 15s\n  task_groups:\n    - name: w\n      replicas: ", replicas,
                "\n      argv: [/bin/sh, -c, 'trap \"\" TERM; echo stays; sleep 600']\n",
                "      resources: {cpu: 10m, memory: 32Mi, accelerators: {slot: 1}}\n"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }

  bool AwaitStays(const std::string& id) {
    return platform_->Await(
        [&] { return absl::StrContains(platform_->MustCapstan({"job", "logs", id}), "stays"); });
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(PreemptionTest, BothSidesAreToldWhyAndTheEndedOneGoesOn) {
  platform_->MustCapstan({"queue", "update", "default", "--min-runtime", "0s"});
  Submit("low", 0, 2);
  Submit("other", 0, 1);
  ASSERT_TRUE(AwaitStays("low"));
  ASSERT_TRUE(AwaitStays("other"));
  // One slot is free: it needs those of both.
  Submit("high", 10, 4);
  ASSERT_TRUE(platform_->AwaitJob("high", "STATE_QUEUED MAKING_ROOM"));
  // The decision is stored with its reasons.
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());
  const std::string why = platform_->MustCapstan({"job", "explain", "high"});
  EXPECT_THAT(why, HasSubstr("room is made for it:\n"
                             "  projects/default/jobs/low ends; otherwise at most 2 of its 4 Tasks "
                             "would have room\n"
                             "  projects/default/jobs/other ends; otherwise at most 3 of its 4 "
                             "Tasks would have room\n"));
  ASSERT_TRUE(platform_->AwaitJob("high", "STATE_RUNNING STARTED 1"));
  ASSERT_TRUE(platform_->AwaitJob("low", "STATE_QUEUED"));
  EXPECT_THAT(platform_->MustCapstan({"job", "get", "low"}),
              HasSubstr("PREEMPTED, for projects/default/jobs/high: otherwise at most 2 of its 4 "
                        "Tasks would have room"));
  platform_->MustCapstan({"job", "cancel", "high"});
  EXPECT_TRUE(platform_->AwaitJob("low", "STATE_RUNNING STARTED 2"));
  EXPECT_TRUE(platform_->AwaitJob("other", "STATE_RUNNING STARTED 2"));
}

TEST_F(PreemptionTest, AJobGivesUpASectionForAnother) {
  platform_->MustCapstan({"queue", "update", "default", "--min-runtime", "0s"});
  std::string text =
      "job_id: parts\nspec:\n  min_sections: 1\n  sections:\n    - {name: first}\n"
      "    - {name: second}\n  task_groups:\n";
  for (const char* section : {"first", "second"}) {
    absl::StrAppend(&text, "    - name: in-", section, "\n      section: ", section,
                    "\n      replicas: 2\n",
                    "      argv: [/bin/sh, -c, 'echo one of $WORLD_SIZE; exec sleep 600']\n",
                    "      resources: {cpu: 10m, memory: 32Mi, accelerators: {slot: 1}}\n");
  }
  const CommandResult result = platform_->SubmitText("parts", text);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto says = [this](const char* words) {
    return platform_->Await(
        [&] { return absl::StrContains(platform_->MustCapstan({"job", "logs", "parts"}), words); });
  };
  ASSERT_TRUE(says("one of 4"));
  EXPECT_THAT(platform_->MustCapstan({"job", "get", "parts"}), HasSubstr("second, optional\n"));
  Submit("high", 10, 2);
  ASSERT_TRUE(AwaitStays("high"));
  ASSERT_TRUE(platform_->AwaitJob("parts", "STATE_RUNNING STARTED 2"));
  EXPECT_TRUE(says("one of 2"));
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());
  const std::string parts = platform_->MustCapstan({"job", "get", "parts"});
  EXPECT_THAT(parts, HasSubstr("2 of 2..4"));
  EXPECT_THAT(parts, HasSubstr("second, optional, not there\n"));
  EXPECT_THAT(parts, HasSubstr("SHRUNK, for projects/default/jobs/high"));
  EXPECT_TRUE(platform_->AwaitJob("parts", "STATE_RUNNING STARTED 2"));
}

}  // namespace
}  // namespace capstan::integration
