// Leader election on a real API server, and beside that of client-go.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_client_test_base.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/leader_election/leader_elector.h"
#include "libs/kube/leader_election/lease_core.h"
#include "nlohmann/json.hpp"
#include "tools/testenv/kubernetes_cluster.h"
#include "tools/testenv/server_process.h"

namespace capstan::kube::testing {
namespace {

constexpr absl::Duration kLong = absl::Minutes(2);

LeaderElectionOptions Short() {
  LeaderElectionOptions options;
  options.lease_duration = absl::Seconds(4);
  options.renew_deadline = absl::Seconds(3);
  options.retry_period = absl::Milliseconds(500);
  options.release_on_stop = true;
  return options;
}

// Who stops only after what it would take to notice that the Lease rests.
LeaderElectionOptions Patient() {
  LeaderElectionOptions options = Short();
  options.lease_duration = absl::Hours(1);
  options.renew_deadline = absl::Minutes(50);
  return options;
}

// A process of several that compete, with its own connection.
class Candidate {
 public:
  Candidate(const ClientConfig& config, const std::string& ns, const std::string& identity,
            LeaderElectionOptions options)
      : client_(config) {
    options.ns = ns;
    options.name = "lock";
    options.identity = identity;
    LeaderCallbacks callbacks;
    callbacks.on_started = [this](const LeaseTerm&) { ++started_; };
    callbacks.on_stopped = [this](absl::string_view) { ++stopped_; };
    elector_ =
        LeaderElector::Make(options, std::move(callbacks), {client_.client(), 1, {}}).value();
    elector_->Start();
  }
  ~Candidate() {
    GoOn();
    elector_ = nullptr;
  }

  // As SIGSTOP would: its strand does nothing, and its calls wait.
  void Stall() {
    client_.strand()->Post([this] { go_on_.WaitForNotification(); });
  }
  void GoOn() {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
  }
  LeaderElector* elector() { return elector_.get(); }
  int started() const { return started_; }
  int stopped() const { return stopped_; }

 private:
  RealClient client_;
  absl::Notification go_on_;
  std::atomic<int> started_{0};
  std::atomic<int> stopped_{0};
  std::unique_ptr<LeaderElector> elector_;
};

class LeaderElectionTest : public RealClientTestBase {
 protected:
  Candidate* Add(const std::string& identity, const LeaderElectionOptions& options) {
    candidates_.push_back(std::make_unique<Candidate>(config_, ns_, identity, options));
    return candidates_.back().get();
  }

