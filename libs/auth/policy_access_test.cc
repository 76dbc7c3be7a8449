#include "libs/auth/policy_access.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/denial_log.h"
#include "libs/auth/placement_verifier.h"
#include "libs/auth/policy.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"

namespace capstan::auth {
namespace {

using credentials::v1::PolicySnapshot;
using credentials::v1::RoleBinding;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kDomain[] = "test.capstan.dev";
constexpr char kCreateJob[] = "/capstan.scheduler.v1.JobService/CreateJob";
constexpr char kGetJob[] = "/capstan.scheduler.v1.JobService/GetJob";
constexpr char kListQueues[] = "/capstan.scheduler.v1.QueueService/ListQueues";
constexpr char kCreateQueue[] = "/capstan.scheduler.v1.QueueService/CreateQueue";
constexpr char kConnect[] = "/capstan.scheduler.v1.ExecutorSession/Connect";
constexpr char kPinBundle[] = "/capstan.dataloader.v1.BundleService/PinBundle";
constexpr char kRenew[] = "/capstan.credentials.v1.IdentityService/RenewSvid";

class RecordingSink final : public audit::AuditSink {
 public:
  absl::Status Record(const audit::AuditEntry& entry) override {
    entries.push_back(entry);
    return absl::OkStatus();
  }
  std::vector<audit::AuditEntry> entries;
};

class PolicyAccessTest : public ::testing::Test {
 protected:
  void Bind(const std::string& binding, const std::string& member, RoleBinding::Role role) {
    RoleBinding* added = snapshot_.add_role_bindings();
    added->set_name(binding);
    added->set_member(member);
    added->set_role(role);
    Publish();
  }
  void Publish() {
    snapshot_.set_valid_seconds(300);
    snapshot_.clear_projects();
    for (const char* name : {"projects/red", "projects/blue"}) {
      snapshot_.add_projects()->set_name(name);
    }
    policy_.Set(std::make_shared<Policy>(snapshot_, clock_.Read().boot));
  }

  Peer PeerOf(const SpiffeId& id) const {
    return {id.ToString(), "0a1b", clock_.Read().wall + absl::Hours(1), ""};
  }
  Peer Person(const std::string& uid) const { return PeerOf(SpiffeId::Person(kDomain, uid)); }
  Peer Service(const std::string& name) const { return PeerOf(SpiffeId::Service(kDomain, name)); }

  absl::Status CreateJob(const Peer& peer, const std::string& parent) {
    scheduler::v1::CreateJobRequest request;
    request.set_parent(parent);
    return access_.Authorize(peer, kCreateJob, &request).status();
  }
  absl::Status GetJob(const Peer& peer, const std::string& name) {
    scheduler::v1::GetJobRequest request;
    request.set_name(name);
    return access_.Authorize(peer, kGetJob, &request).status();
  }

