// Several electors, each with a clock of its own rate, on a server and a network that fail: no two
// ever believe at the same time, and with the faults over somebody leads.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kube/leader_election/election_loop.h"
#include "libs/kube/leader_election/lease_core.h"
#include "libs/kube/leader_election/skewed_strand.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/testing/api_error.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/kube/testing/fault_plan.h"
#include "libs/kube/transport/transport.h"
#include "libs/random/random.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube::testing {
namespace {

constexpr int kSeeds = 208;
// So that they run side by side.
constexpr int kParts = 8;
// Of each clock, either way.
constexpr int64_t kSkewPpm = 20'000;
constexpr char kWho[] = "X-Elector";

// Says whose each request is.
class NamedTransport final : public Transport {
 public:
  NamedTransport(std::unique_ptr<Transport> transport, std::string name)
      : transport_(std::move(transport)), name_(std::move(name)) {}
  std::unique_ptr<Call> Start(HttpRequest request, ResponseHandler* handler) override {
    request.headers.push_back({kWho, name_});
    return transport_->Start(std::move(request), handler);
  }

 private:
  const std::unique_ptr<Transport> transport_;
  const std::string name_;
};

class Elector {
 public:
  // `on_started` is told at the moment.
  Elector(int number, FakeApiServer* server, SimulatedStrand* base, LeaderElectionOptions options,
          Random* random, std::function<void(Elector*, const LeaseTerm&)> on_started)
      : clock_(&base->clock(), random->Between(-kSkewPpm, kSkewPpm),
               random->Between(absl::ZeroDuration(), absl::Hours(1)),
               random->Between(absl::Hours(-1), absl::Hours(1))),
        strand_(base, &clock_),
        transport_(server->NewTransport(), absl::StrCat(number)),
        random_(random->Next()),
        client_(&transport_, &strand_, &random_, ClientOptions()) {
    options.identity = MakeIdentity(absl::StrCat("e", number), random);
    identity_ = options.identity;
    LeaderCallbacks callbacks;
    callbacks.on_started = [this, on_started = std::move(on_started)](const LeaseTerm& term) {
      EXPECT_FALSE(told_);
      told_ = true;
      on_started(this, term);
    };
    callbacks.on_stopped = [this](absl::string_view) {
      EXPECT_TRUE(told_);
      told_ = false;
      ++losses_;
    };
    loop_ = std::make_unique<ElectionLoop>(options, std::move(callbacks),
                                           ElectionDependencies{&client_, random->Next(), {}});
    strand_.Post([this] { loop_->Start(); });
  }

  bool IsLeader() const { return loop_->belief()->IsLeader(); }
  const std::string& identity() const { return identity_; }
  SkewedStrand* strand() { return &strand_; }
  int losses() const { return losses_; }
  void Stop() {
    strand_.Post([this] { loop_->Stop([this] { ended_ = true; }); });
    stopping_ = true;
  }
  bool stopping() const { return stopping_; }
  bool ended() const { return ended_; }

 private:
  const SkewedClock clock_;
  SkewedStrand strand_;
  NamedTransport transport_;
  Random random_;
  Client client_;
  std::string identity_;
  std::unique_ptr<ElectionLoop> loop_;
  bool told_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  int losses_ = 0;
};

struct Durations {
  int lease, deadline, retry;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed), strand_(&clock_), server_(Options(), &strand_) {
    // The tightest still keep clocks of ±2 % apart: 1.02 / 0.98 is 1.041.
    constexpr Durations kDurations[] = {{15, 10, 2}, {6, 5, 1}, {16, 15, 2}, {23, 22, 5}};
    const Durations& picked = kDurations[random_.Below(4)];
    options_.ns = "default";
    options_.name = "lock";
    options_.lease_duration = absl::Seconds(picked.lease);
    options_.renew_deadline = absl::Seconds(picked.deadline);
    options_.retry_period = absl::Seconds(picked.retry);
    options_.release_on_stop = random_.OneIn(2);
    cut_.resize(2 + random_.Below(3));
    electors_.resize(cut_.size());
    for (size_t i = 0; i < cut_.size(); ++i) Begin(i);
  }
  ~World() { electors_.clear(); }

  void Run() {
    CutLater();
    const BootTime quiet = Now() + options_.lease_duration * 8;
    BootTime next_fault = Now();
    while (Now() < quiet && !::testing::Test::HasFailure()) {
      if (Now() >= next_fault) {
        AddTrouble();
        next_fault = Now() + random_.Between(absl::ZeroDuration(), options_.retry_period * 2);
        strand_.RunAt(next_fault, [] {});
      }
      Step();
    }
    Heal();
    // What hangs ends, the Lease rests, and the slowest looks twice.
    const BootTime bound =
        Now() +
        (options_.lease_duration + options_.renew_deadline + options_.retry_period * 5) * 1.03;
    strand_.RunAt(bound, [] {});
    while (Now() < bound) Step();
    ASSERT_NE(Leader(), nullptr) << "nobody leads though all is well";
    // And goes on.
    const Elector* const leader = Leader();
    const int losses = leader->losses();
    const BootTime end = Now() + options_.lease_duration * 3;
    strand_.RunAt(end, [] {});
    while (Now() < end) Step();
    EXPECT_EQ(Leader(), leader);
    EXPECT_EQ(leader->losses(), losses);
  }

  int terms() const { return terms_; }

 private:
  static FakeApiServerOptions Options() {
    FakeApiServerOptions options;
    options.converter = &BuiltinConverter();
    options.max_records = 0;
    return options;
  }

  BootTime Now() const { return clock_.Read().boot; }

  void Begin(size_t i) {
    electors_[i] = std::make_unique<Elector>(
        static_cast<int>(i), &server_, &strand_, options_, &random_,
        [this](Elector* who, const LeaseTerm& term) { OnStarted(who, term); });
  }

