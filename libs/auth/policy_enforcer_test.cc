#include "libs/auth/policy_enforcer.h"

#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/auth/principal.h"
#include "libs/auth/spiffe_id.h"
#include "libs/log/log.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/executor/v1/agent_session.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"

namespace capstan::auth {
namespace {

using credentials::v1::PolicySnapshot;
using credentials::v1::RoleBinding;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kDomain[] = "test.capstan.dev";
constexpr char kAgentSession[] = "/capstan.executor.v1.AgentSession/Connect";
constexpr char kWatchJobs[] = "/capstan.scheduler.v1.JobService/WatchJobs";

class RecordingSink final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    entries.push_back(entry);
    return absl::OkStatus();
  }
  std::vector<audit::AuditEntry> entries;
};

// What a stream is told, in the order of telling.
struct OpenStream {
  std::vector<absl::Status> revoked;
  std::shared_ptr<void> tracked;
};

// One life of a part on simulated time; its folder outlives it.
class Part {
 public:
  Part(SimulatedClock* clock, const std::string& folder) : clock_(clock), strand_(clock) {
    enforcer_ =
        std::make_unique<PolicyEnforcer>(PolicyEnforcer::Options{.file = folder + "/deny_list"},
                                         PolicyEnforcer::Deps{.holder = &holder_,
                                                              .access = &access_,
                                                              .strand = &strand_,
                                                              .log = &log_,
                                                              .metrics = &metrics_});
  }

  absl::Status Start() {
    absl::Status kept = enforcer_->LoadKept();
    if (kept.ok()) enforcer_->Start();
    return kept;
  }
  void Hear(const PolicySnapshot& snapshot) {
    holder_.Set(std::make_shared<Policy>(snapshot, clock_->Read().boot));
  }
  absl::StatusOr<Caller> Admit(const SpiffeId& id, const std::string& method,
                               absl::Duration certificate = absl::Hours(1)) {
    scheduler::v1::WatchJobsRequest request;
    request.set_parent("projects/red");
    return access_.Authorize({id.ToString(), "0a1b", clock_->Read().wall + certificate, ""}, method,
                             method == kWatchJobs ? &request : nullptr);
  }
  std::unique_ptr<OpenStream> Open(const SpiffeId& id, const std::string& method,
                                   absl::Duration certificate = absl::Hours(1)) {
    const absl::StatusOr<Caller> caller = Admit(id, method, certificate);
    EXPECT_TRUE(caller.ok()) << caller.status();
    auto stream = std::make_unique<OpenStream>();
    stream->tracked = access_.Track(
        *caller, [s = stream.get()](const absl::Status& why) { s->revoked.push_back(why); });
    return stream;
  }
  void Advance(absl::Duration d) { strand_.Advance(d); }
  std::string Metrics() const { return metrics_.RenderText(); }
  RecordingSink& audit() { return audit_; }

 private:
  SimulatedClock* const clock_;
  SimulatedStrand strand_;
  PolicyHolder holder_;
  RecordingSink audit_;
  log::TestingSink sink_;
  log::Logger log_{"test", clock_, &sink_, log::Level::kDebug};
  metrics::Registry metrics_{"test"};
  PolicyAccess access_{kDomain, &holder_, clock_, &audit_};
  std::unique_ptr<PolicyEnforcer> enforcer_;
};

class PolicyEnforcerTest : public ::testing::Test {
 protected:
  PolicyEnforcerTest() {
    snapshot_.set_revision(7);
    snapshot_.set_valid_seconds(300);
    snapshot_.add_projects()->set_name("projects/red");
    for (const char* person : {"person/1", "person/2"}) {
      RoleBinding* binding = snapshot_.add_role_bindings();
      binding->set_name(absl::StrFormat("roleBindings/%s", person));
      binding->set_member(person);
      binding->set_role(RoleBinding::ROLE_VIEWER);
    }
  }
  static SpiffeId Node(const std::string& name) { return SpiffeId::Node(kDomain, "c1", name); }
  static SpiffeId Person(const std::string& uid) { return SpiffeId::Person(kDomain, uid); }
  static std::string Reason(const std::unique_ptr<OpenStream>& stream) {
    return stream->revoked.empty() ? "" : status::Reason(stream->revoked.front());
  }

  SimulatedClock clock_;
  TemporaryFolder folder_;
  PolicySnapshot snapshot_;
};

TEST_F(PolicyEnforcerTest, ADenialEndsTheOpenCallsOfItsPrincipalAloneAndAtOnce) {
  Part part(&clock_, folder_.path());
  ASSERT_TRUE(part.Start().ok());
  part.Hear(snapshot_);
  const auto denied = part.Open(Node("n1"), kAgentSession);
  const auto other = part.Open(Node("n2"), kAgentSession);
  const auto person = part.Open(Person("1"), kWatchJobs);
  const auto closed = part.Open(Node("n1"), kAgentSession);
  closed->tracked = nullptr;
  snapshot_.add_denied_ids("/node/c1/n1");
  snapshot_.set_revision(8);
  part.Hear(snapshot_);
  ASSERT_THAT(denied->revoked, SizeIs(1));
  EXPECT_EQ(denied->revoked[0].code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Reason(denied), "IDENTITY_DENIED");
  EXPECT_THAT(other->revoked, IsEmpty());
  EXPECT_THAT(person->revoked, IsEmpty());
  EXPECT_THAT(closed->revoked, IsEmpty());
  EXPECT_EQ(status::Reason(part.Admit(Node("n1"), kAgentSession).status()), "IDENTITY_DENIED");
  ASSERT_FALSE(part.audit().entries.empty());
  EXPECT_EQ(part.audit().entries[0].principal, Node("n1").ToString());
  EXPECT_EQ(part.audit().entries[0].message, "IDENTITY_DENIED");
  EXPECT_THAT(part.Metrics(), HasSubstr("capstan_test_calls_revoked_total 1"));

  snapshot_.clear_denied_ids();
  snapshot_.set_revision(9);
  part.Hear(snapshot_);
  EXPECT_TRUE(part.Admit(Node("n1"), kAgentSession).ok());
}

