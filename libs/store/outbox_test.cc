#include "libs/store/outbox.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/store/memory_store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::store {
namespace {

constexpr char kPrefix[] = "/capstan/test/v1/outbox/";

// The far side: takes records, keeps what is new, as telemetry does.
struct Receiver {
  int64_t highest = 0;
  int64_t duplicates = 0;
  std::vector<std::string> kept;

  void Take(const std::vector<OutboxRecord>& records) {
    for (const OutboxRecord& record : records) {
      if (record.sequence <= highest) {
        ++duplicates;
        continue;
      }
      highest = record.sequence;
      kept.push_back(record.payload);
    }
  }
};

// One term of an engine: everything that dies with it.
struct Term {
  Term(SimulatedStrand* strand, std::shared_ptr<MemoryImage> disk, Outbox::Sink sink,
       Outbox::Options options = {.prefix = kPrefix})
      : revision(disk->map.revision()),
        store(strand, std::move(disk)),
        queue(&store, strand, absl::nullopt),
        outbox(&store, strand, &queue, revision, std::move(options), std::move(sink)) {
    outbox.Start();
  }

  const int64_t revision;
  MemoryStore store;
  CommitQueue queue;
  Outbox outbox;
};

class OutboxTest : public testing::Test {
 protected:
  void Begin(Outbox::Options options = {.prefix = kPrefix}) {
    term_ = std::make_unique<Term>(
        &strand_, disk_,
        [this](const std::vector<OutboxRecord>& records, DoneCallback taken) {
          if (!receiver_up_) return taken(absl::UnavailableError("telemetry is down"));
          receiver_.Take(records);
          taken(absl::OkStatus());
        },
        std::move(options));
  }

