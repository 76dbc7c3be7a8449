// Which Nodes take a Job's Tasks, by their labels, taints and racks, on a platform with several of
// them whose scheduler is killed meanwhile.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/joined_node.h"
#include "integration/platform/slot_job.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr char kPrefix[] = "clusters/local/nodes/";

class NodesTest : public ::testing::Test {
 protected:
  void TearDown() override {
    // They are Nodes of it.
    nodes_.clear();
    platform_ = nullptr;
  }
  void Up(const std::string& config) {
    platform_ = std::make_unique<TestPlatform>(config);
    platform_->Up();
  }
  void Join(const std::string& name, const std::string& config) {
    nodes_.push_back(std::make_unique<JoinedNode>(platform_.get(), name,
                                                  static_cast<int>(nodes_.size()), config));
  }
  void KillScheduler() {
    platform_->KillAndAwait("scheduler");
    ASSERT_TRUE(platform_->AwaitReady());
  }
  void MustSubmit(const SlotJob& job) { integration::MustSubmit(job, platform_.get()); }
  // By rank.
  std::vector<std::string> NodesOf(const std::string& id) {
    std::vector<std::string> nodes;
    const Job job = platform_->Get(id);
    for (const auto& task : job.tasks()) {
      nodes.push_back(task.node().substr(sizeof kPrefix - 1));
    }
    return nodes;
  }
  std::string Explain(const std::string& id) {
    return platform_->MustCapstan({"job", "explain", id});
  }
  bool Runs(const std::string& id, int generation = 1) {
    return platform_->AwaitJob(id, absl::StrCat("STATE_RUNNING STARTED ", generation));
  }
  bool Waits(const std::string& id) {
    return platform_->AwaitJob(id, "STATE_QUEUED INSUFFICIENT_RESOURCES ");
  }

  std::unique_ptr<TestPlatform> platform_;
  std::vector<std::unique_ptr<JoinedNode>> nodes_;
};

TEST_F(NodesTest, LabelsAndTaintsSayWhoIsTaken) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  Up("node_agent:\n  reserved: {cpu: 0, memory: 0}\n  accelerators: {slot: 4}\n");
  Join("fast",
       "accelerators: {slot: 8}\nlabels: {disk: fast}\n"
       "taints: [{key: capstan.dev/team, value: vision}]\n");
  constexpr char kFast[] =
      "  node_requirements: [{key: disk, operator: OPERATOR_IN, values: [fast]}]\n";
  constexpr char kFastVision[] =
      "  node_requirements: [{key: disk, operator: OPERATOR_IN, values: [fast]}]\n"
      "  tolerations: [{key: capstan.dev/team, value: vision}]\n";
  constexpr char kNotFast[] =
      "      node_requirements: [{key: disk, operator: OPERATOR_DOES_NOT_EXIST}]\n";
  MustSubmit({.id = "asks", .spec_lines = kFast});
  MustSubmit({.id = "vision", .replicas = 2, .spec_lines = kFastVision});
  ASSERT_TRUE(Runs("vision"));
  EXPECT_THAT(NodesOf("vision"), Each("fast"));
  MustSubmit({.id = "plain", .replicas = 2});
  ASSERT_TRUE(Runs("plain"));
  EXPECT_THAT(NodesOf("plain"), Each("node-0"));
  // It tolerates the taint, but its group must not be there.
  MustSubmit({.id = "apart",
              .group_lines = kNotFast,
              .spec_lines = "  tolerations: [{any_value: true}]\n"});
  ASSERT_TRUE(Runs("apart"));
  EXPECT_THAT(NodesOf("apart"), Each("node-0"));
  const auto expect_kept_off = [this](const char* id) {
    ASSERT_TRUE(Waits(id));
    EXPECT_THAT(Explain(id),
                AllOf(HasSubstr("1 of 2 nodes does not meet disk in [fast]"),
                      HasSubstr("1 of 2 nodes has the taint capstan.dev/team=vision")));
  };
  expect_kept_off("asks");
  KillScheduler();
  expect_kept_off("asks");
  MustSubmit({.id = "asks-too", .spec_lines = kFast});
  expect_kept_off("asks-too");
  MustSubmit({.id = "vision-too", .replicas = 2, .spec_lines = kFastVision});
  ASSERT_TRUE(Runs("vision-too"));
  EXPECT_THAT(NodesOf("vision-too"), Each("fast"));
  // Only there would be room for so many.
  MustSubmit({.id = "plain-too", .replicas = 2});
  ASSERT_TRUE(Waits("plain-too"));
  EXPECT_THAT(Explain("plain-too"), HasSubstr("1 of 2 nodes has the taint"));
  EXPECT_THAT(platform_->MustCapstan({"node", "list", "-o", "wide"}),
              HasSubstr("capstan.dev/team=vision"));
}

