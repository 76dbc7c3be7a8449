// What follows when a gang fails, by the rules that its owner wrote, on a platform whose scheduler
// is killed meanwhile.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/joined_node.h"
#include "integration/platform/slot_job.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::HasSubstr;

constexpr char kRules[] =
    "  retry:\n    max_restarts: 1\n    initial_back_off: 0.1s\n    rules:\n"
    "      - {exit_codes: [2, 64], action: ACTION_FAIL}\n"
    "      - {exit_codes: [75], action: ACTION_RESTART_UNCOUNTED}\n"
    "      - {signals: [7], action: ACTION_RESTART_UNCOUNTED, avoid_node_for: 2h}\n";

class RetryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ = std::make_unique<TestPlatform>(
        "node_agent:\n  reserved: {cpu: 0, memory: 0}\n  accelerators: {slot: 8}\n");
    platform_->Up();
  }
  void KillScheduler() {
    platform_->KillAndAwait("scheduler");
    ASSERT_TRUE(platform_->AwaitReady());
  }
  void Submit(const std::string& id, const std::string& script) {
    MustSubmit({.id = id, .script = script, .spec_lines = kRules}, platform_.get());
  }
  bool Ends(const std::string& id, Job::State state) {
    return platform_->Await([&] { return platform_->Get(id).state() == state; });
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(RetryTest, RulesSayWhatEachEndMeans) {
  Submit("wrong", "exit 64");
  ASSERT_TRUE(Ends("wrong", Job::STATE_FAILED));
  EXPECT_EQ(platform_->Get("wrong").reason(), "RETRY_RULE");
  EXPECT_EQ(platform_->Get("wrong").generation(), 1);
  // The one says twice that it was bad luck, the other fails twice of its own fault.
  const std::string at_the_gate =
      absl::StrCat("while ! test -e ", Gate(*platform_), "; do sleep 0.1; done");
  Submit("unlucky", absl::StrCat("test $CAPSTAN_GENERATION = 1 && exit 75; ", at_the_gate,
                                 "; test $CAPSTAN_GENERATION = 3 || exit 75"));
  Submit("faulty", absl::StrCat("test $CAPSTAN_GENERATION = 1 && exit 3; ", at_the_gate,
                                "; test $CAPSTAN_GENERATION = 3 || exit 3"));
  for (const char* id : {"unlucky", "faulty"}) {
    ASSERT_TRUE(platform_->AwaitJob(id, "STATE_RUNNING STARTED 2"));
  }
  KillScheduler();
  OpenGate(*platform_);
  EXPECT_EQ(platform_->MustSucceed("unlucky").generation(), 3);
  EXPECT_EQ(platform_->Get("unlucky").counted_restarts(), 0);
  ASSERT_TRUE(Ends("faulty", Job::STATE_FAILED));
  EXPECT_EQ(platform_->Get("faulty").generation(), 2);
  EXPECT_EQ(platform_->Get("faulty").counted_restarts(), 1);
  EXPECT_EQ(platform_->Get("faulty").reason(), "TASK_FAILED");
}

TEST_F(RetryTest, AJobStaysOffTheNodeThatFailedIt) {
  Submit("picky", "test $CAPSTAN_GENERATION = 2 || kill -BUS $$");
  const auto expect_off = [this] {
    ASSERT_TRUE(platform_->AwaitJob("picky", "STATE_QUEUED INSUFFICIENT_RESOURCES 1"));
    EXPECT_THAT(platform_->MustCapstan({"job", "explain", "picky"}),
                HasSubstr("1 of 1 node failed a Task of the Job, which stays off it for a time"));
  };
  expect_off();
  KillScheduler();
  // Others still come there, as it did.
  Submit("other", "true");
  platform_->MustSucceed("other");
  expect_off();
  const JoinedNode more(platform_.get(), "n1", 0, "accelerators: {slot: 1}\n");
  const Job ended = platform_->MustSucceed("picky");
  EXPECT_EQ(ended.generation(), 2);
  EXPECT_EQ(ended.counted_restarts(), 0);
  ASSERT_EQ(ended.tasks_size(), 1);
  EXPECT_EQ(ended.tasks(0).node(), "clusters/local/nodes/n1");
}

}  // namespace
}  // namespace capstan::integration
