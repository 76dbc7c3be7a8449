// A service is away for longer than a Task may go without a word from the scheduler: one after the
// other, and all of them at once. No running Task notices, for as long as its certificates live.
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/platform/test_platform.h"

namespace capstan::integration {
namespace {

using scheduler::v1::Job;
using ::testing::IsEmpty;

constexpr int kRanks = 2;
constexpr absl::Duration kStep = absl::Milliseconds(50);
constexpr absl::Duration kFence = absl::Seconds(2);
// By when Tasks that had heard nothing would have ended, and the gang would run elsewhere.
constexpr absl::Duration kAway = absl::Seconds(4);

class AbsentServicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto unable = TestPlatform::Unable();
    if (unable.has_value()) GTEST_SKIP() << *unable;
    platform_ =
        std::make_unique<TestPlatform>("fencing: {min_fence_after: 1s, replace_margin: 1s}");
    platform_->Up();
    platform_->Submit(
        {.id = "gang", .ranks = kRanks, .steps = 1'000'000, .step = kStep, .fence_after = kFence});
    ASSERT_TRUE(platform_->Await([&] { return platform_->Witnesses().Count("start") == kRanks; }));
  }

  int64_t Step(int rank) const { return platform_->Witnesses().lives().at({1, rank}).last_step; }

  // Dead, and nobody starts them again while the gang works on for kAway.
  void TakeAway(const std::vector<std::string>& parts) {
    SCOPED_TRACE(absl::StrJoin(parts, ", "));
    platform_->Signal("supervisor", SIGSTOP);
    for (const std::string& part : parts) platform_->Signal(part, SIGKILL);
    for (const std::string& part : parts) {
      EXPECT_TRUE(platform_->Await([&] { return !platform_->Part(part).has_value(); })) << part;
    }
    std::vector<int64_t> enough;
    for (int rank = 0; rank < kRanks; ++rank) enough.push_back(Step(rank) + kAway / kStep);
    EXPECT_TRUE(platform_->Await([&] {
      for (int rank = 0; rank < kRanks; ++rank) {
        if (Step(rank) < enough[static_cast<size_t>(rank)]) return false;
      }
      return true;
    })) << "a rank no longer works";
    for (const std::string& part : parts) EXPECT_FALSE(platform_->Part(part).has_value()) << part;
    platform_->Signal("supervisor", SIGCONT);
    EXPECT_TRUE(platform_->AwaitReady());
    const Job job = platform_->Get("gang");
    EXPECT_EQ(job.state(), Job::STATE_RUNNING);
    EXPECT_EQ(job.generation(), 1);
    EXPECT_EQ(platform_->Witnesses().Count("start"), kRanks);
    EXPECT_THAT(platform_->Witnesses().Violations(), IsEmpty());
  }

  std::unique_ptr<TestPlatform> platform_;
};

TEST_F(AbsentServicesTest, NoRunningTaskNotices) {
  const std::vector<std::string> services = {"credentials", "telemetry", "data_loader",
                                             "cluster_manager"};
  for (const std::string& service : services) TakeAway({service});
  TakeAway(services);
}

}  // namespace
}  // namespace capstan::integration