TEST_F(NodesTest, SlicesAndGangsStandInTheirRacks) {
  const auto unable = TestPlatform::Unable();
  if (unable.has_value()) GTEST_SKIP() << *unable;
  Up("");
  Join("a1", "accelerators: {slot: 1}\nlabels: {capstan.dev/rack: a}\n");
  Join("a2", "accelerators: {slot: 1}\nlabels: {capstan.dev/rack: a}\n");
  Join("b1", "accelerators: {slot: 3}\nlabels: {capstan.dev/rack: b}\n");
  const std::string script =
      absl::StrCat("test $CAPSTAN_GENERATION = 2 && exec sleep 600; while ! ", "test -e ",
                   Gate(*platform_), "; do sleep 0.1; done; exit 1");
  MustSubmit({.id = "sliced",
              .replicas = 4,
              .script = script,
              .group_lines = "      slices: [{level: LEVEL_RACK, size: 2}]\n",
              .spec_lines = "  retry: {max_restarts: 1, initial_back_off: 0.1s}\n"});
  ASSERT_TRUE(Runs("sliced"));
  const auto expect_sliced = [this] {
    const std::vector<std::string> nodes = NodesOf("sliced");
    ASSERT_EQ(nodes.size(), 4);
    std::vector<std::string> racks;
    for (const std::string& node : nodes) racks.push_back(node.substr(0, 1));
    EXPECT_THAT(racks, AnyOf(std::vector<std::string>{"a", "a", "b", "b"},
                             std::vector<std::string>{"b", "b", "a", "a"}));
  };
  expect_sliced();
  KillScheduler();
  // After a failure too.
  OpenGate(*platform_);
  ASSERT_TRUE(Runs("sliced", 2));
  expect_sliced();
  // The slot that is left is in one rack with two that are not.
  constexpr char kOneRack[] = "  topology: {required: LEVEL_RACK}\n";
  MustSubmit({.id = "three", .replicas = 3, .spec_lines = kOneRack});
  ASSERT_TRUE(Waits("three"));
  platform_->MustCapstan({"job", "cancel", "sliced"});
  ASSERT_TRUE(Runs("three"));
  EXPECT_THAT(NodesOf("three"), Each("b1"));
  platform_->MustCapstan({"job", "cancel", "three", "--wait"});
  // Five are free, but no rack has four.
  MustSubmit({.id = "four", .replicas = 4, .spec_lines = kOneRack});
  const auto expect_torn = [this] {
    ASSERT_TRUE(Waits("four"));
    EXPECT_THAT(Explain("four"), HasSubstr("rack"));
  };
  expect_torn();
  KillScheduler();
  expect_torn();
  Join("b2", "accelerators: {slot: 1}\nlabels: {capstan.dev/rack: b}\n");
  ASSERT_TRUE(Runs("four"));
  EXPECT_THAT(NodesOf("four"), Each(AnyOf("b1", "b2")));
}

}  // namespace
}  // namespace capstan::integration
