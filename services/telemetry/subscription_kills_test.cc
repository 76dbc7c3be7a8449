// A walk over a service of subscriptions that is killed at any moment, against a model of what it
// promised.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "proto/capstan/telemetry/v1/subscription.pb.h"
#include "services/telemetry/testing/fake_streams.h"
#include "services/telemetry/testing/subscription_world.h"

namespace capstan::telemetry {
namespace {

// Readers that come, go, are slow, acknowledge late or twice; a service that is killed at any
// moment; retention at any moment. One subscription, a model of what was promised.
class KillsTest : public testing::TestWithParam<uint64_t> {
 protected:
  KillsTest() : random_(GetParam()), world_(1 + random_.Below(4)) {
    EXPECT_TRUE(world_.Create().ok());
    Hold();
  }
  // What the disks answer waits to be stepped.
  void Hold() {
    world_.store().Hold();
    world_.streams().Hold();
  }

  void Act() {
    switch (random_.Below(26)) {
      case 0:
      case 1:
        world_.Append(static_cast<int>(1 + random_.Below(4)));
        break;
      case 2:
        if (clients_.size() < 6) clients_.push_back(world_.Connect(!random_.OneIn(4)));
        break;
      case 3:
        if (auto client = Any()) client->Disconnect();
        break;
      case 4:
        if (auto client = Any()) {
          if (client->full) {
            client->Drain();
          } else {
            client->full = true;
          }
        }
        break;
      case 5:
      case 6:
        Acknowledge();
        break;
      case 7:
        if (random_.OneIn(4)) {
          StreamOnDisk& stream = world_.disk[kLog];
          stream.Drop(stream.first + static_cast<int64_t>(random_.Below(4)));
        }
        break;
      case 8:
        if (random_.OneIn(5)) Crash();
        break;
      case 9:
      case 10:
      case 11:
      case 12:
      case 13:
        world_.store().Step();
        break;
      case 14:
        world_.strand().RunNext();
        break;
      default:
        world_.streams().Step();
        break;
    }
    world_.Run();
    Look();
  }

  std::shared_ptr<Client> Any() {
    std::vector<std::shared_ptr<Client>> open;
    for (const auto& client : clients_) {
      if (client->open()) open.push_back(client);
    }
    return open.empty() ? nullptr : open[random_.Below(open.size())];
  }

  void Acknowledge() {
    // Also for one that is gone: its call may have been on its way.
    if (clients_.empty()) return;
    const auto client =
        random_.OneIn(2) ? clients_.back() : clients_[random_.Below(clients_.size())];
    if (client->records.empty()) return;
    const int64_t offset = client->records[random_.Below(client->records.size())].offset();
    asked_ = std::max(asked_, offset);
    world_.StartAcknowledge(offset, client->generation,
                            [this, offset](const absl::StatusOr<v1::AcknowledgeResponse>& got) {
                              if (!got.ok()) return;
                              EXPECT_GE(got->acknowledged_offset(), offset);
                              ++answered_;
                              if (seeks_ > 0) return;
                              promised_ = std::max(promised_, got->acknowledged_offset());
                            });
  }

  void Crash() {
    world_.Crash(random_);
    for (const auto& client : clients_) EXPECT_FALSE(client->open());
    ++kills_;
    seeks_ = 0;
    world_.Start();
    Hold();
  }

  void Look() {
    const int64_t cursor = world_.subscriptions.at(kName).acknowledged_offset();
    ASSERT_GE(cursor, promised_) << "an acknowledgement was lost";
    ASSERT_LE(cursor, std::max(asked_, skipped_)) << "the cursor has run ahead";
    int reading = 0;
    for (auto it = clients_.begin(); it != clients_.end();) {
      Client& client = **it;
      const std::vector<int64_t> offsets = client.Offsets();
      for (size_t i = 0; i < offsets.size(); ++i) {
        ASSERT_EQ(offsets[i], offsets[0] + static_cast<int64_t>(i)) << "a hole";
        ASSERT_EQ(client.records[i].payload(), absl::StrCat(kLog, "#", offsets[i]));
        delivered_.insert(offsets[i]);
      }
      if (client.open() && client.generation != 0) ++reading;
      if (client.end.has_value() && !std::exchange(client.seen, true)) OnEnd(client);
      // One that has ended may yet acknowledge, for a while.
      it = client.open() || random_.Below(3) > 0 ? std::next(it) : clients_.erase(it);
    }
    ASSERT_LE(reading, 1) << "two readers of one subscription";
  }

