// The promise of backfill: whoever has a reservation starts by then, whatever comes after it.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/scheduler/core/round/accept.h"
#include "services/scheduler/core/round/fleet_fixture.h"
#include "services/scheduler/core/round/round.h"

namespace capstan::scheduler::round {
namespace {

struct Outcome {
  // Gangs that had to wait with a reservation, and of those that started.
  int reserved = 0;
  int kept = 0;
  int started = 0;
  // Minutes that the one gang as wide as the fleet has waited.
  int64_t wide_waited = -1;
};

// A fleet under more load than it can carry, first come first served, a round a minute. Gangs run
// for as long as they declared, or shorter.
class Life {
 public:
  Life(uint64_t seed, bool backfill) : random_(seed) {
    nodes_ = static_cast<int>(random_.Between(2, 8));
    for (int n = 0; n < nodes_; ++n) {
      fixture_.AddNode("c", absl::StrCat("r", n % 2), absl::StrCat("n", n), 64000, 8);
    }
    options_.backfill = backfill;
    options_.preemption = false;
    options_.growth = false;
  }

  Outcome Live(int minutes) {
    Round round(options_);
    for (int minute = 0; minute < minutes; ++minute) {
      if (minute == 100) AddWide();
      EndAndArrive();
      RoundInput input;
      input.snapshot = fixture_.fleet().Freeze();
      input.order = order_;
      input.now = now_;
      const Proposal proposal = round.Run(std::move(input));
      Follow(proposal, minute);
      now_ += absl::Minutes(1);
    }
    return outcome_;
  }

 private:
  void AddWide() {
    wide_ = fixture_.AddGang(fixture_.Flat(fixture_.Class(1000, 8), nodes_, nodes_), 0, 0,
                             absl::Minutes(10));
    order_.push_back(*wide_);
  }

  void EndAndArrive() {
    for (auto end = ends_.begin(); end != ends_.end() && end->first <= now_;) {
      fixture_.fleet().RemoveGang(end->second);
      end = ends_.erase(end);
    }
    while (order_.size() < 12) {
      const auto gpus = random_.Between(1, 4);
      const auto count = static_cast<int>(random_.Between(1, 8));
      const absl::optional<Level> level =
          random_.OneIn(4) ? absl::optional<Level>(Level::kRack) : absl::nullopt;
      const ShapeId shape = fixture_.Flat(fixture_.Class(1000, gpus), count, count, level);
      const absl::Duration declared =
          random_.OneIn(6) ? absl::InfiniteDuration() : absl::Minutes(random_.Between(1, 60));
      order_.push_back(fixture_.AddGang(shape, 0, 0, declared));
    }
  }

  void Follow(const Proposal& proposal, int minute) {
    if (proposal.reservation.has_value()) {
      const Reservation& reservation = *proposal.reservation;
      const auto [promise, is_new] =
          promises_.try_emplace(reservation.gang, reservation.start, reservation.assumed);
      outcome_.reserved += is_new ? 1 : 0;
      // Assumed ends are estimates; declared ones bind.
      EXPECT_TRUE(promise->second.second || reservation.start <= promise->second.first);
    }
    const Accepted accepted = Accept(fixture_.fleet(), proposal, now_);
    EXPECT_TRUE(accepted.conflicts.empty());
    for (GangIndex gang : accepted.started) {
      ++outcome_.started;
      order_.erase(std::find(order_.begin(), order_.end(), gang));
      const absl::Duration declared = fixture_.fleet().gang(gang).declared;
      const int64_t most =
          declared == absl::InfiniteDuration() ? 90 : absl::ToInt64Minutes(declared);
      ends_.emplace(now_ + absl::Minutes(random_.Between(1, most)), gang);
      const auto promise = promises_.find(gang);
      if (promise != promises_.end()) {
        ++outcome_.kept;
        EXPECT_TRUE(promise->second.second || now_ <= promise->second.first) << "gang " << gang;
        promises_.erase(promise);
      }
      if (wide_ == gang) outcome_.wide_waited = minute - 100;
    }
  }

  Random random_;
  FleetFixture fixture_;
  int nodes_ = 0;
  RoundOptions options_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
  std::vector<GangIndex> order_;
  std::multimap<absl::Time, GangIndex> ends_;
  // Start promised, and whether it rests on an assumption.
  std::map<GangIndex, std::pair<absl::Time, bool>> promises_;
  absl::optional<GangIndex> wide_;
  Outcome outcome_;
};

TEST(BackfillPropertyTest, StartsByItsPromiseAndStarvesNobody) {
  Outcome total;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const Outcome outcome = Life(seed, true).Live(600);
    // Everything before it in order and then what ran longest: nothing that came after.
    EXPECT_GE(outcome.wide_waited, 0) << "seed " << seed << ": the wide gang never started";
    total.reserved += outcome.reserved;
    total.kept += outcome.kept;
    total.started += outcome.started;
  }
  EXPECT_GT(total.reserved, 200);
  EXPECT_GT(total.kept * 10, total.reserved * 9);
}

TEST(BackfillPropertyTest, WithoutItAWideGangStarves) {
  int starved = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    starved += Life(seed, false).Live(400).wide_waited < 0 ? 1 : 0;
  }
  EXPECT_GT(starved, 1);
}

}  // namespace
}  // namespace capstan::scheduler::round
