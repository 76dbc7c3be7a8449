#include "libs/kube/leader_election/leader_elector.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kube/leader_election/election_loop.h"
#include "libs/kube/objects/json_conversion.h"
#include "libs/kube/testing/fake_api_server.h"
#include "libs/kube/testing/fault_plan.h"
#include "libs/kube/transport/transport.h"
#include "libs/random/random.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/simulated_clock.h"
#include "libs/time/system_clock.h"

namespace capstan::kube {
namespace {

using testing::FakeApiServer;
using testing::FakeApiServerOptions;
using testing::FakeApiState;
using testing::Json;

FakeApiServerOptions ServerOptions() {
  FakeApiServerOptions options;
  options.converter = &BuiltinConverter();
  return options;
}

LeaderElectionOptions Options(const std::string& identity, bool release) {
  LeaderElectionOptions options;
  options.ns = "default";
  options.name = "lock";
  options.identity = identity;
  options.release_on_stop = release;
  return options;
}

// `spec` of the Lease as the server has it.
Json SpecOf(FakeApiServer* server) {
  Json spec;
  server->Use([&](FakeApiState& state) {
    const auto lease =
        state.Get(*state.FindType("coordination.k8s.io", "v1", "leases"), "default", "lock");
    if (lease.ok()) spec = testing::Member(*lease, "spec");
  });
  return spec;
}

class ElectionLoopTest : public ::testing::Test {
 protected:
  ~ElectionLoopTest() override { loop_ = nullptr; }

  void Begin(bool release = false) {
    LeaderCallbacks callbacks;
    callbacks.on_started = [this](const LeaseTerm&) {
      told_ += "started ";
      if (gone_on_start_) loop_ = nullptr;
    };
    callbacks.on_stopped = [this](absl::string_view) { told_ += "stopped "; };
    callbacks.on_new_leader = [this](absl::string_view who) {
      told_ += absl::StrCat("new:", who, " ");
    };
    loop_ = std::make_unique<ElectionLoop>(Options("me", release), std::move(callbacks),
                                           ElectionDependencies{&client_, 1, {}});
    loop_->Start();
    server_.RunUntilIdle();
  }

