// Jobs that wait for other Jobs, as people write them, over a killed scheduler.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"
#include "libs/safe_path/safe_path.h"
#include "libs/time/proto_time.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kInvalidInput = 3;

class DependenciesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>();
    platform_->Up();
  }

  static std::string Text(const std::string& id, const std::string& script,
                          const std::string& more = "") {
    return absl::StrCat("job_id: ", id,
                        "\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
                        "      argv: [/bin/sh, -c, \"",
                        script, "\"]\n      resources: {cpu: 10m, memory: 32Mi}\n",
                        "  retry: {max_restarts: 0}\n", more);
  }
  CommandResult Submit(const std::string& id, const std::string& script,
                       const std::vector<std::string>& after) {
    const std::string file = absl::StrCat(platform_->folder(), "/", id, ".yaml");
    EXPECT_TRUE(WriteFileAtomically(file, Text(id, script), 0600).ok());
    std::vector<std::string> arguments = {"job", "submit", file};
    for (const std::string& one : after) {
      arguments.push_back("--after");
      arguments.push_back(one);
    }
    return platform_->Capstan(arguments);
  }
  void MustSubmit(const std::string& id, const std::string& script,
                  const std::vector<std::string>& after = {}) {
    const CommandResult result = Submit(id, script, after);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  bool AwaitState(const std::string& id, Job::State state) {
    return platform_->Await([&] { return platform_->Get(id).state() == state; });
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(DependenciesTest, EachBeginsOnceTheOtherHasEndedAsAsked) {
  MustSubmit("prepare", "sleep 2");
  // From a file, by its name alone.
  const CommandResult from_file =
      platform_->SubmitText("train", Text("train", "exit 3", "  after:\n    - {job: prepare}\n"));
  EXPECT_EQ(from_file.exit_code, 0) << from_file.err;
  MustSubmit("clean-up", "true", {"prepare", "train:ended"});
  MustSubmit("rescue", "true", {"train:not-succeeded"});
  MustSubmit("report", "true", {"train"});
  MustSubmit("publish", "true", {"projects/default/jobs/report:succeeded"});

  const Job waits = platform_->Get("clean-up");
  EXPECT_EQ(waits.state(), Job::STATE_QUEUED);
  EXPECT_EQ(waits.reason(), "DEPENDENCY");
  EXPECT_THAT(platform_->MustCapstan({"job", "explain", "publish"}),
              HasSubstr("waits for projects/default/jobs/report (QUEUED, DEPENDENCY) to succeed"));
  EXPECT_THAT(platform_->MustCapstan({"job", "get", "clean-up"}),
              AllOf(HasSubstr("prepare, succeeded"), HasSubstr("train, ended")));
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());

  ASSERT_TRUE(AwaitState("train", Job::STATE_FAILED));
  platform_->MustSucceed("clean-up");
  platform_->MustSucceed("rescue");
  const auto begun = [&](const char* id) { return ToTime(platform_->Get(id).start_time()); };
  const auto ended = [&](const char* id) { return ToTime(platform_->Get(id).end_time()); };
  EXPECT_GE(begun("train"), ended("prepare"));
  EXPECT_GE(begun("clean-up"), ended("train"));
  EXPECT_GE(begun("rescue"), ended("train"));
  for (const char* id : {"report", "publish"}) {
    ASSERT_TRUE(AwaitState(id, Job::STATE_CANCELLED)) << id;
    EXPECT_EQ(platform_->Get(id).reason(), "DEPENDENCY_FAILED");
    EXPECT_EQ(platform_->Get(id).generation(), 0);
  }
  EXPECT_THAT(platform_->Get("report").message(), HasSubstr("which is FAILED"));
}

// An array whose Tasks check what they know of themselves, and one after it by index, one element
// at a time, over a killed scheduler.
TEST_F(DependenciesTest, AnArrayMakesManyJobsAndAnotherCorresponds) {
  const CommandResult sweep = platform_->SubmitText(
      "sweep",
      Text("sweep",
           "test $CAPSTAN_ARRAY = projects/default/jobs/sweep && test $CAPSTAN_ARRAY_SIZE = 3 && "
           "sleep 1 && test $CAPSTAN_ARRAY_INDEX != 1",
           "  array: {size: 3, max_parallel: 2}\n"));
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  EXPECT_THAT(sweep.out, HasSubstr("projects/default/jobs/sweep created, an array of 3 Jobs"));
  const std::string file = absl::StrCat(platform_->folder(), "/score.yaml");
  ASSERT_TRUE(WriteFileAtomically(file, Text("score", "true"), 0600).ok());
  platform_->MustCapstan({"job", "submit", file, "--array", "3", "--after", "sweep:corresponding",
                          "--singleton", "scores"});
  EXPECT_THAT(platform_->MustCapstan({"job", "list", "--array", "sweep", "-o", "name"}),
              AllOf(HasSubstr("jobs/sweep-0"), HasSubstr("jobs/sweep-2"),
                    ::testing::Not(HasSubstr("score"))));
  EXPECT_THAT(platform_->MustCapstan({"job", "explain", "sweep"}),
              HasSubstr("of its 3 elements have ended"));
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());

  ASSERT_TRUE(AwaitState("sweep", Job::STATE_FAILED));
  EXPECT_EQ(platform_->Get("sweep").array().succeeded(), 2);
  EXPECT_EQ(platform_->Get("sweep-1").state(), Job::STATE_FAILED);
  platform_->MustSucceed("score-0");
  platform_->MustSucceed("score-2");
  ASSERT_TRUE(AwaitState("score", Job::STATE_FAILED));
  EXPECT_EQ(platform_->Get("score-1").reason(), "DEPENDENCY_FAILED");
  EXPECT_THAT(platform_->MustCapstan({"job", "get", "score"}),
              HasSubstr("3 elements: 3 have ended, 2 of them with success"));

  MustSubmit("alone", "sleep 60");
  platform_->MustCapstan(
      {"job", "submit", file, "--job-id", "long", "--array", "4%1", "--after", "alone:ended"});
  platform_->MustCapstan({"job", "cancel", "long", "--wait"});
  EXPECT_EQ(platform_->Get("long-3").state(), Job::STATE_CANCELLED);
  const CommandResult wrong = platform_->Capstan({"job", "submit", file, "--array", "many"});
  EXPECT_EQ(wrong.exit_code, kInvalidInput);
  EXPECT_THAT(wrong.err, HasSubstr("expected N, or N%M"));
}

TEST_F(DependenciesTest, WhatCannotBeWaitedForIsRefused) {
  const CommandResult absent = Submit("a", "true", {"nothing"});
  EXPECT_NE(absent.exit_code, 0);
  EXPECT_THAT(absent.err, AllOf(HasSubstr("spec.after[0].job"), HasSubstr("does not exist")));
  const CommandResult itself = Submit("a", "true", {"a"});
  EXPECT_NE(itself.exit_code, 0);
  EXPECT_THAT(itself.err, HasSubstr("is this Job itself"));
  const CommandResult condition = Submit("a", "true", {"b:maybe"});
  EXPECT_EQ(condition.exit_code, kInvalidInput);
  EXPECT_THAT(condition.err, HasSubstr("not-succeeded"));
  MustSubmit("a", "true");
  platform_->MustSucceed("a");
  const CommandResult late = Submit("b", "true", {"a:not-succeeded"});
  EXPECT_NE(late.exit_code, 0);
  EXPECT_THAT(late.err, AllOf(HasSubstr("is SUCCEEDED"), HasSubstr("ask for another condition")));
  EXPECT_NE(platform_->Capstan({"job", "get", "b"}).exit_code, 0) << "nothing is left of it";
}

}  // namespace
}  // namespace capstan::integration