TEST_F(PolicyEnforcerTest, ACallThatDoesNotEndIsBrokenOffAfterASecondAndNotBefore) {
  Part part(&clock_, folder_.path());
  ASSERT_TRUE(part.Start().ok());
  part.Hear(snapshot_);
  const auto stream = part.Open(Node("n1"), kAgentSession);
  snapshot_.add_denied_serials("0a1b");
  part.Hear(snapshot_);
  part.Hear(snapshot_);
  EXPECT_THAT(stream->revoked, SizeIs(1));
  part.Advance(absl::Milliseconds(2100));
  EXPECT_THAT(stream->revoked, SizeIs(::testing::Ge(2)));
  EXPECT_EQ(Reason(stream), "IDENTITY_DENIED");
  stream->tracked = nullptr;
  const size_t before = stream->revoked.size();
  part.Advance(absl::Seconds(5));
  EXPECT_THAT(stream->revoked, SizeIs(before));
}

TEST_F(PolicyEnforcerTest, AnExpiredPolicyEndsPeoplesCallsAndLetsNodesGoOn) {
  Part part(&clock_, folder_.path());
  ASSERT_TRUE(part.Start().ok());
  EXPECT_THAT(part.Metrics(), HasSubstr("capstan_test_policy_age_seconds -1"));
  snapshot_.add_denied_ids("/node/c1/stolen");
  part.Hear(snapshot_);
  const auto node = part.Open(Node("n1"), kAgentSession);
  const auto person = part.Open(Person("1"), kWatchJobs);
  part.Advance(absl::Seconds(299));
  EXPECT_THAT(person->revoked, IsEmpty());
  EXPECT_THAT(part.Metrics(), HasSubstr("capstan_test_policy_age_seconds 299"));
  EXPECT_THAT(part.Metrics(), HasSubstr("capstan_test_policy_expired 0"));
  part.Advance(absl::Seconds(2));
  ASSERT_FALSE(person->revoked.empty());
  EXPECT_EQ(person->revoked[0].code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Reason(person), "POLICY_EXPIRED");
  EXPECT_THAT(node->revoked, IsEmpty());
  EXPECT_THAT(part.Metrics(), HasSubstr("capstan_test_policy_expired 1"));
  // New calls are decided alike, and who was denied stays denied.
  EXPECT_TRUE(part.Admit(Node("n2"), kAgentSession).ok());
  EXPECT_EQ(status::Reason(part.Admit(Person("1"), kWatchJobs).status()), "POLICY_EXPIRED");
  EXPECT_EQ(status::Reason(part.Admit(Node("stolen"), kAgentSession).status()), "IDENTITY_DENIED");
  // Word from credentials brings the people back.
  part.Hear(snapshot_);
  EXPECT_TRUE(part.Admit(Person("1"), kWatchJobs).ok());
}

TEST_F(PolicyEnforcerTest, ACertificatesEndEndsItsOpenCalls) {
  Part part(&clock_, folder_.path());
  ASSERT_TRUE(part.Start().ok());
  part.Hear(snapshot_);
  const auto brief = part.Open(Node("n1"), kAgentSession, absl::Minutes(1));
  const auto lasting = part.Open(Node("n2"), kAgentSession);
  part.Advance(absl::Seconds(62));
  EXPECT_EQ(Reason(brief), "SVID_EXPIRED");
  EXPECT_THAT(lasting->revoked, IsEmpty());
}

TEST_F(PolicyEnforcerTest, TheDenyListOutlivesTheProcessAndNothingElseOfThePolicyDoes) {
  {
    Part part(&clock_, folder_.path());
    ASSERT_TRUE(part.Start().ok());
    snapshot_.add_denied_ids("/node/c1/n1");
    part.Hear(snapshot_);
  }
  struct stat file = {};
  ASSERT_EQ(stat((folder_.path() + "/deny_list").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  Part part(&clock_, folder_.path());
  ASSERT_TRUE(part.Start().ok());
  EXPECT_EQ(status::Reason(part.Admit(Node("n1"), kAgentSession).status()), "IDENTITY_DENIED");
  EXPECT_TRUE(part.Admit(Node("n2"), kAgentSession).ok());
  EXPECT_EQ(status::Reason(part.Admit(Person("1"), kWatchJobs).status()), "POLICY_EXPIRED");
  EXPECT_THAT(part.Metrics(), HasSubstr("capstan_test_policy_revision 7"));
  EXPECT_THAT(part.Metrics(), HasSubstr("capstan_test_policy_expired 1"));
}

TEST_F(PolicyEnforcerTest, ADamagedDenyListIsNoEmptyOne) {
  {
    std::ofstream file(folder_.path() + "/deny_list", std::ios::binary);
    file << "\xff\xff";
  }
  Part part(&clock_, folder_.path());
  const absl::Status started = part.Start();
  EXPECT_EQ(status::Reason(started), "DENY_LIST_DAMAGED");
  EXPECT_THAT(std::string(started.message()), HasSubstr(folder_.path() + "/deny_list"));
}

}  // namespace
}  // namespace capstan::auth