  void OnStarted(Elector* who, const LeaseTerm& term) {
    ++terms_;
    Check();
    // A fence: later holders have greater numbers.
    if (last_leader_.empty()) {
      uid_ = term.lease_uid;
    } else if (who->identity() != last_leader_) {
      EXPECT_GT(term.transitions, last_transitions_);
    }
    EXPECT_GE(term.transitions, last_transitions_);
    EXPECT_EQ(term.lease_uid, uid_);
    last_transitions_ = term.transitions;
    last_leader_ = who->identity();
  }

  void Check() const {
    std::string leaders;
    int count = 0;
    for (const auto& elector : electors_) {
      if (elector == nullptr || !elector->IsLeader()) continue;
      ++count;
      absl::StrAppend(&leaders, elector->identity(), " ");
    }
    EXPECT_LE(count, 1) << "at " << absl::FormatDuration(Now() - BootTime()) << ": " << leaders;
  }

  void Step() {
    ASSERT_TRUE(strand_.RunNext());
    Check();
    for (size_t i = 0; i < electors_.size(); ++i) {
      if (!electors_[i]->ended()) continue;
      // A new process in its place.
      electors_[i] = nullptr;
      Begin(i);
    }
  }

  absl::optional<size_t> LeaderNumber() const {
    for (size_t i = 0; i < electors_.size(); ++i) {
      if (electors_[i]->IsLeader()) return i;
    }
    return absl::nullopt;
  }

  const Elector* Leader() const {
    const auto i = LeaderNumber();
    return i.has_value() ? electors_[*i].get() : nullptr;
  }

  RequestMatcher Of(size_t i) {
    RequestMatcher matcher;
    matcher.also = [name = absl::StrCat(i)](const HttpRequest& request) {
      return FindHeader(request.headers, kWho) == name;
    };
    return matcher;
  }

  void CutLater() {
    for (size_t i = 0; i < cut_.size(); ++i) {
      RequestMatcher matcher = Of(i);
      matcher.also = [this, i, of = matcher.also](const HttpRequest& request) {
        return cut_[i] && of(request);
      };
      server_.AddFault({matcher, Hang(), 0, -1});
    }
  }

  void AddTrouble() {
    const size_t i = random_.Below(electors_.size());
    const auto any_time = [&](absl::Duration most) {
      return random_.Between(absl::ZeroDuration(), most);
    };
    RequestMatcher matcher = Of(i);
    // Writes are what matters.
    if (random_.OneIn(2)) matcher.method = "PUT";
    const int64_t times = 1 + static_cast<int64_t>(random_.Below(4));
    const auto fault = [&](FaultAction action) {
      server_.AddFault({matcher, std::move(action), 0, times});
    };
    switch (random_.Below(15)) {
      case 0:
        return fault(BrokenBefore());
      case 1:
        return fault(BrokenAfter());
      case 2:
        return fault(Answer{Plain(500, "etcdserver: leader changed")});
      case 3:
        return fault(Answer{Plain(409, "the object has been modified")});
      case 4:
      case 5:
        return fault(Delayed{any_time(options_.renew_deadline)});
      case 6:
        return fault(Torn{random_.Below(40)});
      case 7:
        return fault(Hang());
      case 8:
        return fault(Slow{50, options_.retry_period / 4});
      case 9:
        return fault(NotSent());
      case 10: {
        cut_[i] = true;
        strand_.RunAfter(any_time(options_.lease_duration * 2), [this, i] { cut_[i] = false; });
        return;
      }
      case 11: {
        electors_[i]->strand()->SetStuck(true);
        strand_.RunAfter(any_time(options_.lease_duration * 2),
                         [this, i] { electors_[i]->strand()->SetStuck(false); });
        return;
      }
      case 12:
      case 13: {
        // The worst for who leads: a renewal is taken at once but answered late, the last for long.
        const RequestMatcher leader = Of(LeaderNumber().value_or(i));
        RequestMatcher writes = leader;
        writes.method = "PUT";
        server_.AddFault({writes, Delayed{options_.renew_deadline * 0.45}, 0, 1});
        server_.AddFault({leader, Hang(), 1, 5});
        return;
      }
      default:
        if (random_.OneIn(3)) return server_.Restart();
        if (random_.OneIn(3) && !electors_[i]->stopping()) electors_[i]->Stop();
    }
  }

  void Heal() {
    server_.ClearFaults();
    cut_.assign(cut_.size(), false);
    for (const auto& elector : electors_) elector->strand()->SetStuck(false);
  }

  Random random_;
  SimulatedClock clock_;
  SimulatedStrand strand_;
  FakeApiServer server_;
  LeaderElectionOptions options_;
  std::vector<bool> cut_;
  std::vector<std::unique_ptr<Elector>> electors_;
  std::string last_leader_;
  std::string uid_;
  int64_t last_transitions_ = 0;
  int terms_ = 0;
};

class ElectionPropertyTest : public ::testing::TestWithParam<int> {};

TEST_P(ElectionPropertyTest, NoTwoLeadAtOnceAndSomeoneDoes) {
  int terms = 0;
  constexpr int kEach = kSeeds / kParts;
  for (int i = 0; i < kEach && !HasFailure(); ++i) {
    const int seed = GetParam() * kEach + i;
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(static_cast<uint64_t>(seed));
    world.Run();
    terms += world.terms();
  }
  // Else nothing was tested.
  EXPECT_GT(terms, kEach * 3 / 2);
}

INSTANTIATE_TEST_SUITE_P(Parts, ElectionPropertyTest, ::testing::Range(0, kParts));

}  // namespace
}  // namespace capstan::kube::testing