  void Event(const std::string& payload) {
    term_->queue.Submit({term_->outbox.Add(payload), Put{"/state", payload}}, {},
                        [](absl::StatusOr<int64_t>) {});
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  std::shared_ptr<MemoryImage> disk_ = std::make_shared<MemoryImage>();
  Receiver receiver_;
  bool receiver_up_ = true;
  std::unique_ptr<Term> term_;
};

TEST_F(OutboxTest, ShipsCommittedRecordsInOrderAndDeletesThem) {
  Begin();
  for (int i = 0; i < 500; ++i) Event(absl::StrCat(i));
  EXPECT_EQ(term_->outbox.records(), 500);
  strand_.RunReady();
  ASSERT_EQ(receiver_.kept.size(), 500u);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(receiver_.kept[i], absl::StrCat(i));
  EXPECT_EQ(receiver_.duplicates, 0);
  EXPECT_EQ(term_->outbox.records(), 0);
  EXPECT_EQ(term_->outbox.bytes(), 0);
  const auto left = disk_->map.Range({.key = kPrefix, .end = PrefixEnd(kPrefix)});
  EXPECT_TRUE(left->kvs.empty());
  EXPECT_EQ(strand_.armed(), 0u);
}

// A store that is slow to commit keeps no record from leaving that is committed.
TEST_F(OutboxTest, TheNextLeaveBeforeThoseTakenAreDeleted) {
  receiver_up_ = false;
  Begin({.prefix = kPrefix, .batch_records = 10});
  for (int i = 0; i < 100; ++i) Event(absl::StrCat(i));
  strand_.RunReady();
  term_->store.SetCommitDelay(absl::Seconds(20));
  receiver_up_ = true;
  strand_.Advance(absl::Seconds(10));
  EXPECT_EQ(receiver_.kept.size(), 100u);
  EXPECT_EQ(receiver_.duplicates, 0);
  EXPECT_EQ(term_->outbox.records(), 100);
  // The first deletion, and all others in one transaction.
  const int64_t transactions = term_->queue.transactions();
  strand_.Advance(absl::Seconds(50));
  EXPECT_EQ(term_->outbox.records(), 0);
  EXPECT_LE(term_->queue.transactions(), transactions + 1);
  const auto left = disk_->map.Range({.key = kPrefix, .end = PrefixEnd(kPrefix)});
  EXPECT_TRUE(left->kvs.empty());
}

TEST_F(OutboxTest, NothingLeavesBeforeItIsCommitted) {
  Begin();
  term_->store.SetCommitDelay(absl::Seconds(1));
  Event("a");
  strand_.RunReady();
  EXPECT_TRUE(receiver_.kept.empty());
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(receiver_.kept, std::vector<std::string>{"a"});
}

TEST_F(OutboxTest, FillsWhileTheReceiverIsDownAndEmptiesAfterwards) {
  receiver_up_ = false;
  Begin({.prefix = kPrefix, .max_records = 10});
  for (int i = 0; i < 9; ++i) Event("x");
  strand_.Advance(absl::Minutes(5));
  EXPECT_FALSE(term_->outbox.full());
  EXPECT_EQ(term_->outbox.last_error().code(), absl::StatusCode::kUnavailable);
  Event("x");
  EXPECT_TRUE(term_->outbox.full());
  receiver_up_ = true;
  strand_.Advance(absl::Seconds(10));
  EXPECT_FALSE(term_->outbox.full());
  EXPECT_EQ(receiver_.kept.size(), 10u);
  EXPECT_EQ(strand_.armed(), 0u);
}

TEST_F(OutboxTest, ANewTermShipsAndCountsWhatIsLeft) {
  receiver_up_ = false;
  Begin();
  for (int i = 0; i < 3; ++i) Event(absl::StrCat("old", i));
  strand_.RunReady();
  term_->store.Crash();
  Begin();
  Event("new");
  strand_.RunReady();
  EXPECT_EQ(term_->outbox.records(), 4);
  receiver_up_ = true;
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(receiver_.kept, (std::vector<std::string>{"old0", "old1", "old2", "new"}));
  EXPECT_EQ(term_->outbox.records(), 0);
}

// Crashes anywhere, also between the receiver's taking and the deletion: nothing acknowledged is
// lost, nothing is kept twice, all is in order.
TEST_F(OutboxTest, NoCrashLosesOrDoublesARecord) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    disk_ = std::make_shared<MemoryImage>();
    receiver_ = Receiver();
    std::vector<std::string> acknowledged;
    int next = 0;
    Begin();
    for (int step = 0; step < 400; ++step) {
      receiver_up_ = !random.OneIn(4);
      if (random.OneIn(3)) {
        const std::string payload = absl::StrCat(next++);
        term_->queue.Submit({term_->outbox.Add(payload)}, {},
                            [&acknowledged, payload](absl::StatusOr<int64_t> revision) {
                              if (revision.ok()) acknowledged.push_back(payload);
                            });
      }
      if (random.OneIn(5))
        term_->store.SetCommitDelay(random.Between(absl::ZeroDuration(), absl::Seconds(1)));
      if (random.OneIn(3)) strand_.Advance(random.Between(absl::ZeroDuration(), absl::Seconds(1)));
      if (random.OneIn(20)) {
        term_->store.Crash(random.Below(2));
        term_.reset();
        Begin();
      }
    }
    receiver_up_ = true;
    strand_.Advance(absl::Minutes(1));
    int64_t last = -1;
    for (const std::string& payload : receiver_.kept) {
      const int64_t number = std::stoll(payload);
      EXPECT_GT(number, last) << "seed " << seed;
      last = number;
    }
    size_t at = 0;
    for (const std::string& payload : receiver_.kept) {
      if (at < acknowledged.size() && acknowledged[at] == payload) ++at;
    }
    EXPECT_EQ(at, acknowledged.size()) << "an acknowledged record is lost; seed " << seed;
    EXPECT_EQ(term_->outbox.records(), 0) << "seed " << seed;
    term_.reset();
    strand_.RunReady();
  }
}

}  // namespace
}  // namespace capstan::store
