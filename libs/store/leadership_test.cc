#include "libs/store/leadership.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::store {
namespace {

constexpr char kKey[] = "/capstan/test/v1/leader";

class LeadershipTest : public testing::Test {
 protected:
  std::unique_ptr<Leadership> Candidate(const std::string& name, bool sole_owner = false) {
    auto candidate = std::make_unique<Leadership>(
        store_.get(), &strand_,
        Leadership::Options{.key = kKey, .value = name, .sole_owner = sole_owner});
    candidate->Start({.on_gained = [this, name] { log_.push_back(name + "+"); },
                      .on_lost = [this, name](absl::Status) { log_.push_back(name + "-"); }});
    return candidate;
  }

  // Sends a guarded transaction; true if it took effect.
  bool Write(const Leadership& leader) {
    bool succeeded = false;
    store_->Txn({.compares = {leader.Guard()}, .then = {Put{"/k", "1"}}, .otherwise = {}},
                [&](absl::StatusOr<TxnResult> result) { succeeded = result->succeeded; });
    strand_.RunReady();
    return succeeded;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>(&strand_);
  std::vector<std::string> log_;
};

TEST_F(LeadershipTest, IsGainedKeptAndHandedOver) {
  auto a = Candidate("a");
  strand_.RunReady();
  auto b = Candidate("b");
  strand_.Advance(absl::Minutes(10));
  EXPECT_EQ(log_, std::vector<std::string>{"a+"});
  EXPECT_TRUE(a->Valid());
  EXPECT_FALSE(b->Valid());
  EXPECT_EQ(b->holder(), absl::optional<std::string>("a"));
  EXPECT_TRUE(Write(*a));
  bool resigned = false;
  a->Resign([&](absl::Status status) { resigned = status.ok(); });
  EXPECT_FALSE(a->Valid());
  EXPECT_EQ(log_.back(), "a-");
  strand_.RunReady();
  EXPECT_TRUE(resigned);
  EXPECT_TRUE(b->Valid());
  EXPECT_GT(b->epoch(), a->epoch());
  EXPECT_GT(b->token(), a->token());
  EXPECT_FALSE(Write(*a));
  EXPECT_TRUE(Write(*b));
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(log_, (std::vector<std::string>{"a+", "a-", "b+"}));
}

TEST_F(LeadershipTest, SilentLeaderIsReplacedWithinFiveSecondsAndStopsBefore) {
  auto a = Candidate("a");
  strand_.RunReady();
  auto b = Candidate("b");
  strand_.Advance(absl::Seconds(30));
  const BootTime died = clock_.Read().boot;
  const BootTime a_valid_until = a->ValidUntil();
  a.reset();
  while (!b->Valid()) ASSERT_TRUE(strand_.RunNext());
  EXPECT_LT(clock_.Read().boot - died, absl::Seconds(5));
  EXPECT_GT(b->started_at(), a_valid_until);
}

TEST_F(LeadershipTest, ValidityIsCountedFromSendingAndEndsWhenTheStoreIsAway) {
  auto a = Candidate("a");
  strand_.Advance(absl::Seconds(10));
  const BootTime last_sent = clock_.Read().boot;
  EXPECT_EQ(a->ValidUntil() - last_sent, absl::Seconds(4) - absl::Milliseconds(400));
  EXPECT_FALSE(a->RenewalIsLate());
  store_->SetUnreachable(true);
  const BootTime until = a->ValidUntil();
  strand_.Advance(absl::Milliseconds(2600));
  EXPECT_FALSE(a->RenewalIsLate());
  strand_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(a->Valid());
  EXPECT_TRUE(a->RenewalIsLate());
  while (a->Valid()) ASSERT_TRUE(strand_.RunNext());
  EXPECT_FALSE(a->RenewalIsLate());
  EXPECT_EQ(clock_.Read().boot, until);
  EXPECT_EQ(log_.back(), "a-");
  strand_.Advance(absl::Minutes(1));
  store_->SetUnreachable(false);
  strand_.Advance(absl::Seconds(1));
  EXPECT_TRUE(a->Valid());
  EXPECT_EQ(log_, (std::vector<std::string>{"a+", "a-", "a+"}));
}

TEST_F(LeadershipTest, StepDownGivesANewEpoch) {
  auto a = Candidate("a");
  strand_.RunReady();
  const int64_t first = a->epoch();
  const Compare old_guard = a->Guard();
  a->StepDown(absl::UnavailableError("commit failed"));
  EXPECT_FALSE(a->Valid());
  strand_.Advance(absl::Seconds(1));
  EXPECT_TRUE(a->Valid());
  EXPECT_GT(a->epoch(), first);
  EXPECT_NE(a->Guard().number, old_guard.number);
}

TEST_F(LeadershipTest, SoleOwnerDoesNotWaitForItsDeadPredecessor) {
  auto disk = store_->image();
  auto a = Candidate("a", /*sole_owner=*/true);
  strand_.RunReady();
  const FencingToken before = a->token();
  store_->Crash();
  a.reset();
  store_ = std::make_unique<MemoryStore>(&strand_, disk);
  a = Candidate("a2", /*sole_owner=*/true);
  strand_.RunReady();
  EXPECT_TRUE(a->Valid());
  EXPECT_GT(a->token(), before);
}

TEST_F(LeadershipTest, UnknownOutcomeOfTheClaimDoesNotLockEveryoneOut) {
  store_->FailNextTxnAfterCommit(absl::UnknownError("lost"));
  auto a = Candidate("a");
  strand_.Advance(absl::Seconds(2));
  EXPECT_TRUE(a->Valid());
}

TEST_F(LeadershipTest, IncarnationComesFirstInTheToken) {
  EXPECT_LT((FencingToken{1, 900}), (FencingToken{2, 3}));
  EXPECT_LT((FencingToken{2, 3}), (FencingToken{2, 4}));
}

TEST_F(LeadershipTest, ResigningAtAnyStepOfAClaimLeavesNoKey) {
  for (int steps = 0; steps < 12; ++steps) {
    auto a = Candidate("a");
    for (int i = 0; i < steps; ++i) strand_.RunNext();
    bool resigned = false;
    a->Resign([&](const absl::Status& status) { resigned = status.ok(); });
    strand_.RunReady();
    EXPECT_TRUE(resigned) << steps;
    bool held = true;
    store_->Range({.key = kKey},
                  [&](absl::StatusOr<RangeResult> found) { held = !found->kvs.empty(); });
    strand_.RunReady();
    EXPECT_FALSE(held) << steps;
  }
}

TEST_F(LeadershipTest, ArmsNothingAfterResigning) {
  auto a = Candidate("a");
  strand_.RunReady();
  a->Resign([](absl::Status) {});
  strand_.RunReady();
  EXPECT_EQ(strand_.armed(), 0u);
}

}  // namespace
}  // namespace capstan::store