  SimulatedClock clock_;
  SimulatedStrand strand_{&clock_};
  FakeApiServer server_{ServerOptions(), &strand_};
  const std::unique_ptr<Transport> transport_ = server_.NewTransport();
  Random random_{1};
  Client client_{transport_.get(), &strand_, &random_, ClientOptions()};
  std::string told_;
  bool gone_on_start_ = false;
  std::unique_ptr<ElectionLoop> loop_;
};

TEST_F(ElectionLoopTest, LeadsAndRenews) {
  Begin();
  EXPECT_EQ(told_, "new:me started ");
  EXPECT_TRUE(loop_->belief()->IsLeader());
  EXPECT_EQ(loop_->belief()->leader(), "me");
  EXPECT_EQ(loop_->belief()->term()->transitions, 0);
  EXPECT_FALSE(loop_->belief()->term()->lease_uid.empty());
  const Json first = SpecOf(&server_);
  EXPECT_EQ(first["holderIdentity"], "me");
  EXPECT_EQ(first["leaseDurationSeconds"], 15);
  EXPECT_EQ(first["leaseTransitions"], 0);
  strand_.Advance(absl::Minutes(1));
  EXPECT_TRUE(loop_->belief()->IsLeader());
  EXPECT_EQ(told_, "new:me started ");
  const Json later = SpecOf(&server_);
  EXPECT_EQ(later["acquireTime"], first["acquireTime"]);
  EXPECT_GT(later["renewTime"].get<std::string>(), first["renewTime"].get<std::string>());
  // 30 renewals, each one call.
  EXPECT_LE(server_.counters().requests, 33);
}

TEST_F(ElectionLoopTest, BeliefEndsByTheClockThoughTheStrandIsStuck) {
  Begin();
  const auto belief = loop_->belief();
  clock_.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_TRUE(belief->IsLeader());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_FALSE(belief->IsLeader());
  EXPECT_FALSE(belief->term().has_value());
  EXPECT_EQ(told_, "new:me started ");
  strand_.RunReady();
  // And is told once the strand goes on, which renews at once.
  EXPECT_EQ(told_, "new:me started stopped started ");
}

TEST_F(ElectionLoopTest, ACallbackMayDestroyTheLoop) {
  gone_on_start_ = true;
  Begin();
  EXPECT_EQ(told_, "new:me started ");
  EXPECT_EQ(loop_, nullptr);
  const int64_t requests = server_.counters().requests;
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(server_.counters().requests, requests);
}

TEST_F(ElectionLoopTest, DestructionTellsNothingAndEndsBelief) {
  Begin();
  const auto belief = loop_->belief();
  loop_ = nullptr;
  EXPECT_FALSE(belief->IsLeader());
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(told_, "new:me started ");
}

TEST_F(ElectionLoopTest, StopReleases) {
  Begin(/*release=*/true);
  bool done = false;
  loop_->Stop([&] { done = true; });
  EXPECT_FALSE(loop_->belief()->IsLeader());
  EXPECT_EQ(told_, "new:me started stopped ");
  EXPECT_FALSE(done);
  server_.RunUntilIdle();
  EXPECT_TRUE(done);
  EXPECT_EQ(told_, "new:me started stopped new: ");
  const Json spec = SpecOf(&server_);
  EXPECT_EQ(spec.value("holderIdentity", ""), "");
  EXPECT_EQ(spec["leaseDurationSeconds"], 1);
  EXPECT_EQ(spec["leaseTransitions"], 0);
}

TEST_F(ElectionLoopTest, StopWithoutReleaseLeavesTheLease) {
  Begin();
  bool done = false;
  loop_->Stop([&] { done = true; });
  EXPECT_TRUE(done);
  server_.RunUntilIdle();
  EXPECT_EQ(SpecOf(&server_)["holderIdentity"], "me");
}

TEST_F(ElectionLoopTest, StopWaitsForAServerThatHangsNoLongerThanTheDeadline) {
  Begin(/*release=*/true);
  server_.AddFault({{}, testing::Hang(), 0, -1});
  bool done = false;
  loop_->Stop([&] { done = true; });
  strand_.Advance(absl::Seconds(10) - absl::Milliseconds(1));
  EXPECT_FALSE(done);
  strand_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(done);
  const int64_t requests = server_.counters().requests;
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(server_.counters().requests, requests);
}

TEST_F(ElectionLoopTest, ALostAnswerCostsNoLeadership) {
  Begin();
  testing::RequestMatcher writes;
  writes.method = "PUT";
  server_.AddFault({writes, testing::BrokenAfter(), 0, 8});
  strand_.Advance(absl::Seconds(30));
  EXPECT_EQ(server_.pending_faults(), 0u);
  EXPECT_EQ(told_, "new:me started ");
  EXPECT_TRUE(loop_->belief()->IsLeader());
}

// One process of several, with threads.
class Candidate {
 public:
  Candidate(FakeApiServer* server, const Clock* clock, int number, absl::Mutex* mutex, int* leading)
      : strand_(absl::StrCat("candidate-", number), clock),
        transport_(server->NewTransport()),
        random_(static_cast<uint64_t>(number)),
        client_(std::make_unique<Client>(transport_.get(), &strand_, &random_, ClientOptions())) {
    LeaderElectionOptions options = Options(absl::StrCat("c", number), /*release=*/true);
    options.lease_duration = absl::Minutes(10);
    options.renew_deadline = absl::Minutes(9);
    options.retry_period = absl::Milliseconds(5);
    LeaderCallbacks callbacks;
    callbacks.on_started = [this, mutex, leading, number](const LeaseTerm&) {
      EXPECT_FALSE(returned_);
      absl::MutexLock lock(mutex);
      EXPECT_EQ(*leading, -1);
      *leading = number;
    };
    callbacks.on_stopped = [this, mutex, leading, number](absl::string_view) {
      EXPECT_FALSE(returned_);
      absl::MutexLock lock(mutex);
      EXPECT_EQ(*leading, number);
      *leading = -1;
    };
    callbacks.on_new_leader = [this](absl::string_view) { EXPECT_FALSE(returned_); };
    elector_ = *LeaderElector::Make(options, std::move(callbacks),
                                    {client_.get(), static_cast<uint64_t>(number), {}});
    elector_->Start();
  }
  ~Candidate() {
    Stop();
    elector_ = nullptr;
    strand_.Stop();
    client_ = nullptr;
  }
  void Stop() {
    elector_->Stop();
    returned_ = true;
    EXPECT_FALSE(elector_->IsLeader());
  }
  LeaderElector* elector() { return elector_.get(); }

