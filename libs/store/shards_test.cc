#include "libs/store/shards.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::store {
namespace {

constexpr int kCount = 8;

class ShardsTest : public testing::Test {
 protected:
  // One process, and what it has been given.
  struct Replica {
    std::map<int, Compare> held;
    int gained = 0;
    std::unique_ptr<Shards> shards;
  };

  std::unique_ptr<Replica> Start(const std::string& member, bool sole_owner = false) {
    auto replica = std::make_unique<Replica>();
    replica->shards = std::make_unique<Shards>(store_.get(), &strand_,
                                               Shards::Options{.prefix = "/capstan/test/v1/shards/",
                                                               .member = member,
                                                               .count = kCount,
                                                               .sole_owner = sole_owner});
    replica->shards->Start({.on_gained =
                                [replica = replica.get()](int shard, const Leadership& term) {
                                  EXPECT_TRUE(replica->held.emplace(shard, term.Guard()).second);
                                  ++replica->gained;
                                },
                            .on_lost =
                                [replica = replica.get()](int shard, const absl::Status& why) {
                                  EXPECT_FALSE(why.ok());
                                  EXPECT_EQ(replica->held.erase(shard), 1u);
                                }});
    return replica;
  }

  bool Write(const Compare& guard) {
    bool succeeded = false;
    store_->Txn({.compares = {guard}, .then = {Put{"/k", "1"}}, .otherwise = {}},
                [&](absl::StatusOr<TxnResult> result) { succeeded = result->succeeded; });
    strand_.RunReady();
    return succeeded;
  }

  // Every shard has one holder, and no two have the same.
  static void ExpectShared(const std::vector<const Replica*>& replicas) {
    std::map<int, int> holders;
    for (const Replica* replica : replicas) {
      for (const auto& [shard, guard] : replica->held) ++holders[shard];
    }
    EXPECT_EQ(holders.size(), static_cast<size_t>(kCount));
    for (const auto& [shard, count] : holders) EXPECT_EQ(count, 1) << shard;
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>(&strand_);
};

TEST_F(ShardsTest, OneAloneHasAllAndHandsHalfToASecond) {
  auto a = Start("a");
  strand_.Advance(absl::Seconds(1));
  ExpectShared({a.get()});
  const std::map<int, Compare> before = a->held;
  auto b = Start("b");
  strand_.Advance(absl::Seconds(1));
  ExpectShared({a.get(), b.get()});
  EXPECT_EQ(a->held.size(), b->held.size());
  // What was handed over can't be written any more by whoever had it; what was kept can.
  for (const auto& [shard, guard] : before) EXPECT_EQ(Write(guard), a->held.count(shard) == 1);
  strand_.Advance(absl::Minutes(5));
  ExpectShared({a.get(), b.get()});
  EXPECT_EQ(a->gained, kCount) << "nothing is moved without need";
}

TEST_F(ShardsTest, WhoFallsSilentIsReplacedWithinFiveSeconds) {
  auto a = Start("a");
  auto b = Start("b");
  strand_.Advance(absl::Seconds(10));
  ExpectShared({a.get(), b.get()});
  b->shards.reset();
  strand_.Advance(absl::Seconds(5));
  ExpectShared({a.get()});
}

TEST_F(ShardsTest, WhoResignsIsReplacedAtOnce) {
  auto a = Start("a");
  auto b = Start("b");
  strand_.Advance(absl::Seconds(10));
  bool resigned = false;
  b->shards->Resign([&](const absl::Status& status) { resigned = status.ok(); });
  EXPECT_TRUE(b->held.empty()) << "stops to act before it gives up";
  strand_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(resigned);
  ExpectShared({a.get()});
}

TEST_F(ShardsTest, ATermGivenUpIsTakenAgain) {
  auto a = Start("a");
  strand_.Advance(absl::Seconds(1));
  const Compare before = a->held.at(3);
  a->shards->StepDown(3, absl::UnavailableError("commit failed"));
  EXPECT_EQ(a->held.count(3), 0u);
  strand_.Advance(absl::Seconds(1));
  ExpectShared({a.get()});
  EXPECT_FALSE(Write(before));
}

TEST_F(ShardsTest, WithoutTheStoreNobodyActsAndAfterwardsAllIsSharedAgain) {
  auto a = Start("a");
  auto b = Start("b");
  strand_.Advance(absl::Seconds(10));
  store_->SetUnreachable(true);
  strand_.Advance(absl::Seconds(10));
  EXPECT_TRUE(a->held.empty());
  EXPECT_TRUE(b->held.empty());
  store_->SetUnreachable(false);
  strand_.Advance(absl::Seconds(10));
  ExpectShared({a.get(), b.get()});
}

TEST_F(ShardsTest, TheSoleOwnerOfAStoreWaitsForNobody) {
  auto a = Start("a");
  strand_.Advance(absl::Seconds(1));
  a->shards.reset();
  auto next = Start("a2", /*sole_owner=*/true);
  strand_.RunReady();
  ExpectShared({next.get()});
}

}  // namespace
}  // namespace capstan::store
