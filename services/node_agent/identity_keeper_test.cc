#include "services/node_agent/identity_keeper.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/log/testing_sink.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "services/node_agent/ports/fake_ports.h"

namespace capstan::node_agent {
namespace {

class IdentityKeeperTest : public testing::Test {
 protected:
  IdentityKeeperTest() : identity_(&strand_), logger_("test", &clock_, &sink_) { Restart(); }

  void Restart() {
    keeper_ = std::make_unique<IdentityKeeper>(&strand_, &identity_, &random_, &logger_, nullptr);
  }
  static KeepIdentity Order(int32_t index) {
    const session::TaskId id{"job", 1, "w", index};
    return {Directory(index),
            IssueIdentity{id, 0, "/tasks/" + id.Path(), 0, "projects/p/jobs/j", "a"}};
  }
  static std::string Directory(int32_t index) {
    return "/tasks/" + session::TaskId{"job", 1, "w", index}.Path() + "/identity";
  }
  // As PREPARE does it.
  void Prepare(int32_t index) {
    identity_.Issue(Order(index).order, [](const absl::StatusOr<std::string>&) {});
    strand_.RunReady();
    identity_.issues.clear();
  }
  absl::Duration Left(int32_t index) {
    return identity_.lives[Directory(index)].not_after - clock_.Read().wall;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  Random random_{1};
  FakeTaskIdentity identity_;
  log::TestingSink sink_;
  log::Logger logger_;
  std::unique_ptr<IdentityKeeper> keeper_;
};

TEST_F(IdentityKeeperTest, RenewsInTimeForAsLongAsTheTaskRuns) {
  Prepare(0);
  keeper_->Keep(Order(0));
  strand_.Advance(absl::Hours(8) - absl::Seconds(1));
  EXPECT_TRUE(identity_.issues.empty());
  for (int hour = 0; hour < 24 * 30; ++hour) {
    strand_.Advance(absl::Hours(1));
    ASSERT_GT(Left(0), absl::Hours(13)) << hour;
  }
  EXPECT_LE(identity_.issues.size(), 90u);
  keeper_->Drop(Order(0).order.id);
  identity_.issues.clear();
  strand_.Advance(absl::Hours(48));
  EXPECT_TRUE(identity_.issues.empty());
  EXPECT_EQ(strand_.armed(), 0u);
}

TEST_F(IdentityKeeperTest, TwelveHoursWithoutCredentialsLoseNothingWheneverTheyBegin) {
  for (int begin = 0; begin < 24; begin += 2) {
    Prepare(0);
    keeper_->Keep(Order(0));
    strand_.Advance(absl::Hours(begin));
    identity_.failure = absl::UnavailableError("credentials is away");
    strand_.Advance(absl::Hours(12));
    ASSERT_GT(Left(0), absl::Hours(1)) << begin;
    identity_.failure = absl::OkStatus();
    strand_.Advance(absl::Minutes(6));
    ASSERT_GT(Left(0), absl::Hours(13)) << begin;
    keeper_->Clear();
  }
}

TEST_F(IdentityKeeperTest, ARestartedAgentGoesOnFromTheFolder) {
  Prepare(0);
  keeper_->Keep(Order(0));
  strand_.Advance(absl::Hours(7));
  Restart();
  keeper_->Keep(Order(0));
  strand_.Advance(absl::Minutes(30));
  EXPECT_TRUE(identity_.issues.empty());
  strand_.Advance(absl::Hours(3));
  EXPECT_EQ(identity_.issues.size(), 1u);
  // Past its end while no agent was there: renewed at once.
  Restart();
  strand_.Advance(absl::Hours(30));
  EXPECT_LT(Left(0), absl::ZeroDuration());
  keeper_->Keep(Order(0));
  strand_.RunReady();
  EXPECT_GT(Left(0), absl::Hours(23));
}

TEST_F(IdentityKeeperTest, ALostIdentityIsGotAnew) {
  keeper_->Keep(Order(0));
  strand_.RunReady();
  EXPECT_EQ(identity_.issues.size(), 1u);
  EXPECT_GT(Left(0), absl::Hours(23));
}

TEST_F(IdentityKeeperTest, TasksOfAGangDoNotAskAtOnce) {
  std::set<absl::Time> times;
  for (int i = 0; i < 50; ++i) {
    Prepare(i);
    keeper_->Keep(Order(i));
  }
  size_t before = 0;
  while (identity_.issues.size() < 50) {
    ASSERT_TRUE(strand_.RunNext());
    if (identity_.issues.size() == before) continue;
    EXPECT_LE(identity_.issues.size(), before + 1);
    before = identity_.issues.size();
    times.insert(clock_.Read().wall);
  }
  EXPECT_EQ(times.size(), 50u);
  EXPECT_GT(*times.rbegin() - *times.begin(), absl::Hours(1));
}

TEST_F(IdentityKeeperTest, RetriesAreBoundedAlsoAfterTheEnd) {
  Prepare(0);
  keeper_->Keep(Order(0));
  identity_.failure = absl::UnavailableError("credentials is away");
  strand_.Advance(absl::Hours(24));
  const size_t until_end = identity_.issues.size();
  // 14 to 16 h of at most 5 min each, at least half of that; faster in the last two hours.
  EXPECT_GE(until_end, 150u);
  EXPECT_LE(until_end, 1500u);
  strand_.Advance(absl::Hours(1));
  EXPECT_LE(identity_.issues.size() - until_end, 250u);
  identity_.failure = absl::OkStatus();
  strand_.Advance(absl::Seconds(31));
  EXPECT_GT(Left(0), absl::Hours(23));
  // One warning for one outage.
  size_t warnings = 0;
  for (const log::Record& record : sink_.records()) {
    warnings += record.level == log::Level::kWarning ? 1 : 0;
  }
  EXPECT_EQ(warnings, 1u);
}

TEST_F(IdentityKeeperTest, ShortLivesAreKeptToo) {
  identity_.life = absl::Seconds(30);
  Prepare(0);
  keeper_->Keep(Order(0));
  for (int second = 0; second < 600; ++second) {
    strand_.Advance(absl::Seconds(1));
    ASSERT_GT(Left(0), absl::Seconds(15));
  }
  EXPECT_LE(identity_.issues.size(), 60u);
}

TEST_F(IdentityKeeperTest, AnAnswerAfterTheTasksEndIsNotHeeded) {
  keeper_->Keep(Order(0));
  // The answer to Inspect is under way.
  keeper_->Drop(Order(0).order.id);
  keeper_->Keep(Order(0));
  strand_.RunReady();
  EXPECT_EQ(identity_.issues.size(), 1u);
  EXPECT_EQ(strand_.armed(), 1u);
  keeper_.reset();
  EXPECT_EQ(strand_.armed(), 0u);
}

TEST_F(IdentityKeeperTest, AWallClockStepIsNoticedWithinTenMinutes) {
  Prepare(0);
  keeper_->Keep(Order(0));
  strand_.Advance(absl::Minutes(1));
  clock_.StepWall(absl::Hours(11));
  strand_.Advance(absl::Minutes(10));
  EXPECT_EQ(identity_.issues.size(), 1u);
}

}  // namespace
}  // namespace capstan::node_agent