  // `client_go lead` in a process of its own.
  void StartGo(const std::string& identity) {
    go_log_ = absl::StrCat(::testing::TempDir(), "/", ns_, "-", identity);
    auto started = testenv::ServerProcess::Start(
        {"tools/testenv/bin/client_go", "lead", cluster_->kubeconfig(), ns_, "lock", identity, "4s",
         "3s", "500ms"},
        go_log_);
    ASSERT_TRUE(started.ok()) << started.status();
    go_ = *std::move(started);
  }
  std::vector<std::string> GoSaid() const {
    std::ifstream file(go_log_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  bool UntilGoKnows(const std::string& leader) {
    return Until([&](const nlohmann::json&) {
      const std::vector<std::string> said = GoSaid();
      return std::find(said.begin(), said.end(), "leader " + leader) != said.end();
    });
  }
  // As it says itself.
  bool GoLeads() const {
    if (go_ == nullptr || go_ends_) return false;
    bool leads = false;
    for (const std::string& line : GoSaid()) {
      if (line == "leads") leads = true;
      if (line == "lost") leads = false;
    }
    return leads;
  }

  // While one believes, no other does: the one is asked again after the other.
  void Check() const {
    for (const auto& one : candidates_) {
      if (!one->elector()->IsLeader()) continue;
      for (const auto& other : candidates_) {
        if (other == one || !other->elector()->IsLeader()) continue;
        EXPECT_FALSE(one->elector()->IsLeader()) << "two lead";
      }
      if (!GoLeads()) continue;
      EXPECT_FALSE(one->elector()->IsLeader()) << "client-go leads too";
    }
  }

  nlohmann::json Spec() {
    const auto lease = client_->Json(
        "GET", absl::StrCat("/apis/coordination.k8s.io/v1/namespaces/", ns_, "/leases/lock"));
    return lease.ok() ? lease->value("spec", nlohmann::json::object()) : nlohmann::json::object();
  }

  // Looks from one answer of the server's to the next.
  bool Until(const std::function<bool(const nlohmann::json& spec)>& holds) {
    const absl::Time deadline = absl::Now() + kLong;
    while (absl::Now() < deadline && !HasFailure()) {
      const nlohmann::json spec = Spec();
      Check();
      if (holds(spec)) return true;
    }
    return false;
  }
  bool UntilOneLeads(Candidate** leader, const Candidate* but = nullptr) {
    return Until([&](const nlohmann::json&) {
      for (const auto& one : candidates_) {
        *leader = one.get();
        if (one.get() != but && one->elector()->IsLeader()) return true;
      }
      return false;
    });
  }
  bool UntilHeldBy(const std::string& identity) {
    return Until([&](const nlohmann::json& spec) {
      return spec.value("holderIdentity", "") == identity && GoLeads();
    });
  }

  std::vector<std::unique_ptr<Candidate>> candidates_;
  std::unique_ptr<testenv::ServerProcess> go_;
  std::string go_log_;
  bool go_ends_ = false;
};

TEST_F(LeaderElectionTest, AStalledLeaderIsReplaced) {
  for (const char* const identity : {"a", "b", "c"}) Add(identity, Short());
  Candidate* first = nullptr;
  ASSERT_TRUE(UntilOneLeads(&first));
  const LeaseTerm term = first->elector()->term().value();
  EXPECT_EQ(term.transitions, 0);
  const nlohmann::json spec = Spec();
  EXPECT_EQ(spec["holderIdentity"], first->elector()->leader());
  EXPECT_EQ(spec["leaseDurationSeconds"], 4);
  EXPECT_EQ(spec["leaseTransitions"], 0);
  for (const char* const time : {"acquireTime", "renewTime"}) {
    // With microseconds.
    EXPECT_EQ(spec[time].get<std::string>().size(), sizeof("2026-01-02T03:04:05.000000Z") - 1);
  }
  // It renews.
  EXPECT_TRUE(
      Until([&](const nlohmann::json& now) { return now["renewTime"] != spec["renewTime"]; }));
  EXPECT_EQ(first->started(), 1);

  first->Stall();
  Candidate* second = nullptr;
  ASSERT_TRUE(UntilOneLeads(&second, first));
  EXPECT_FALSE(first->elector()->IsLeader());
  EXPECT_EQ(first->stopped(), 0) << "it is stalled";
  EXPECT_EQ(second->elector()->term()->lease_uid, term.lease_uid);
  EXPECT_GT(second->elector()->term()->transitions, term.transitions);
  first->GoOn();
  EXPECT_TRUE(Until([&](const nlohmann::json&) { return first->stopped() == 1; }));
}

TEST_F(LeaderElectionTest, AReleasedLeaseIsTakenAtOnce) {
  Add("a", Patient());
  Add("b", Patient());
  Candidate* first = nullptr;
  ASSERT_TRUE(UntilOneLeads(&first));
  first->elector()->Stop();
  EXPECT_EQ(first->stopped(), 1);
  Candidate* second = nullptr;
  // Without the release it would be an hour.
  ASSERT_TRUE(UntilOneLeads(&second, first));
  EXPECT_EQ(second->elector()->term()->transitions, 1);
  second->elector()->Stop();
  const nlohmann::json spec = Spec();
  EXPECT_EQ(spec["holderIdentity"], "");
  EXPECT_EQ(spec["leaseDurationSeconds"], 1);
  EXPECT_EQ(spec["leaseTransitions"], 1);
}

TEST_F(LeaderElectionTest, CompetesWithClientGo) {
  StartGo("go-1");
  ASSERT_TRUE(UntilHeldBy("go-1"));
  Candidate* const ours = Add("ours", Short());
  ASSERT_TRUE(Until([&](const nlohmann::json&) { return ours->elector()->leader() == "go-1"; }));
  // It dies, without a word.
  go_ = nullptr;
  Candidate* leader = nullptr;
  ASSERT_TRUE(UntilOneLeads(&leader));
  EXPECT_EQ(ours->elector()->term()->transitions, 1);

  // We stall, and it takes over; never before we have stopped to believe.
  StartGo("go-2");
  ASSERT_TRUE(UntilGoKnows("ours"));
  EXPECT_TRUE(ours->elector()->IsLeader());
  ours->Stall();
  ASSERT_TRUE(UntilHeldBy("go-2"));
  EXPECT_FALSE(ours->elector()->IsLeader());
  ours->GoOn();
  ASSERT_TRUE(Until([&](const nlohmann::json&) { return ours->stopped() == 1; }));
  ASSERT_TRUE(Until([&](const nlohmann::json&) { return ours->elector()->leader() == "go-2"; }));

  // It releases, which it does before it says that it has lost.
  go_ends_ = true;
  ASSERT_EQ(::kill(go_->pid(), SIGTERM), 0);
  ASSERT_TRUE(UntilOneLeads(&leader));
  EXPECT_EQ(ours->elector()->term()->transitions, 3);

  // We release.
  go_ends_ = false;
  StartGo("go-3");
  ASSERT_TRUE(UntilGoKnows("ours"));
  ours->elector()->Stop();
  ASSERT_TRUE(UntilHeldBy("go-3"));
  EXPECT_EQ(Spec()["leaseTransitions"], 4);
}

}  // namespace
}  // namespace capstan::kube::testing
