#include "libs/store/commit_queue.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::store {
namespace {

class CommitQueueTest : public testing::Test {
 protected:
  void Submit(const std::string& name, std::vector<Put> puts, std::vector<Delete> deletes = {}) {
    queue_->Submit(
        std::move(puts), std::move(deletes), [this, name](absl::StatusOr<int64_t> revision) {
          log_.push_back(absl::StrCat(
              name, revision.ok() ? absl::StrCat("@", *revision)
                                  : absl::StrCat("!", status::Reason(revision.status()))));
        });
  }

  std::string Value(const std::string& key) {
    std::string value = "absent";
    store_.Range({.key = key}, [&](absl::StatusOr<RangeResult> result) {
      if (!result->kvs.empty()) value = result->kvs[0].value;
    });
    strand_.RunReady();
    return value;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  MemoryStore store_{&strand_};
  std::unique_ptr<CommitQueue> queue_ =
      std::make_unique<CommitQueue>(&store_, &strand_, absl::nullopt);
  std::vector<std::string> log_;
};

TEST_F(CommitQueueTest, ManySubmissionsGoInOneTransactionAndTheLastPutWins) {
  Submit("a", {Put{"/k", "1"}});
  Submit("b", {Put{"/k", "2"}, Put{"/l", "1"}});
  Submit("c", {Put{"/m", "1"}}, {Delete{"/k", ""}});
  strand_.RunReady();
  EXPECT_EQ(log_, (std::vector<std::string>{"a@2", "b@2", "c@2"}));
  EXPECT_EQ(queue_->transactions(), 1);
  EXPECT_EQ(Value("/k"), "absent");
  EXPECT_EQ(Value("/l"), "1");
}

TEST_F(CommitQueueTest, EmptySubmissionsKeepTheirPlace) {
  store_.SetCommitDelay(absl::Milliseconds(5));
  Submit("empty0", {});
  Submit("a", {Put{"/k", "1"}});
  Submit("empty1", {});
  strand_.RunReady();
  Submit("empty2", {});
  strand_.RunReady();
  EXPECT_TRUE(log_.empty());
  strand_.Advance(absl::Milliseconds(5));
  EXPECT_EQ(log_, (std::vector<std::string>{"empty0@2", "a@2", "empty1@2", "empty2@2"}));
  EXPECT_EQ(queue_->transactions(), 1);
}

TEST_F(CommitQueueTest, CallbacksNeverRunWithinSubmit) {
  Submit("empty", {});
  EXPECT_TRUE(log_.empty());
  strand_.RunReady();
  EXPECT_EQ(log_, std::vector<std::string>{"empty@0"});
}

TEST_F(CommitQueueTest, AKeyPutAgainAfterItsDeletionIsCreatedAgain) {
  Submit("a", {Put{"/k", "1"}});
  strand_.RunReady();
  Submit("b", {}, {Delete{"/k", ""}});
  Submit("c", {Put{"/k", "2"}});
  strand_.RunReady();
  EXPECT_EQ(log_, (std::vector<std::string>{"a@2", "b@3", "c@4"}));
}

TEST_F(CommitQueueTest, RangesDoNotSwallowTheirNeighbours) {
  Submit("a", {Put{"/p/1", "1"}, Put{"/p/2", "1"}});
  Submit("b", {}, {Delete{"/p/", PrefixEnd("/p/")}});
  Submit("c", {Put{"/p/3", "1"}});
  strand_.RunReady();
  EXPECT_EQ(queue_->transactions(), 3);
  EXPECT_EQ(Value("/p/2"), "absent");
  EXPECT_EQ(Value("/p/3"), "1");
}

TEST_F(CommitQueueTest, SplitsAtTheBoundsOfATransaction) {
  constexpr size_t kMany = 2 * kMaxTxnOps + 44;
  for (size_t i = 0; i < kMany; ++i) Submit("s", {Put{absl::StrCat("/k", i), "1"}});
  strand_.RunReady();
  EXPECT_EQ(queue_->transactions(), 3);
  EXPECT_EQ(log_.size(), kMany);
  for (int i = 0; i < 5; ++i) {
    Submit("big", {Put{absl::StrCat("/big", i), std::string(700 << 10, 'x')}});
  }
  strand_.RunReady();
  EXPECT_EQ(queue_->transactions(), 6);
  EXPECT_TRUE(queue_->status().ok()) << queue_->status();
}

TEST_F(CommitQueueTest, FillsWhatItsStoreTakes) {
  store_.SetTxnBounds({.ops = 4 * kMaxTxnOps, .bytes = 4 << 20});
  queue_ = std::make_unique<CommitQueue>(&store_, &strand_, absl::nullopt);
  for (size_t i = 0; i < 4 * kMaxTxnOps; ++i) Submit("s", {Put{absl::StrCat("/k", i), "1"}});
  for (int i = 0; i < 6; ++i) {
    Submit("big", {Put{absl::StrCat("/big", i), std::string(700 << 10, 'x')}});
  }
  strand_.RunReady();
  EXPECT_TRUE(queue_->status().ok()) << queue_->status();
  EXPECT_EQ(queue_->transactions(), 3);
  EXPECT_EQ(log_.size(), 4 * kMaxTxnOps + 6);
}

TEST_F(CommitQueueTest, FailedCompareKillsTheQueue) {
  queue_ = std::make_unique<CommitQueue>(
      &store_, &strand_,
      Compare{.key = "/leader", .target = Compare::Target::kCreateRevision, .number = 7});
  Submit("a", {Put{"/k", "1"}});
  strand_.RunReady();
  Submit("b", {});
  strand_.RunReady();
  EXPECT_EQ(log_, (std::vector<std::string>{"a!NOT_LEADER", "b!NOT_LEADER"}));
  EXPECT_EQ(Value("/k"), "absent");
  EXPECT_EQ(queue_->transactions(), 1);
}

TEST_F(CommitQueueTest, ErrorFailsWhatIsUnderWayAndWhatWaits) {
  store_.SetCommitDelay(absl::Milliseconds(5));
  store_.SetFull(true);
  Submit("a", {Put{"/k", "1"}});
  strand_.RunReady();
  Submit("b", {Put{"/l", "1"}});
  strand_.Advance(absl::Milliseconds(10));
  EXPECT_EQ(log_, (std::vector<std::string>{"a!NO_SPACE", "b!NO_SPACE"}));
}

TEST_F(CommitQueueTest, ASubmissionThatFitsNoTransactionFailsAfterThoseBeforeIt) {
  std::vector<Put> many;
  for (size_t i = 0; i <= kMaxTxnOps; ++i) many.push_back(Put{absl::StrCat("/k", i), "1"});
  Submit("a", {Put{"/k", "1"}});
  Submit("b", std::move(many));
  strand_.RunReady();
  EXPECT_EQ(log_, (std::vector<std::string>{"a@2", "b!INVALID_STORE_REQUEST"}));
  EXPECT_EQ(queue_->status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CommitQueueTest, MayBeDestroyedByItsCallback) {
  queue_->Submit({Put{"/k", "1"}}, {}, [this](absl::StatusOr<int64_t>) { queue_.reset(); });
  Submit("b", {Put{"/l", "1"}});
  strand_.RunReady();
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(Value("/l"), "1");
}

// What the store holds in the end is what applying the submissions one by one would have made.
TEST_F(CommitQueueTest, RandomSubmissionsEqualSerialApplication) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    SimulatedStrand strand(&clock_);
    MemoryStore batched(&strand);
    MvccMap serial;
    CommitQueue queue(&batched, &strand, absl::nullopt);
    int answered = 0;
    for (int i = 0; i < 200; ++i) {
      TxnRequest one;
      std::vector<Put> puts;
      std::vector<Delete> deletes;
      const std::string key = absl::StrCat("/", random.Below(8));
      if (random.OneIn(5)) {
        deletes.push_back(Delete{key, random.OneIn(3) ? absl::StrCat(key, "z") : ""});
        one.then.push_back(deletes.back());
      } else {
        puts.push_back(Put{key, absl::StrCat(i)});
        one.then.push_back(puts.back());
      }
      ASSERT_TRUE(serial.Apply(one, [](LeaseId) { return true; }).ok());
      queue.Submit(std::move(puts), std::move(deletes), [&](absl::StatusOr<int64_t> revision) {
        EXPECT_TRUE(revision.ok());
        ++answered;
      });
      if (random.OneIn(10)) strand.RunReady();
    }
    strand.RunReady();
    EXPECT_EQ(answered, 200);
    const auto want = serial.Range({.key = "/", .end = PrefixEnd("/")});
    const auto got = batched.image()->map.Range({.key = "/", .end = PrefixEnd("/")});
    ASSERT_EQ(want->kvs.size(), got->kvs.size()) << "seed " << seed;
    for (size_t i = 0; i < want->kvs.size(); ++i) {
      EXPECT_EQ(want->kvs[i].key, got->kvs[i].key);
      EXPECT_EQ(want->kvs[i].value, got->kvs[i].value);
    }
  }
}

}  // namespace
}  // namespace capstan::store