  void OnEnd(const Client& client) {
    const std::string reason = status::Reason(*client.end);
    ASSERT_NE(reason, "CURSOR_BEYOND_END");
    ASSERT_TRUE(client.end->ok() || reason == "READER_REPLACED" || reason == "CURSOR_MOVED" ||
                reason == "CURSOR_EXPIRED" || reason == "SUBSCRIPTION_BUSY")
        << *client.end;
    if (reason != "CURSOR_EXPIRED") return;
    ++expiries_;
    const auto info = status::GetErrorInfo(*client.end);
    int64_t next = 0;
    int64_t first = 0;
    ASSERT_TRUE(absl::SimpleAtoi(info->metadata.at("next_offset"), &next));
    ASSERT_TRUE(absl::SimpleAtoi(info->metadata.at("first_offset"), &first));
    ASSERT_LT(next, first);
    ASSERT_LE(first, world_.disk[kLog].first);
    if (!client.records.empty()) {
      ASSERT_EQ(next, client.records.back().offset() + 1);
    }
    for (int64_t offset = next; offset < first; ++offset) told_lost_.insert(offset);
    // As a person does who is told so.
    if (world_.subscriptions.at(kName).acknowledged_offset() + 1 >= first) return;
    v1::SeekSubscriptionRequest seek;
    seek.set_name(kName);
    seek.set_next_offset(first);
    skipped_ = std::max(skipped_, first - 1);
    // Until it is over, what is acknowledged before it may be undone by it.
    ++seeks_;
    promised_ = std::min(promised_, first - 1);
    world_.engine().Seek(seek, kPerson,
                         [this](const absl::StatusOr<v1::Subscription>&) { --seeks_; });
  }

  Random random_;
  World world_;
  std::vector<std::shared_ptr<Client>> clients_;
  std::set<int64_t> delivered_;
  std::set<int64_t> told_lost_;
  int64_t promised_ = 0;
  int64_t asked_ = 0;
  int64_t skipped_ = 0;
  int seeks_ = 0;
  // What the walk met.
  int answered_ = 0;
  int kills_ = 0;
  int expiries_ = 0;
};

TEST_P(KillsTest, NothingIsMissedAndNoCursorIsLost) {
  for (int step = 0; step < 3000; ++step) {
    Act();
    ASSERT_FALSE(HasFatalFailure()) << "step " << step;
  }
  // Quiet: a reader gets everything that is left.
  Crash();
  world_.Start();
  clients_.clear();
  for (int attempt = 0; attempt < 3; ++attempt) {
    clients_ = {world_.Connect(/*follow=*/false)};
    world_.Run();
    Look();
    ASSERT_FALSE(HasFatalFailure());
    if (!clients_.empty() && clients_[0]->end->ok()) break;
    world_.Run();
  }
  const int64_t last = world_.disk[kLog].next() - 1;
  // The walk went somewhere.
  EXPECT_GT(last, 300);
  EXPECT_GE(kills_, 10);
  EXPECT_GE(answered_, 10);
  for (int64_t offset = 1; offset <= last; ++offset) {
    EXPECT_TRUE(delivered_.count(offset) > 0 || told_lost_.count(offset) > 0)
        << "record " << offset << " was skipped in silence";
  }
  EXPECT_TRUE(last == 0 || world_.Acknowledge(last, 0).ok());
  EXPECT_TRUE(world_.ReadAll().empty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, KillsTest, testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace capstan::telemetry
