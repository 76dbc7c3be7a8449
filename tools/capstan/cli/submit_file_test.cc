#include "tools/capstan/cli/submit_file.h"

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"

namespace capstan::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kFile[] = R"(job_id: digits-%
spec:
  queue: research
  clusters: [local, clusters/east]
  datasets:
    - dataset: digits
    - dataset: projects/other/datasets/shared
  task_groups:
    - name: workers
      replicas: 4
      argv: [/usr/bin/python3, train.py]
      resources: {cpu: 250m, memory: 256Mi}
  fence_after: 15m
  time_limit: 4h
  preemption: PREEMPTION_NEVER
  topology: {required: LEVEL_RACK}
)";

absl::StatusOr<Submission> Parse(absl::string_view text, uint64_t seed = 1) {
  Random random(seed);
  return ParseSubmitFile(text, "train.yaml", "vision", &random);
}

TEST(SubmitFileTest, CompletesShortNames) {
  const auto submission = Parse(kFile);
  ASSERT_TRUE(submission.ok()) << submission.status();
  const auto& request = submission->request;
  EXPECT_EQ(request.parent(), "projects/vision");
  EXPECT_TRUE(resource::IsValidUuid4(request.request_id()));
  EXPECT_TRUE(absl::StartsWith(request.job_id(), "digits-"));
  EXPECT_TRUE(resource::IsValidId(request.job_id())) << request.job_id();
  EXPECT_NE(Parse(kFile, 2)->request.job_id(), request.job_id());
  const auto& spec = request.job().spec();
  EXPECT_EQ(spec.queue(), "queues/research");
  EXPECT_EQ(spec.clusters(0), "local");
  EXPECT_EQ(spec.clusters(1), "east");
  EXPECT_EQ(spec.datasets(0).dataset(), "projects/vision/datasets/digits");
  EXPECT_EQ(spec.datasets(1).dataset(), "projects/other/datasets/shared");
  EXPECT_EQ(spec.task_groups(0).resources().cpu_millis(), 250);
  EXPECT_EQ(spec.task_groups(0).resources().memory_bytes(), 256 << 20);
  EXPECT_EQ(spec.fence_after().seconds(), 900);
  EXPECT_EQ(spec.time_limit().seconds(), 4 * 3600);
  EXPECT_EQ(spec.preemption(), scheduler::v1::JobSpec::PREEMPTION_NEVER);
  EXPECT_EQ(spec.topology().required(), scheduler::v1::Topology::LEVEL_RACK);
  EXPECT_EQ(submission->bundle_folder, "");
}

TEST(SubmitFileTest, ATaskMayAskForAMigInstance) {
  const auto submission = Parse(
      "spec:\n  task_groups:\n    - resources: {cpu: 1, mig: {model: H100-80GB, profile: "
      "1g.10gb+me}}\n");
  ASSERT_TRUE(submission.ok()) << submission.status();
  const auto& resources = submission->request.job().spec().task_groups(0).resources();
  EXPECT_EQ(resources.mig().model(), "H100-80GB");
  EXPECT_EQ(resources.mig().profile(), "1g.10gb+me");
  EXPECT_THAT(std::string(Parse("spec:\n  task_groups:\n    - resources: {mig: {modle: H100}}\n")
                              .status()
                              .message()),
              HasSubstr("modle"));
}

TEST(SubmitFileTest, TheFilesProjectWins) {
  EXPECT_EQ(Parse("project: mine\nspec: {}\n")->request.parent(), "projects/mine");
  EXPECT_EQ(Parse("project: projects/mine\nspec: {}\n")->request.parent(), "projects/mine");
}

TEST(SubmitFileTest, ABundleIsAFolderOrADigest) {
  const auto folder = Parse("spec:\n  bundle: /\n");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(folder->bundle_folder, "/");
  EXPECT_EQ(folder->request.job().spec().bundle(), "");
  const auto digest = Parse("spec:\n  bundle: sha256:00\n");
  EXPECT_EQ(digest->bundle_folder, "");
  EXPECT_EQ(digest->request.job().spec().bundle(), "sha256:00");
  EXPECT_THAT(std::string(Parse("spec:\n  bundle: /no/such\n").status().message()),
              HasSubstr("train.yaml:2:11: spec.bundle: '/no/such' is neither"));
}

TEST(SubmitFileTest, MistakesHaveLineAndColumn) {
  EXPECT_THAT(std::string(Parse("spec:\n  task_groups:\n    - replcas: 4\n").status().message()),
              HasSubstr("train.yaml:3:7: spec.task_groups[0].replcas: unknown field; did you mean "
                        "'replicas'?"));
  EXPECT_THAT(std::string(Parse("job_id: Bad\nspec: {}\n").status().message()),
              HasSubstr("train.yaml:1:9: job_id: 'Bad' is not an id"));
  EXPECT_THAT(std::string(Parse("job_id: a\n").status().message()), HasSubstr("spec: is missing"));
}

TEST(SubmitFileTest, AServersViolationsAreShownAtTheirPlace) {
  const auto submission = Parse(kFile);
  ASSERT_TRUE(submission.ok());
  status::FieldErrors errors;
  errors.Add("job.spec.task_groups[0].replicas", "must be at most 3");
  errors.Add("job.spec.task_groups[0].resources.accelerators", "is missing");
  const absl::Status located = LocateViolations(errors.ToStatus(), *submission);
  EXPECT_EQ(located.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(located.message(),
            "train.yaml:10:17: spec.task_groups[0].replicas: must be at most 3\n"
            "train.yaml:12:18: spec.task_groups[0].resources.accelerators: is missing");
  EXPECT_EQ(LocateViolations(absl::UnavailableError("x"), *submission).message(), "x");
}

}  // namespace
}  // namespace capstan::cli