 private:
  ThreadStrand strand_;
  const std::unique_ptr<Transport> transport_;
  Random random_;
  std::unique_ptr<Client> client_;
  std::atomic<bool> returned_{false};
  std::unique_ptr<LeaderElector> elector_;
};

TEST(LeaderElectorTest, OneAfterTheOtherLeads) {
  const SystemClock clock;
  FakeApiServer server(ServerOptions(), &clock);
  absl::Mutex mutex;
  int leading = -1;
  std::vector<std::unique_ptr<Candidate>> candidates;
  for (int i = 0; i < 3; ++i) {
    candidates.push_back(std::make_unique<Candidate>(&server, &clock, i, &mutex, &leading));
  }
  int64_t transitions = -1;
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) {
      int leaders = 0;
      for (const auto& one : candidates) leaders += one->elector()->IsLeader() ? 1 : 0;
      (void)candidates[0]->elector()->term();
      (void)candidates[0]->elector()->leader();
      // Not at one moment, so two at most.
      EXPECT_LE(leaders, 2);
    }
  });
  for (int left = 3; left > 0; --left) {
    int leader = -1;
    {
      absl::MutexLock lock(&mutex);
      const auto one_leads = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return leading != -1; };
      mutex.Await(absl::Condition(&one_leads));
      leader = leading;
    }
    Candidate* const one = candidates[static_cast<size_t>(leader)].get();
    const auto term = one->elector()->term();
    ASSERT_TRUE(term.has_value());
    EXPECT_GT(term->transitions, transitions);
    transitions = term->transitions;
    one->Stop();
  }
  over = true;
  reader.join();
  EXPECT_EQ(SpecOf(&server).value("holderIdentity", ""), "");
}

TEST(LeaderElectorTest, WrongOptionsAreAnError) {
  LeaderElectionOptions options = Options("me", false);
  options.lease_duration = absl::Seconds(5);
  EXPECT_EQ(status::Reason(LeaderElector::Make(options, {}, {}).status()), "INVALID_FIELD");
}

TEST(LeaderElectorTest, StopReturnsWhateverWasBefore) {
  const SystemClock clock;
  FakeApiServer server(ServerOptions(), &clock);
  const std::unique_ptr<Transport> transport = server.NewTransport();
  Random random(1);
  ThreadStrand strand("strand", &clock);
  Client client(transport.get(), &strand, &random, ClientOptions());
  {
    // Never started.
    auto elector = *LeaderElector::Make(Options("a", true), {}, {&client, 1, {}});
    elector->Stop();
    elector->Stop();
  }
  auto elector = *LeaderElector::Make(Options("b", true), {}, {&client, 1, {}});
  elector->Start();
  // The strand goes first.
  strand.Stop();
  elector->Stop();
  EXPECT_FALSE(elector->IsLeader());
}

}  // namespace
}  // namespace capstan::kube
