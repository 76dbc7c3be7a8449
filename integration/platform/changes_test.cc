// `capstan node simulate` as a platform engineer has it: with one scheduler, and with two, of which
// the one that follows answers.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/command.h"
#include "integration/platform/store_config.h"
#include "integration/platform/test_platform.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// `capstan help exit-codes`.
constexpr int kInvalidInput = 3;
constexpr int kConflict = 6;

constexpr char kChanges[] =
    "alternatives:\n"
    "  - name: more\n"
    "    add: [{count: 2, like: node-0, labels: {disk: fast}}]\n"
    "    jobs: [large.yaml]\n"
    "  - name: as-it-is\n"
    "    jobs: [large.yaml]\n"
    "  - name: none-left\n"
    "    remove: [node-0]\n"
    "    jobs: [large.yaml]\n";

// Where only a Node that is added would do.
constexpr char kLarge[] =
    "spec:\n"
    "  node_requirements: [{key: disk, operator: OPERATOR_IN, values: [fast]}]\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 2\n"
    "      argv: [/bin/true]\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

class ChangesTest : public ::testing::Test {
 protected:
  void Up(const std::string& config) {
    platform_ = std::make_unique<TestPlatform>(config);
    platform_->Up();
    Write("large.yaml", kLarge);
    Write("changes.yaml", kChanges);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(platform_->folder(), "/", name)) << text;
  }
  CommandResult Simulate(const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"node", "simulate",
                                          absl::StrCat(platform_->folder(), "/", file)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return platform_->Capstan(arguments);
  }
  void ExpectAnswered(const CommandResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(
        result.out,
        AllOf(StartsWith("ALTERNATIVE  WAIT  START  DISPLACED  START AGAIN  JOBS\n"
                         "more         0     0      0          0            large.yaml STARTS\n"
                         "as-it-is     0     0      0          0            large.yaml WAITS\n"
                         "none-left    0     0      0          0            large.yaml WAITS\n"
                         "\n3 simulated, all from what was stored "),
              HasSubstr(" of one core\n")));
  }

  // Outlives the platform.
  std::unique_ptr<testenv::EtcdServer> etcd_;
  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(ChangesTest, TheOnlySchedulerAnswersIfItMay) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  Up("");
  const CommandResult refused = Simulate("changes.yaml");
  EXPECT_EQ(refused.exit_code, kConflict) << refused.out << refused.err;
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("--on-leader asks it all the same"));
  ExpectAnswered(Simulate("changes.yaml", {"--on-leader"}));
  const CommandResult json = Simulate(
      "changes.yaml", {"--on-leader", "-o",
                       "jsonpath={.name} {.response.jobs[0].outcome} {.response.jobs[0].reason}"});
  EXPECT_EQ(json.out,
            "more OUTCOME_STARTS PLACED\nas-it-is OUTCOME_WAITS INSUFFICIENT_RESOURCES\n"
            "none-left OUTCOME_WAITS INSUFFICIENT_RESOURCES\n")
      << json.err;
  // One that is wrong with what is stored leaves the others as they are.
  Write("absent.yaml",
        "alternatives:\n"
        "  - {name: first, cordon: [node-0]}\n"
        "  - {name: second, cordon: [absent]}\n"
        "  - {name: third, uncordon: [node-0]}\n");
  const CommandResult absent = Simulate("absent.yaml", {"--on-leader"});
  EXPECT_EQ(absent.exit_code, kInvalidInput);
  EXPECT_THAT(absent.out,
              AllOf(HasSubstr("\nfirst        0 "), HasSubstr("\nsecond       refused\n"),
                    HasSubstr("\nthird        0 "), HasSubstr("\n2 simulated, 1 refused, ")));
  EXPECT_THAT(absent.err, AllOf(HasSubstr("absent.yaml:3:"),
                                HasSubstr("alternatives[1].cordon[0]: "
                                          "`clusters/local/nodes/absent` does not exist")));
  // And of one that is wrong by itself nothing is begun.
  Write("wrong.yaml",
        "alternatives:\n"
        "  - {name: first, cordon: [node-0]}\n"
        "  - name: second\n"
        "    add: [{count: 101, like: node-0}]\n");
  const CommandResult wrong = Simulate("wrong.yaml", {"--on-leader"});
  EXPECT_EQ(wrong.exit_code, kInvalidInput);
  EXPECT_EQ(wrong.out, "");
  EXPECT_THAT(wrong.err, HasSubstr("wrong.yaml:"));
}

TEST_F(ChangesTest, OfTwoTheOneThatFollowsAnswers) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  auto etcd = testenv::EtcdServer::Start({});
  ASSERT_TRUE(etcd.ok()) << etcd.status();
  etcd_ = *std::move(etcd);
  Up(absl::StrCat("schedulers: 2\n", StoreConfig(*etcd_)));
  ExpectAnswered(Simulate("changes.yaml"));
  // Whichever of them that is.
  platform_->KillAndAwait("scheduler");
  ASSERT_TRUE(platform_->AwaitReady());
  ExpectAnswered(Simulate("changes.yaml"));
  platform_->KillAndAwait("scheduler-2");
  ASSERT_TRUE(platform_->AwaitReady());
  ExpectAnswered(Simulate("changes.yaml"));
}

}  // namespace
}  // namespace capstan::integration
