// Jobs that wait: for room, and for data that they share.
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SharingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(
        "node_agent:\n  reserved: {cpu: 0, memory: 0}\n  accelerators: {test-gpu: 2}\n"
        "  mig_gpus: [{index: 0, model: H100-80GB}]\n");
    platform_->Up();
  }

  static std::string Mig(absl::string_view profile) {
    return absl::StrCat(", mig: {model: H100-80GB, profile: ", profile, "}}");
  }

  void Submit(absl::string_view id, absl::string_view script, absl::string_view more) {
    const CommandResult result = platform_->SubmitText(
        id, absl::StrCat("job_id: ", id,
                         "\nspec:\n  task_groups:\n    - name: w\n      replicas: 1\n"
                         "      argv: [/bin/sh, -c, \"",
                         script, "\"]\n      resources: {cpu: 10m, memory: 32Mi", more, "\n"));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(SharingTest, AJobThatDoesNotFitSaysWhatLacksAndStartsWhenRoomAppears) {
  Submit("holder", "sleep 600", ", accelerators: {test-gpu: 2}}");
  ASSERT_TRUE(
      platform_->Await([&] { return platform_->Get("holder").state() == Job::STATE_RUNNING; }));
  Submit("waiter", "true", ", accelerators: {test-gpu: 1}}");
  ASSERT_TRUE(platform_->Await(
      [&] { return platform_->Get("waiter").reason() == "INSUFFICIENT_RESOURCES"; }));
  const std::string why = platform_->MustCapstan({"job", "explain", "waiter"});
  EXPECT_THAT(why, AllOf(HasSubstr("test-gpu"), HasSubstr("1"), HasSubstr("local")));
  EXPECT_EQ(platform_->Get("waiter").generation(), 0);
  platform_->MustCapstan({"job", "cancel", "holder"});
  platform_->MustSucceed("waiter");
}

TEST_F(SharingTest, TasksShareAGpuThatIsInMigMode) {
  Submit("large", "test $CUDA_VISIBLE_DEVICES = MIG-GPU-0/0/4g.40gb && sleep 600",
         ", mig: {model: H100-80GB, profile: 4g.40gb}}");
  ASSERT_TRUE(
      platform_->Await([&] { return platform_->Get("large").state() == Job::STATE_RUNNING; }));
  EXPECT_THAT(platform_->MustCapstan({"node", "get", "node-0"}),
              HasSubstr("MIG GPU:      0: H100-80GB, 4g.40gb at 0"));
  EXPECT_THAT(platform_->MustCapstan({"node", "list"}), HasSubstr("mig/h100-80gb=4/8"));
  EXPECT_THAT(platform_->MustCapstan({"job", "get", "large"}),
              HasSubstr("MIG 4g.40gb of H100-80GB"));
  Submit("small", "case $CUDA_VISIBLE_DEVICES in MIG-GPU-0/*/1g.10gb) ;; *) exit 1;; esac",
         ", mig: {model: H100-80GB, profile: 1g.10gb}}");
  platform_->MustSucceed("small");
  Submit("whole", "true", ", mig: {model: H100-80GB, profile: 7g.80gb}}");
  ASSERT_TRUE(platform_->Await(
      [&] { return platform_->Get("whole").reason() == "INSUFFICIENT_RESOURCES"; }));
  EXPECT_THAT(platform_->MustCapstan({"job", "explain", "whole"}),
              HasSubstr("1 of 1 node has no place for a 7g.80gb instance"));
  platform_->MustCapstan({"job", "cancel", "large"});
  platform_->MustSucceed("whole");
}

// With another GPU, and a bound on what moving may cost.
class MovingTest : public SharingTest {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(
        "scheduler: {mig_repartition: {max_cost: 30m}}\n"
        "node_agent:\n  reserved: {cpu: 0, memory: 0}\n"
        "  mig_gpus: [{index: 0, model: H100-80GB}, {index: 1, model: H100-80GB}]\n");
    platform_->Up();
    platform_->MustCapstan({"queue", "update", "default", "--min-runtime", "0s"});
  }
  bool Runs(const std::string& id) {
    return platform_->Await([&] { return platform_->Get(id).state() == Job::STATE_RUNNING; });
  }
};

TEST_F(MovingTest, AJobIsMovedForOneThatNeedsAWholeGpuAndFinishes) {
  // Done once it has been moved.
  constexpr char kOnce[] = "test $CAPSTAN_GENERATION = 2 || sleep 600";
  Submit("one", kOnce, Mig("1g.10gb"));
  ASSERT_TRUE(Runs("one"));
  // What of its GPU is left.
  for (const char* filler : {"f1", "f2", "f3"}) Submit(filler, "sleep 600", Mig("2g.20gb"));
  for (const char* filler : {"f1", "f2", "f3"}) ASSERT_TRUE(Runs(filler));
  Submit("other", kOnce, Mig("1g.10gb"));
  ASSERT_TRUE(Runs("other"));
  for (const char* filler : {"f1", "f2", "f3"}) platform_->MustCapstan({"job", "cancel", filler});
  Submit("whole", "sleep 600", Mig("7g.80gb"));
  ASSERT_TRUE(Runs("whole"));
  const bool one_moved = platform_->Get("one").generation() == 2;
  const std::string moved = one_moved ? "one" : "other";
  platform_->MustSucceed(moved);
  EXPECT_EQ(platform_->Get(moved).generation(), 2);
  EXPECT_EQ(platform_->Get(one_moved ? "other" : "one").generation(), 1);
  EXPECT_THAT(platform_->MustCapstan({"job", "get", moved}),
              HasSubstr("REPARTITIONED, for projects/default/jobs/whole"));
}

TEST_F(SharingTest, TwoJobsShareADatasetThatIsLoadedOnceAndAThirdNamesWhatIsMissing) {
  const std::string bucket = platform_->data_dir() + "/buckets/shared";
  mkdir((platform_->data_dir() + "/buckets").c_str(), 0700);
  mkdir(bucket.c_str(), 0700);
  for (const char* name : {"one", "two"}) {
    std::ofstream(absl::StrCat(bucket, "/", name)) << std::string(3 << 20, *name);
  }
  platform_->MustCapstan({"dataset", "create", "shared", "--source", bucket});
  platform_->MustCapstan(
      {"dataset", "create", "broken", "--source", bucket, "--object", "not-there"});
  constexpr char kRead[] = "test $(cat $CAPSTAN_DATASET_SHARED/one | wc -c) = 3145728";
  Submit("first", kRead, "}\n  datasets: [{dataset: shared}]");
  Submit("second", kRead, "}\n  datasets: [{dataset: shared}]");
  Submit("third", "true", "}\n  datasets: [{dataset: broken}]\n  retry: {max_restarts: 0}");
  platform_->MustSucceed("first");
  platform_->MustSucceed("second");
  EXPECT_NE(platform_->Capstan({"job", "watch", "third"}).exit_code, 0);
  const Job third = platform_->Get("third");
  EXPECT_EQ(third.state(), Job::STATE_FAILED);
  EXPECT_THAT(third.message(), HasSubstr("not-there"));

  const std::string loads = platform_->MustCapstan({"load", "list", "-o", "json"});
  int loads_of_shared = 0;
  for (size_t at = loads.find("datasets/shared\""); at != std::string::npos;
       at = loads.find("datasets/shared\"", at + 1)) {
    ++loads_of_shared;
  }
  EXPECT_EQ(loads_of_shared, 1) << loads;
}

}  // namespace
}  // namespace capstan::integration
