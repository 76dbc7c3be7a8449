// Ended Jobs leave the scheduler for the archive, and a person notices nothing but where to look.
#include <signal.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ArchiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>("ended_jobs: {in_scheduler: {keep_for: 5s}}");
    platform_->Up();
  }

  void Submit(const std::string& id, const std::string& script) {
    const CommandResult result = platform_->SubmitText(
        id, absl::StrCat("job_id: ", id,
                         "\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
                         "      argv: [/bin/sh, -c, \"",
                         script, "\"]\n      resources: {cpu: 10m, memory: 32Mi}\n",
                         "  retry: {max_restarts: 0}\n"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  // Until the scheduler has it no more.
  bool AwaitArchived(const std::string& id) {
    return platform_->Await([&] {
      return !absl::StrContains(platform_->MustCapstan({"job", "list", "-o", "name"}),
                                absl::StrCat("jobs/", id, "\n"));
    });
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(ArchiveTest, AnArchivedJobIsListedShownAndReadAsBefore) {
  Submit("good", "echo done well");
  Submit("bad", "exit 3");
  const std::string uid = platform_->MustSucceed("good").uid();
  // The archive away: the Jobs stay, however old.
  platform_->Signal("telemetry", SIGSTOP);
  EXPECT_FALSE(platform_->Await(
      [&] { return !absl::StrContains(platform_->MustCapstan({"job", "list"}), "good"); },
      absl::Seconds(8)));
  platform_->Signal("telemetry", SIGCONT);
  platform_->KillAndAwait("telemetry");
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(AwaitArchived("good"));
  ASSERT_TRUE(AwaitArchived("bad"));
  Submit("runs", "sleep 1000");

  EXPECT_EQ(platform_->Get("good").uid(), uid);
  EXPECT_EQ(platform_->Get("good").state(), Job::STATE_SUCCEEDED);
  EXPECT_THAT(platform_->MustCapstan({"job", "logs", "good"}), HasSubstr("done well"));
  EXPECT_THAT(platform_->MustCapstan({"job", "list", "--since", "1d", "-o", "name"}),
              "projects/default/jobs/runs\nprojects/default/jobs/bad\n"
              "projects/default/jobs/good\n");
  EXPECT_THAT(platform_->MustCapstan({"job", "list", "--state", "failed", "--since", "7d"}),
              AllOf(HasSubstr("bad"), Not(HasSubstr("good")), Not(HasSubstr("runs"))));
  EXPECT_EQ(platform_->Capstan({"job", "list", "--since", "soon"}).exit_code, 2);
  EXPECT_NE(platform_->Capstan({"job", "get", "never"}).exit_code, 0);

  // The name is free; each Job of it is there once.
  Submit("good", "true");
  const std::string again = platform_->MustSucceed("good").uid();
  EXPECT_NE(again, uid);
  ASSERT_TRUE(AwaitArchived("good"));
  EXPECT_EQ(platform_->Get("good").uid(), again);
  const std::string listed = platform_->MustCapstan({"job", "list", "--since", "1d", "-o", "json"});
  EXPECT_THAT(listed, AllOf(HasSubstr(uid), HasSubstr(again)));
  EXPECT_THAT(platform_->MustCapstan({"admin", "check"}), HasSubstr("scheduler: sound"));
}

}  // namespace
}  // namespace capstan::integration
