#include "libs/store/memory_store.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::store {
namespace {

class MemoryStoreTest : public testing::Test {
 protected:
  void PutKey(const std::string& key, const std::string& value) {
    store_->Txn({.compares = {}, .then = {Put{key, value}}, .otherwise = {}},
                [this](absl::StatusOr<TxnResult> result) {
                  answers_.push_back(result.ok() ? "ok" : status::Reason(result.status()));
                });
  }

  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    store_->Range({.key = "/", .end = PrefixEnd("/")}, [&](absl::StatusOr<RangeResult> result) {
      for (const KeyValue& kv : result->kvs) keys.push_back(kv.key);
    });
    strand_.RunReady();
    return keys;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  std::shared_ptr<MemoryImage> disk_ = std::make_shared<MemoryImage>();
  std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>(&strand_, disk_);
  std::vector<std::string> answers_;
};

TEST_F(MemoryStoreTest, CrashKeepsTheDiskAndSilencesCallbacks) {
  PutKey("/a", "1");
  strand_.RunReady();
  store_->SetCommitDelay(absl::Seconds(1));
  PutKey("/b", "1");
  PutKey("/c", "1");
  store_->Crash(/*pending_that_commit=*/1);
  store_.reset();
  strand_.Advance(absl::Seconds(2));
  EXPECT_EQ(answers_, std::vector<std::string>{"ok"});
  store_ = std::make_unique<MemoryStore>(&strand_, disk_);
  EXPECT_EQ(Keys(), (std::vector<std::string>{"/a", "/b"}));
}

TEST_F(MemoryStoreTest, OrderlyCloseAnswersEveryCallOnce) {
  store_->SetCommitDelay(absl::Seconds(1));
  PutKey("/a", "1");
  PutKey("/b", "1");
  store_.reset();
  strand_.Advance(absl::Seconds(2));
  EXPECT_EQ(answers_, (std::vector<std::string>{kReasonClosed, kReasonClosed}));
  store_ = std::make_unique<MemoryStore>(&strand_, disk_);
  EXPECT_TRUE(Keys().empty());
}

TEST_F(MemoryStoreTest, CommitsTogetherWhatWaitsForTheDelay) {
  store_->SetCommitDelay(absl::Milliseconds(10));
  for (int i = 0; i < 5; ++i) PutKey("/" + std::to_string(i), "1");
  EXPECT_TRUE(Keys().empty());
  EXPECT_TRUE(answers_.empty());
  strand_.Advance(absl::Milliseconds(10));
  EXPECT_EQ(answers_.size(), 5u);
  EXPECT_EQ(store_->commits(), 1);
}

TEST_F(MemoryStoreTest, InjectedFailures) {
  store_->FailNextTxn(absl::UnavailableError("lost"));
  PutKey("/a", "1");
  PutKey("/b", "1");
  strand_.RunReady();
  EXPECT_EQ(Keys(), std::vector<std::string>{"/b"});
  store_->FailNextTxnAfterCommit(absl::UnknownError("lost"));
  PutKey("/c", "1");
  strand_.RunReady();
  EXPECT_EQ(Keys(), (std::vector<std::string>{"/b", "/c"}));
  store_->SetFull(true);
  PutKey("/d", "1");
  strand_.RunReady();
  EXPECT_EQ(answers_, (std::vector<std::string>{"", "ok", "", kReasonNoSpace}));
}

TEST_F(MemoryStoreTest, LeasesStartAfreshWhenReopened) {
  LeaseId lease = 0;
  store_->GrantLease(absl::Seconds(10), [&](absl::StatusOr<LeaseId> got) { lease = *got; });
  strand_.RunReady();
  store_->Txn({.compares = {}, .then = {Put{"/a", "1", lease}}, .otherwise = {}},
              [](absl::StatusOr<TxnResult>) {});
  strand_.Advance(absl::Seconds(9));
  store_->Crash();
  store_ = std::make_unique<MemoryStore>(&strand_, disk_);
  strand_.Advance(absl::Seconds(9));
  EXPECT_EQ(Keys().size(), 1u);
  strand_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Keys().empty());
  EXPECT_EQ(strand_.armed(), 0u);
}

}  // namespace
}  // namespace capstan::store