  SimulatedClock clock_;
  PolicySnapshot snapshot_;
  PolicyHolder policy_;
  RecordingSink audit_;
  PolicyAccess access_{kDomain, &policy_, &clock_, &audit_};
};

TEST_F(PolicyAccessTest, RolesHoldInTheirProjectOnly) {
  Bind("projects/red/roleBindings/b", "person/1000", RoleBinding::ROLE_RESEARCHER);
  EXPECT_EQ(CreateJob(Person("1000"), "projects/red"), absl::OkStatus());
  EXPECT_EQ(GetJob(Person("1000"), "projects/red/jobs/j"), absl::OkStatus());
  EXPECT_TRUE(absl::IsPermissionDenied(CreateJob(Person("1000"), "projects/blue")));
  EXPECT_TRUE(absl::IsPermissionDenied(CreateJob(Person("1000"), "projects/-")));
  EXPECT_TRUE(absl::IsPermissionDenied(CreateJob(Person("1000"), "projects/redder")));
  EXPECT_TRUE(absl::IsPermissionDenied(CreateJob(Person("1000"), "")));
  EXPECT_TRUE(absl::IsPermissionDenied(CreateJob(Person("1001"), "projects/red")));
}

TEST_F(PolicyAccessTest, ABindingWithoutAProperNameGivesNothing) {
  Bind("projects//roleBindings/1", "person/ada", RoleBinding::ROLE_ADMIN);
  Bind("elsewhere", "person/ada", RoleBinding::ROLE_ADMIN);
  Bind("", "person/ada", RoleBinding::ROLE_ADMIN);
  EXPECT_EQ(CreateJob(Person("ada"), "projects/red").code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(PolicyAccessTest, ViewersSeeAndOperatorsSubmitNothing) {
  Bind("projects/red/roleBindings/v", "person/1", RoleBinding::ROLE_VIEWER);
  Bind("roleBindings/o", "person/2", RoleBinding::ROLE_OPERATOR);
  Bind("roleBindings/a", "person/3", RoleBinding::ROLE_ADMIN);
  EXPECT_EQ(GetJob(Person("1"), "projects/red/jobs/j"), absl::OkStatus());
  EXPECT_TRUE(absl::IsPermissionDenied(CreateJob(Person("1"), "projects/red")));
  EXPECT_EQ(GetJob(Person("2"), "projects/blue/jobs/j"), absl::OkStatus());
  EXPECT_TRUE(absl::IsPermissionDenied(CreateJob(Person("2"), "projects/blue")));
  EXPECT_EQ(CreateJob(Person("3"), "projects/blue"), absl::OkStatus());
  scheduler::v1::CreateQueueRequest create;
  EXPECT_TRUE(access_.Authorize(Person("2"), kCreateQueue, &create).ok());
  EXPECT_FALSE(access_.Authorize(Person("1"), kCreateQueue, &create).ok());
}

TEST_F(PolicyAccessTest, SharedThingsAreSeenFromAnyProject) {
  Bind("projects/red/roleBindings/v", "person/1", RoleBinding::ROLE_VIEWER);
  scheduler::v1::ListQueuesRequest list;
  EXPECT_TRUE(access_.Authorize(Person("1"), kListQueues, &list).ok());
  EXPECT_FALSE(access_.Authorize(Person("2"), kListQueues, &list).ok());
}

TEST_F(PolicyAccessTest, CallersCarryWhatTheRuleSays) {
  Bind("roleBindings/a", "person/3", RoleBinding::ROLE_ADMIN);
  scheduler::v1::CreateJobRequest request;
  request.set_parent("projects/red");
  const Caller caller = access_.Authorize(Person("3"), kCreateJob, &request).value();
  EXPECT_TRUE(caller.IsPerson());
  EXPECT_EQ(caller.id->person, "3");
  EXPECT_EQ(caller.permission, "jobs.create");
  EXPECT_EQ(caller.resource, "projects/red");
  EXPECT_EQ(caller.serial, "0a1b");
  EXPECT_FALSE(caller.audited);
  const auto cordon = access_.Authorize(Service("cluster_manager"),
                                        "/capstan.scheduler.v1.NodeService/CordonNode", nullptr);
  EXPECT_TRUE(cordon.value().audited);
}

TEST_F(PolicyAccessTest, AfterExpiryPeopleAreRefusedAndServicesGoOn) {
  Bind("roleBindings/a", "person/3", RoleBinding::ROLE_ADMIN);
  clock_.Advance(absl::Seconds(299));
  EXPECT_EQ(CreateJob(Person("3"), "projects/red"), absl::OkStatus());
  clock_.Advance(absl::Seconds(1));
  const absl::Status refused = CreateJob(Person("3"), "projects/red");
  EXPECT_EQ(status::Reason(refused), "POLICY_EXPIRED");
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_EQ(GetJob(Service("telemetry"), "projects/red/jobs/j"), absl::OkStatus());
  EXPECT_TRUE(access_.Authorize(PeerOf(SpiffeId::Executor(kDomain, "c1")), kConnect, nullptr).ok());
  Publish();
  EXPECT_EQ(CreateJob(Person("3"), "projects/red"), absl::OkStatus());
}

TEST_F(PolicyAccessTest, WithoutAnyPolicyServicesGoOn) {
  EXPECT_EQ(status::Reason(CreateJob(Person("3"), "projects/red")), "POLICY_EXPIRED");
  EXPECT_EQ(GetJob(Service("telemetry"), "projects/red/jobs/j"), absl::OkStatus());
}

TEST_F(PolicyAccessTest, AWallClockThatStepsDoesNotExtendThePolicy) {
  Bind("roleBindings/a", "person/3", RoleBinding::ROLE_ADMIN);
  clock_.StepWall(-absl::Hours(5));
  clock_.Advance(absl::Seconds(300));
  EXPECT_EQ(status::Reason(CreateJob(Person("3"), "projects/red")), "POLICY_EXPIRED");
}

TEST_F(PolicyAccessTest, DenialsHoldForIdsPathsAndSerialsAlsoAfterExpiry) {
  const auto connect = [&](const Peer& peer) {
    return access_.Authorize(peer, kConnect, nullptr).status();
  };
  const Peer c1 = PeerOf(SpiffeId::Executor(kDomain, "c1"));
  const Peer c2 = PeerOf(SpiffeId::Executor(kDomain, "c2"));
  EXPECT_EQ(connect(c1), absl::OkStatus());
  snapshot_.add_denied_ids("spiffe://test.capstan.dev/executor/c1");
  Publish();
  EXPECT_TRUE(absl::IsPermissionDenied(connect(c1)));
  EXPECT_EQ(connect(c2), absl::OkStatus());
  snapshot_.add_denied_ids("spiffe://test.capstan.dev/executor/");
  Publish();
  EXPECT_TRUE(absl::IsPermissionDenied(connect(c2)));
  clock_.Advance(absl::Hours(10));
  EXPECT_TRUE(absl::IsPermissionDenied(connect(PeerOf(SpiffeId::Executor(kDomain, "c2")))));
  snapshot_.clear_denied_ids();
  snapshot_.add_denied_serials("0a1b");
  Publish();
  EXPECT_TRUE(absl::IsPermissionDenied(connect(PeerOf(SpiffeId::Executor(kDomain, "c3")))));
  // A path by itself, and no confusion with what only begins alike.
  snapshot_.clear_denied_serials();
  snapshot_.add_denied_ids("/executor/c");
  snapshot_.add_denied_ids("/node/");
  Publish();
  EXPECT_EQ(connect(PeerOf(SpiffeId::Executor(kDomain, "c1"))), absl::OkStatus());
}

TEST_F(PolicyAccessTest, CallersMustBeOfAListedKind) {
  const auto connect = [&](const Peer& peer) {
    return access_.Authorize(peer, kConnect, nullptr).status();
  };
  EXPECT_TRUE(absl::IsPermissionDenied(connect(Service("scheduler"))));
  EXPECT_TRUE(absl::IsPermissionDenied(connect(PeerOf(SpiffeId::Node(kDomain, "c", "n")))));
  EXPECT_TRUE(
      absl::IsPermissionDenied(connect(PeerOf(SpiffeId::Task(kDomain, "p", "a", "u", 1, "w", 0)))));
  EXPECT_TRUE(
      absl::IsPermissionDenied(connect(PeerOf(SpiffeId::ServiceAccount(kDomain, "p", "a")))));
  EXPECT_TRUE(absl::IsUnauthenticated(connect(Peer())));
  EXPECT_TRUE(
      absl::IsUnauthenticated(connect(PeerOf(SpiffeId::Executor("elsewhere.example", "c1")))));
  EXPECT_TRUE(absl::IsUnauthenticated(connect({"spiffe://x", "1", absl::InfiniteFuture(), ""})));
  Peer expired = PeerOf(SpiffeId::Executor(kDomain, "c1"));
  expired.not_after = clock_.Read().wall;
  EXPECT_EQ(status::Reason(connect(expired)), "SVID_EXPIRED");
  EXPECT_TRUE(absl::IsPermissionDenied(GetJob(Service("scheduler"), "projects/p/jobs/j")));
  EXPECT_TRUE(absl::IsPermissionDenied(
      access_.Authorize(Service("scheduler"), "/no.Such/Method", nullptr).status()));
}

TEST_F(PolicyAccessTest, MethodsWithoutAPermissionAdmitEveryPerson) {
  Publish();
  EXPECT_TRUE(access_.Authorize(Person("77"), kRenew, nullptr).ok());
  EXPECT_TRUE(access_.Authorize(Peer(), "/capstan.credentials.v1.JoinService/Join", nullptr).ok());
}

TEST_F(PolicyAccessTest, RefusalsTellNothingAboutWhatExists) {
  Bind("projects/red/roleBindings/b", "person/1", RoleBinding::ROLE_VIEWER);
  const absl::Status forbidden = GetJob(Person("1"), "projects/blue/jobs/there");
  const absl::Status absent = GetJob(Person("1"), "projects/none/jobs/there");
  EXPECT_EQ(forbidden.message(),
            "Permission 'jobs.get' denied on resource 'projects/blue/jobs/there' (or it might not "
            "exist).");
  EXPECT_EQ(absent.code(), forbidden.code());
  EXPECT_EQ(status::Reason(absent), status::Reason(forbidden));
}

TEST_F(PolicyAccessTest, AProjectThatIsNotThereIsNamedToThoseWhoMaySeeItAndToNobodyElse) {
  Bind("roleBindings/a", "person/1", RoleBinding::ROLE_ADMIN);
  Bind("projects/red/roleBindings/b", "person/2", RoleBinding::ROLE_RESEARCHER);
  for (const absl::Status& missing :
       {GetJob(Person("1"), "projects/none/jobs/j"), CreateJob(Person("1"), "projects/none")}) {
    EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
    EXPECT_EQ(status::Reason(missing), "PROJECT_NOT_FOUND") << missing;
    EXPECT_THAT(std::string(missing.message()), ::testing::HasSubstr("'none'"));
  }
  EXPECT_THAT(audit_.entries, IsEmpty()) << "no right was refused";
  // A Job of a Project that is there is the handler's matter.
  EXPECT_EQ(GetJob(Person("1"), "projects/red/jobs/none"), absl::OkStatus());
  EXPECT_EQ(CreateJob(Person("1"), "projects/blue"), absl::OkStatus());
  // All at once, and what is no id.
  EXPECT_EQ(CreateJob(Person("1"), "projects/-"), absl::OkStatus());
  EXPECT_EQ(CreateJob(Person("1"), "projects/No Id"), absl::OkStatus());
  // To the others what is missing looks like what is forbidden, but for the name that they gave.
  const absl::Status forbidden = CreateJob(Person("2"), "projects/blue");
  const absl::Status missing = CreateJob(Person("2"), "projects/none");
  EXPECT_TRUE(absl::IsPermissionDenied(missing)) << missing;
  EXPECT_EQ(absl::StrReplaceAll(missing.ToString(), {{"none", "blue"}}), forbidden.ToString());
  EXPECT_EQ(status::Reason(missing), status::Reason(forbidden));
  // Services act on what they have been told of.
  EXPECT_EQ(GetJob(Service("telemetry"), "projects/none/jobs/j"), absl::OkStatus());
  // One that is made is there for all of them.
  snapshot_.set_valid_seconds(300);
  snapshot_.add_projects()->set_name("projects/none");
  policy_.Set(std::make_shared<Policy>(snapshot_, clock_.Read().boot));
  EXPECT_EQ(CreateJob(Person("1"), "projects/none"), absl::OkStatus());
}

TEST_F(PolicyAccessTest, RecheckSeesWhatChanged) {
  Bind("projects/red/roleBindings/b", "person/1", RoleBinding::ROLE_VIEWER);
  scheduler::v1::GetJobRequest request;
  request.set_name("projects/red/jobs/j");
  const Caller person = access_.Authorize(Person("1"), kGetJob, &request).value();
  const Caller executor =
      access_.Authorize(PeerOf(SpiffeId::Executor(kDomain, "c1")), kConnect, nullptr).value();
  EXPECT_EQ(access_.Recheck(person), absl::OkStatus());
  snapshot_.clear_role_bindings();
  Publish();
  EXPECT_TRUE(absl::IsPermissionDenied(access_.Recheck(person)));
  EXPECT_EQ(access_.Recheck(executor), absl::OkStatus());
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(status::Reason(access_.Recheck(executor)), "SVID_EXPIRED");
}

TEST_F(PolicyAccessTest, RefusalsAreAuditedOnceWithTheirRepeats) {
  Publish();
  for (int i = 0; i < 100; ++i) {
    CreateJob(Person("9"), "projects/red").IgnoreError();
    clock_.Advance(absl::Milliseconds(100));
  }
  ASSERT_THAT(audit_.entries, SizeIs(1));
  EXPECT_EQ(audit_.entries[0].principal, "spiffe://test.capstan.dev/person/9");
  EXPECT_EQ(audit_.entries[0].act, kCreateJob);
  EXPECT_EQ(audit_.entries[0].resource, "projects/red");
  EXPECT_EQ(audit_.entries[0].outcome_code, 7);
  EXPECT_EQ(audit_.entries[0].repeats, 0);
  access_.FlushDenials();
  EXPECT_THAT(audit_.entries, SizeIs(1));
  clock_.Advance(absl::Minutes(1));
  access_.FlushDenials();
  ASSERT_THAT(audit_.entries, SizeIs(2));
  EXPECT_EQ(audit_.entries[1].repeats, 99);
  access_.FlushDenials();
  EXPECT_THAT(audit_.entries, SizeIs(2));
}

TEST_F(PolicyAccessTest, AdmittedCallsAreNotAudited) {
  Bind("roleBindings/a", "person/3", RoleBinding::ROLE_ADMIN);
  EXPECT_EQ(CreateJob(Person("3"), "projects/red"), absl::OkStatus());
  EXPECT_THAT(audit_.entries, IsEmpty());
}

TEST_F(PolicyAccessTest, ManyKindsOfRefusalsStayBounded) {
  Publish();
  for (size_t i = 0; i < DenialLog::kMaxKinds + 1000; ++i) {
    CreateJob(Person(std::to_string(i)), "projects/red").IgnoreError();
  }
  // The first of each kind, and one for all others.
  EXPECT_THAT(audit_.entries, SizeIs(DenialLog::kMaxKinds + 1));
  EXPECT_EQ(audit_.entries.back().principal, "(others)");
  clock_.Advance(absl::Minutes(1));
  access_.FlushDenials();
  EXPECT_EQ(audit_.entries.back().repeats, 999);
}

TEST_F(PolicyAccessTest, ListsKnowWhatACallerMaySee) {
  Bind("projects/red/roleBindings/b", "person/1", RoleBinding::ROLE_VIEWER);
  Bind("projects/blue/roleBindings/b", "person/1", RoleBinding::ROLE_RESEARCHER);
  bool everywhere = true;
  EXPECT_THAT(policy_.Get()->ProjectsWith("1", "projects.list", &everywhere),
              ::testing::UnorderedElementsAre("red", "blue"));
  EXPECT_FALSE(everywhere);
  EXPECT_THAT(policy_.Get()->ProjectsWith("1", "jobs.create", &everywhere),
              ::testing::ElementsAre("blue"));
  EXPECT_THAT(policy_.Get()->ProjectsWith("2", "jobs.create", &everywhere), IsEmpty());
}

class PlacementAccessTest : public PolicyAccessTest {
 protected:
  PlacementAccessTest() { access_.VerifyPlacements(&verifier_); }

  std::string Grant(const std::string& node) const {
    type::v1::Placement placement;
    placement.set_trust_domain(kDomain);
    placement.set_cluster("local");
    placement.set_node(node);
    placement.set_job("projects/red/jobs/j");
    placement.set_bundle("projects/red/bundles/ab");
    *placement.mutable_sign_time() = ToProto(clock_.Read().wall);
    return TestGrant(scheduler_, placement);
  }
  absl::StatusOr<Caller> Pin(const std::string& node, const std::string& grant) {
    Peer peer = PeerOf(SpiffeId::Node(kDomain, "local", node));
    peer.grant = grant;
    return access_.Authorize(peer, kPinBundle, &request_);
  }

  const rpc::TestAuthority authority_{kDomain, clock_.Read().wall};
  const rpc::Svid scheduler_ = authority_.Issue("/svc/scheduler");
  PlacementVerifier verifier_{kDomain,
                              [this] { return std::vector<std::string>{authority_.root()}; }};
  const dataloader::v1::PinBundleRequest request_;
};

TEST_F(PlacementAccessTest, ANodeShowsTheGrantThatIsItsOwn) {
  const auto caller = Pin("n1", Grant("n1"));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(access_.CheckPlacement(*caller, {.bundle = "projects/red/bundles/ab"}),
            absl::OkStatus());
  EXPECT_THAT(audit_.entries, IsEmpty());
  EXPECT_EQ(status::Reason(access_.CheckPlacement(*caller, {.bundle = "projects/red/bundles/x"})),
            "NO_PLACEMENT");
  EXPECT_EQ(status::Reason(Pin("n2", Grant("n1")).status()), "NO_PLACEMENT");
  EXPECT_EQ(status::Reason(Pin("n1", "").status()), "NO_PLACEMENT");
  EXPECT_EQ(status::Reason(Pin("n1", "made up").status()), "NO_PLACEMENT");
  ASSERT_FALSE(audit_.entries.empty());
  EXPECT_EQ(audit_.entries.front().act, kPinBundle);
  EXPECT_EQ(audit_.entries.front().message, "NO_PLACEMENT");
}

TEST_F(PlacementAccessTest, OthersShowNoneAndAreNotAskedForOne) {
  Peer executor = PeerOf(SpiffeId::Executor(kDomain, "local"));
  executor.grant = Grant("n1");
  EXPECT_TRUE(
      absl::IsPermissionDenied(access_.Authorize(executor, kPinBundle, &request_).status()));
  Caller service;
  service.id = SpiffeId::Service(kDomain, "scheduler");
  EXPECT_EQ(access_.CheckPlacement(service, {.job = "projects/red/jobs/else"}), absl::OkStatus());
}

TEST_F(PlacementAccessTest, ADeniedSignerHasGrantedNothing) {
  const std::string grant = Grant("n1");
  EXPECT_TRUE(Pin("n1", grant).ok());
  snapshot_.add_denied_serials(rpc::ParseCertificate(scheduler_.chain.front())->serial);
  Publish();
  EXPECT_EQ(status::Reason(Pin("n1", grant).status()), "NO_PLACEMENT");
}

TEST_F(PolicyAccessTest, WhoCannotVerifyGrantsAdmitsNoNodeThatNeedsOne) {
  Peer node = PeerOf(SpiffeId::Node(kDomain, "local", "n1"));
  node.grant = "grant";
  const dataloader::v1::PinBundleRequest request;
  EXPECT_EQ(status::Reason(access_.Authorize(node, kPinBundle, &request).status()), "NO_PLACEMENT");
}

}  // namespace
}  // namespace capstan::auth
