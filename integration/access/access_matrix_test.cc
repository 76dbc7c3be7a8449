// Every method of every service against every kind of caller, over real mTLS on a real platform.
// What is expected comes from the rules in the descriptors, so that a new method is in the matrix
// by itself, and a server that serves what has no rule is found.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "integration/access/method_catalog.h"
#include "integration/access/raw_call.h"
#include "integration/monitoring/http_request.h"
#include "integration/platform/test_platform.h"
#include "libs/audit/audit_file.h"
#include "libs/auth/access_rules.h"
#include "libs/auth/roles.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/session/placement.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/credentials/testing/stored_authority.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::integration {
namespace {

using credentials::v1::RoleBinding;
using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using type::v1::AccessRule;

constexpr absl::Duration kPatience = absl::Seconds(20);
// For a stream that is let in and has nothing to say.
constexpr absl::Duration kSilence = absl::Seconds(1);

// People of this machine, nobody's on a Debian.
constexpr char kViewer[] = "4001";
constexpr char kStranger[] = "4002";
constexpr char kNobody[] = "4004";

constexpr char kServe[] =
    "job_id: serve\n"
    "spec:\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 1\n"
    "      argv: [/bin/sleep, '3600']\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

// Services that no port of a platform on one machine serves over mTLS.
const std::set<std::string>& ServedElsewhere() {
  static const auto* const kServices = new std::set<std::string>{
      // The joining port, without a client's certificate.
      "capstan.credentials.v1.JoinService",
      // The people's socket, where the kernel says who it is.
      "capstan.credentials.v1.PersonService",
      // Agents that share what they hold with each other: //integration/peers.
      "capstan.dataloader.v1.PeerContentService",
  };
  return *kServices;
}

// What every gRPC server of ours has beside its services, for who got through the handshake.
bool IsGrpcsOwn(absl::string_view service) { return absl::StartsWith(service, "grpc."); }

class AccessMatrixTest : public ::testing::Test {
 protected:
  // A server, the methods it serves, and where its counters are.
  struct Part {
    std::string name;
    std::string address;
    std::string metrics;
    std::vector<Method> methods;
  };

  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    platform_ = new TestPlatform(
        "monitoring: {access_log: {calls: CALLS_ALL, max_lines_per_second: 10000}}\n");
    platform_->Up();
    // The CA's key can be read once nobody holds the store.
    platform_->Down();
    authority_ = new credentials::StoredAuthority(platform_->data_dir() + "/credentials");
    platform_->Up();
    platform_->MustCapstan({"project", "create", "other"});
    platform_->MustCapstan({"role", "bind", kViewer, "viewer", "--project=default"});
    platform_->MustCapstan({"role", "bind", kStranger, "researcher", "--project=other"});
    ASSERT_EQ(platform_->SubmitText("serve", kServe).exit_code, 0);
    ASSERT_TRUE(platform_->Await(
        [] { return platform_->Get("serve").state() == scheduler::v1::Job::STATE_RUNNING; }));
    const auto endpoints = cli::ReadEndpoints(platform_->data_dir());
    ASSERT_TRUE(endpoints.ok()) << endpoints.status();
    endpoints_ = new cli::v1::Endpoints(*endpoints);
    FindParts();
    // What came just now has reached every part's policy.
    ASSERT_TRUE(platform_->Await([] {
      return CallAs(Person(kViewer), "scheduler", "/capstan.scheduler.v1.JobService/ListJobs",
                    "projects/default")
          .ok();
    }));
  }
  static void TearDownTestSuite() {
    delete endpoints_;
    delete authority_;
    delete platform_;
    platform_ = nullptr;
  }

  void SetUp() override {
    if (platform_ == nullptr) GTEST_SKIP() << *TestPlatform::Unable();
    ASSERT_FALSE(parts_.empty());
  }

  static void FindParts() {
    parts_.clear();
    const auto all = AllMethods();
    const auto identity = Identity(absl::StrCat("/person/", kViewer));
    for (const auto& [name, endpoint] : endpoints_->parts()) {
      if (endpoint.address().empty()) continue;
      Part part{name, endpoint.address(), endpoint.metrics_address(), {}};
      const std::set<std::string> served =
          ServedBy(DialAlone(part.address, CredentialsOf(identity, name)));
      EXPECT_FALSE(served.empty()) << name;
      for (const std::string& service : served) {
        if (IsGrpcsOwn(service)) continue;
        const size_t before = part.methods.size();
        for (const Method& method : all) {
          if (method.service == service) part.methods.push_back(method);
        }
        EXPECT_GT(part.methods.size(), before)
            << name << " serves " << service << ", which is not in the matrix";
      }
      parts_.push_back(std::move(part));
    }
  }

  static std::string Uri(absl::string_view path) {
    return absl::StrCat("spiffe://", authority_->trust_domain(), path);
  }
  static std::shared_ptr<rpc::Identity> Keep(rpc::Svid svid) {
    static int number = 0;
    return rpc::Identity::Store(absl::StrCat(platform_->folder(), "/identity-", ++number),
                                std::move(svid))
        .value();
  }
  static absl::Time Now() { return clock_.Read().wall; }
  // A good one.
  static std::shared_ptr<rpc::Identity> Identity(absl::string_view path) {
    return Keep(authority_->Issue(Uri(path), Now() - absl::Hours(1), Now() + absl::Hours(1)));
  }
  static std::shared_ptr<rpc::Identity> Person(absl::string_view uid) {
    static auto* const kept = new std::map<std::string, std::shared_ptr<rpc::Identity>>();
    auto& identity = (*kept)[std::string(uid)];
    if (identity == nullptr) identity = Identity(absl::StrCat("/person/", uid));
    return identity;
  }
  static std::string PathOf(absl::string_view part) {
    return part == "executor" ? "/executor/local" : absl::StrCat("/svc/", part);
  }
  static std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
      const std::shared_ptr<rpc::Identity>& identity, absl::string_view part) {
    return rpc::MutualTlsChannelCredentials(identity, &clock_, Uri(PathOf(part)));
  }
  static const Part& PartNamed(absl::string_view name) {
    for (const Part& part : parts_) {
      if (part.name == name) return part;
    }
    ADD_FAILURE() << "no part " << name;
    return parts_.front();
  }
  static const Method& MethodAt(absl::string_view path) {
    static const auto* const kAll = new std::vector<Method>(AllMethods());
    for (const Method& method : *kAll) {
      if (method.path == path) return method;
    }
    ADD_FAILURE() << "no method " << path;
    return kAll->front();
  }
  // On a connection of its own.
  static grpc::Status CallAs(const std::shared_ptr<rpc::Identity>& identity, absl::string_view part,
                             absl::string_view path, absl::string_view resource) {
    return RawCall(DialAlone(PartNamed(part).address, CredentialsOf(identity, part)),
                   std::string(path), *RequestOf(MethodAt(path), resource), kPatience);
  }

  // A counter's value on the part's page; -1 if it has none.
  static int64_t Counter(const Part& part, absl::string_view series) {
    const std::string page = HttpGet(absl::StrCat("http://", part.metrics, "/metrics")).body;
    const std::string wanted = absl::StrCat("capstan_", part.name, "_", series, " ");
    for (const absl::string_view line : absl::StrSplit(page, '\n')) {
      double value = -1;
      if (absl::StartsWith(line, wanted) && absl::SimpleAtod(line.substr(wanted.size()), &value)) {
        return static_cast<int64_t>(value);
      }
    }
    return -1;
  }
  static std::string AccessLogOf(const Part& part) {
    std::ifstream in(absl::StrCat(platform_->data_dir(), "/log/", part.name, ".log"));
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static bool IsRefusal(const grpc::Status& status) {
    return status.error_code() == StatusCode::PERMISSION_DENIED ||
           status.error_code() == StatusCode::UNAUTHENTICATED;
  }

  static SystemClock clock_;
  static TestPlatform* platform_;
  static credentials::StoredAuthority* authority_;
  static cli::v1::Endpoints* endpoints_;
  static std::vector<Part> parts_;
};

SystemClock AccessMatrixTest::clock_;
TestPlatform* AccessMatrixTest::platform_ = nullptr;
credentials::StoredAuthority* AccessMatrixTest::authority_ = nullptr;
cli::v1::Endpoints* AccessMatrixTest::endpoints_ = nullptr;
std::vector<AccessMatrixTest::Part> AccessMatrixTest::parts_;

TEST_F(AccessMatrixTest, EveryServiceIsServedAndEveryMethodHasARule) {
  std::set<std::string> served = ServedElsewhere();
  for (const Part& part : parts_) {
    for (const Method& method : part.methods) served.insert(method.service);
  }
  for (const Method& method : AllMethods()) {
    EXPECT_EQ(served.count(method.service), 1u) << method.path << " is served nowhere";
    EXPECT_FALSE(method.rule.callers().empty()) << method.path;
  }
}

// No certificate, or one that is no good, against each method: the handshake ends, no handler sees
// anything, and the part has counted each try.
TEST_F(AccessMatrixTest, BadCertificatesEndInTheHandshake) {
  const rpc::TestAuthority elsewhere("elsewhere.example");
  const rpc::TestAuthority impostor(authority_->trust_domain());
  const auto trusting_us = [&](rpc::Svid svid) {
    svid.bundle = authority_->Issue(Uri("/svc/scheduler"), Now(), Now() + absl::Hours(1)).bundle;
    return Keep(std::move(svid));
  };
  for (const Part& part : parts_) {
    // The caller that the rules would let in farthest.
    const std::string path = "/svc/scheduler";
    const std::vector<std::pair<std::string, std::shared_ptr<grpc::ChannelCredentials>>> shown = {
        {"no certificate", StrangersCredentials()},
        {"plaintext", grpc::InsecureChannelCredentials()},
        {"expired", CredentialsOf(Keep(authority_->Issue(Uri(path), Now() - absl::Hours(2),
                                                         Now() - absl::Seconds(1))),
                                  part.name)},
        {"not yet valid", CredentialsOf(Keep(authority_->Issue(Uri(path), Now() + absl::Minutes(10),
                                                               Now() + absl::Hours(1))),
                                        part.name)},
        {"another trust domain", CredentialsOf(trusting_us(elsewhere.Issue(path)), part.name)},
        {"another authority", CredentialsOf(trusting_us(impostor.Issue(path)), part.name)},
    };
    int number = 0;
    for (const auto& [what, credentials] : shown) {
      const std::string mark = absl::StrCat("badbadbadbad", absl::Hex(++number, absl::kZeroPad4));
      const std::string trace = absl::StrCat(mark, std::string(32 - mark.size(), '0'));
      const int64_t before = Counter(part, "handshakes_refused_total{side=\"server\"}");
      ASSERT_GE(before, 0) << part.name;
      for (const Method& method : part.methods) {
        const grpc::Status status = RawCall(DialAlone(part.address, credentials), method.path,
                                            *RequestOf(method), kPatience, {.trace_id = trace});
        EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE)
            << method.path << " with " << what << ": " << status.error_message();
      }
      // Plaintext is no handshake. The last one's refusal may still be under way.
      const int64_t expected = what == "plaintext" ? 0 : static_cast<int64_t>(part.methods.size());
      EXPECT_TRUE(platform_->Await([&] {
        return Counter(part, "handshakes_refused_total{side=\"server\"}") - before >= expected;
      })) << part.name
          << " with " << what;
      EXPECT_THAT(AccessLogOf(part), ::testing::Not(HasSubstr(mark))) << what;
    }
  }
}
// A name in the field that the rule names, in the project `default`.
std::string NameFor(const Method& method, absl::string_view id) {
  const std::string& field = method.rule.resource_field();
  if (field.empty()) return "";
  if (absl::EndsWith(field, "parent")) return "projects/default";
  if (field == "stream") return absl::StrCat("projects/default/jobs/", id, "/log");
  if (field == "version") return absl::StrCat("projects/default/datasets/", id, "/versions/v1");
  const absl::string_view permission = method.rule.permission();
  if (absl::StartsWith(permission, "projects.")) return "projects/default";
  if (absl::StartsWith(permission, "dataLoads.")) {
    return field == "dataset" ? absl::StrCat("projects/default/datasets/", id)
                              : absl::StrCat("projects/default/datasets/", id, "/loads/l1");
  }
  const absl::string_view kind = permission.substr(0, permission.find('.'));
  return absl::StrCat("projects/default/", kind, "/", id);
}

// Whether the rules let a caller in who names `resource`.
bool Entitled(const Method& method, absl::string_view resource, AccessRule::Caller caller,
              absl::string_view service, RoleBinding::Role role, absl::string_view role_project) {
  if (!method.Admits(caller)) return false;
  // Without a grant.
  if (caller == AccessRule::CALLER_NODE && method.rule.placement()) return false;
  if (caller == AccessRule::CALLER_SERVICE) {
    return std::find(method.rule.services().begin(), method.rule.services().end(), service) !=
           method.rule.services().end();
  }
  if (caller != AccessRule::CALLER_PERSON || method.rule.permission().empty()) return true;
  if (!auth::RoleGives(role, method.rule.permission())) return false;
  const absl::string_view project = auth::ProjectOf(resource);
  if (!project.empty()) return project == role_project;
  return auth::ScopeOf(method.rule.permission()) == auth::PermissionScope::kAnyProject;
}

// Callers with good certificates: the rules decide, and nothing else. Who is refused is told the
// same whether the thing is there or not, and is in the audit log.
TEST_F(AccessMatrixTest, TheRulesDecideWhoComesIn) {
  struct Caller {
    std::string path;
    AccessRule::Caller kind;
    std::string service = "";
    RoleBinding::Role role = RoleBinding::ROLE_UNSPECIFIED;
    std::string project = "";
    // Whether it is tried also where it is let in: not those that could do harm with it.
    bool enters = false;
  };
  std::vector<Caller> callers = {
      {absl::StrCat("/person/", kViewer), AccessRule::CALLER_PERSON, "", RoleBinding::ROLE_VIEWER,
       "default", true},
      {absl::StrCat("/person/", kStranger), AccessRule::CALLER_PERSON, "",
       RoleBinding::ROLE_RESEARCHER, "other", true},
      {absl::StrCat("/person/", kNobody), AccessRule::CALLER_PERSON, "",
       RoleBinding::ROLE_UNSPECIFIED, "", true},
      {"/project/other/sa/default/job/6e0f7d3c-0000-4000-8000-000000000001/gen/1/task/w-0",
       AccessRule::CALLER_TASK, "", RoleBinding::ROLE_UNSPECIFIED, "", true},
      {"/executor/elsewhere", AccessRule::CALLER_EXECUTOR},
      {"/node/elsewhere/n1", AccessRule::CALLER_NODE},
  };
  for (const char* service :
       {"scheduler", "credentials", "data_loader", "cluster_manager", "telemetry", "impostor"}) {
    callers.push_back({absl::StrCat("/svc/", service), AccessRule::CALLER_SERVICE, service});
  }
  int refused = 0;
  int admitted = 0;
  // By part: principal and method.
  std::map<std::string, std::set<std::pair<std::string, std::string>>> expected;
  for (const Caller& caller : callers) {
    const auto identity = Identity(caller.path);
    for (const Part& part : parts_) {
      const auto channel = DialAlone(part.address, CredentialsOf(identity, part.name));
      for (const Method& method : part.methods) {
        SCOPED_TRACE(absl::StrCat(caller.path, " calls ", method.path));
        const std::string absent = NameFor(method, "absent");
        const bool entitled =
            Entitled(method, absent, caller.kind, caller.service, caller.role, caller.project);
        if (entitled && !caller.enters) continue;
        const grpc::Status status = RawCall(channel, method.path, *RequestOf(method, absent),
                                            entitled ? kSilence : kPatience);
        if (entitled) {
          ++admitted;
          EXPECT_FALSE(IsRefusal(status)) << status.error_message();
          continue;
        }
        ++refused;
        expected[part.name].emplace(Uri(caller.path), method.path);
        ASSERT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED) << status.error_message();
        // `serve` is a Job that is there.
        const grpc::Status there =
            RawCall(channel, method.path, *RequestOf(method, NameFor(method, "serve")), kPatience);
        EXPECT_EQ(there.error_code(), StatusCode::PERMISSION_DENIED) << there.error_message();
        EXPECT_EQ(absl::StrReplaceAll(there.error_message(), {{"serve", "absent"}}),
                  status.error_message());
      }
    }
  }
  std::printf("%d refused, each for what is there and for what is not; %d let in\n", refused,
              admitted);
  EXPECT_GT(refused, 600);
  EXPECT_GT(admitted, 30);
  const std::string listed =
      platform_->MustCapstan({"audit", "list", "--limit", "100000", "-o", "json"});
  for (const auto& [principal, act] : expected["credentials"]) {
    EXPECT_TRUE(absl::StrContains(listed, principal)) << principal;
    EXPECT_TRUE(absl::StrContains(listed, act)) << act;
  }
  for (const Part& part : parts_) {
    if (part.name == "credentials") continue;
    std::set<std::pair<std::string, std::string>> recorded;
    const auto chain =
        audit::VerifyFile(absl::StrCat(platform_->data_dir(), "/", part.name, "/audit.chain"),
                          part.name, {}, [&](const event::v1::AuditRecord& record) {
                            if (record.outcome_code() != 0)
                              recorded.emplace(record.principal(), record.act());
                          });
    ASSERT_TRUE(chain.ok()) << part.name << ": " << chain.status();
    EXPECT_THAT(recorded, IsSupersetOf(expected[part.name])) << part.name;
  }
}

// Node agents and executors are let in by kind: that they touch only their own is the handlers'
// part. A Node and an executor of another Cluster, with good certificates, ask for what is not
// theirs.
TEST_F(AccessMatrixTest, NodesAndExecutorsTouchOnlyTheirOwn) {
  const std::string uid = platform_->Get("serve").uid();
  const std::string task = absl::StrCat(
      "job: 'projects/default/jobs/serve' job_uid: '", uid,
      "' generation: 1 group: 'w' service_account: 'projects/default/serviceAccounts/default'");
  const std::string content = absl::StrCat(
      "content { resource: 'projects/default/datasets/d/versions/v1' manifest_digest: 'sha256:",
      std::string(64, '0'), "' holder: 'jobs/", uid, "/1' }");
  // What the handlers find out by the certificate.
  const std::map<std::string, std::string> refused = {
      {"executor.v1.AgentSession/Connect", ""},
      {"credentials.v1.TokenService/IssueTaskJwt", task + " audiences: 'a' subject: SUBJECT_TASK"},
      {"telemetry.v1.TaskSessionService/AttachTaskSession", "attach: 'no-such-session'"},
      {"dataloader.v1.ContentService/ReadManifest", content},
      {"dataloader.v1.ContentService/ReadContent", content},
      {"dataloader.v1.PeerService/FindPeers", content + " address: '127.0.0.1:1'"},
      {"dataloader.v1.PeerService/CheckReader", content + " reader: 'clusters/local/nodes/node-0'"},
      {"dataloader.v1.PeerService/ReadChunkDigests", content + " chunk_count: 1"},
  };
  // About the caller itself, by its certificate.
  const std::set<std::string> own = {
      "scheduler.v1.ExecutorSession/Connect",
      "credentials.v1.IdentityService/RenewSvid",
      "credentials.v1.IdentityService/GetTrustBundle",
      "credentials.v1.TokenService/GetJwtBundle",
      "credentials.v1.PolicyService/WatchPolicy",
      "credentials.v1.AuditHeadService/ReportAuditHead",
      "telemetry.v1.TaskSessionService/WatchTaskSessions",
      "telemetry.v1.ScrapeTargetService/ReportScrapeTarget",
      "dataloader.v1.PeerService/AnnounceCopies",
      "dataloader.v1.DataLoadService/ReleasePins",
      "dataloader.v1.PeerContentService/ReadPeerContent",
  };
  const auto node = Identity("/node/elsewhere/n1");
  for (const Method& method : AllMethods()) {
    if (!method.Admits(AccessRule::CALLER_NODE) && !method.Admits(AccessRule::CALLER_EXECUTOR)) {
      continue;
    }
    const std::string name = method.path.substr(std::string("/capstan.").size());
    const auto row = refused.find(name);
    EXPECT_EQ((row != refused.end()) + own.count(name) + method.rule.placement(), 1u)
        << name << " lets Nodes or executors in and is not in the table";
    if (row == refused.end()) continue;
    const auto request = RequestOf(method);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(row->second, request.get())) << name;
    const auto* field = request->GetDescriptor()->FindFieldByName("certificate_request");
    if (field != nullptr) {
      request->GetReflection()->SetString(
          request.get(), field,
          rpc::MakeCertificateRequest(rpc::PrivateKey::Generate().value()).value());
    }
    for (const Part& part : parts_) {
      const bool serves = std::any_of(part.methods.begin(), part.methods.end(),
                                      [&](const Method& m) { return m.path == method.path; });
      if (!serves) continue;
      const grpc::Status status = RawCall(DialAlone(part.address, CredentialsOf(node, part.name)),
                                          method.path, *request, kPatience);
      EXPECT_TRUE(IsRefusal(status) || status.error_code() == StatusCode::NOT_FOUND)
          << name << ": " << status.error_code() << " " << status.error_message();
    }
  }
}

// What a Node may do for a Task it may do with the scheduler's grant for that Task, on that Node,
// and about what the grant names. Every method whose rule asks for a grant is tried, with a grant
// that is right and with all that are not.
TEST_F(AccessMatrixTest, NodesActForTasksThatWerePlacedOnThem) {
  const std::string uid = platform_->Get("serve").uid();
  const std::string holder = absl::StrCat(uid, "/1");
  const std::string hex(64, 'a');
  type::v1::Placement placed;
  placed.set_trust_domain(authority_->trust_domain());
  placed.set_cluster("elsewhere");
  placed.set_node("n1");
  placed.set_job("projects/default/jobs/serve");
  placed.set_job_uid(uid);
  placed.set_generation(1);
  placed.set_group("w");
  placed.set_service_account("projects/default/serviceAccounts/default");
  placed.set_bundle(absl::StrCat("projects/default/bundles/", hex));
  placed.add_versions(session::VersionDigest("projects/default/datasets/d/versions/ab01"));
  placed.set_output("projects/default/jobs/serve/output");
  *placed.mutable_sign_time() = ToProto(Now());
  const std::string output =
      absl::StrCat("name: 'projects/default/jobs/serve/output' job_uid: '", uid, "' generation: 1");
  const std::string commit = absl::StrCat(output, " checkpoint_step: 1");
  const std::map<std::string, std::string> requests = {
      {"credentials.v1.IdentityService/IssueTaskSvid",
       absl::StrCat("job: 'projects/default/jobs/serve' job_uid: '", uid,
                    "' generation: 1 group: 'w' "
                    "service_account: 'projects/default/serviceAccounts/default'")},
      {"dataloader.v1.BundleService/PinBundle",
       absl::StrCat("name: 'projects/default/bundles/", hex, "' holder: '", holder, "'")},
      {"dataloader.v1.DataLoadService/PinVersion",
       absl::StrCat("version: 'projects/default/datasets/d/versions/ab01' holder: '", holder, "'")},
      {"dataloader.v1.OutputService/OpenOutput", output},
      {"dataloader.v1.OutputService/CommitOutput", commit + " staging_directory: '/nowhere'"},
      {"dataloader.v1.ContentService/UploadOutput", absl::StrCat("header { ", commit, " }")},
      {"telemetry.v1.StreamService/AppendRecords",
       "stream: 'projects/default/jobs/serve/streams/log' "
       "records { key: 'k' kind: 'log' producer: 'p' producer_sequence: 1 }"},
  };
  const auto changed = [&](auto change) {
    type::v1::Placement other = placed;
    change(&other);
    return other;
  };
  const auto svid = [](absl::string_view path, absl::Duration from, absl::Duration until) {
    return authority_->Issue(Uri(path), Now() + from, Now() + until);
  };
  const rpc::Svid scheduler = svid("/svc/scheduler", -absl::Hours(1), absl::Hours(1));
  const rpc::Svid stale = svid("/svc/scheduler", -absl::Hours(2), -absl::Hours(1));
  const rpc::Svid loader = svid("/svc/data_loader", -absl::Hours(1), absl::Hours(1));
  const std::string right = auth::TestGrant(scheduler, placed);
  std::string flipped = right;
  flipped[flipped.size() / 2] ^= 1;
  const auto another_job = changed([](auto* p) {
    p->set_job("projects/default/jobs/else");
    p->set_job_uid("6e0f7d3c-0000-4000-8000-000000000001");
    p->clear_bundle();
    p->clear_versions();
    p->clear_output();
  });
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"no grant", ""},
      {"nonsense", "grant"},
      {"a changed one", flipped},
      {"another service's", auth::TestGrant(loader, placed)},
      {"one of a certificate that had expired", auth::TestGrant(stale, placed)},
      {"another trust domain's",
       auth::TestGrant(rpc::TestAuthority().Issue("/svc/scheduler"), placed)},
      {"another Node's", auth::TestGrant(scheduler, changed([](auto* p) { p->set_node("n2"); }))},
      {"another Cluster's",
       auth::TestGrant(scheduler, changed([](auto* p) { p->set_cluster("local"); }))},
      {"another Job's", auth::TestGrant(scheduler, another_job)},
  };
  const auto node = Identity("/node/elsewhere/n1");
  size_t seen = 0;
  for (const Part& part : parts_) {
    const auto channel = DialAlone(part.address, CredentialsOf(node, part.name));
    for (const Method& method : part.methods) {
      if (!method.rule.placement()) continue;
      ++seen;
      const auto row = requests.find(method.path.substr(std::string("/capstan.").size()));
      ASSERT_NE(row, requests.end()) << method.path << " has no request here";
      const auto request = RequestOf(method);
      ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(row->second, request.get()));
      if (const auto* field = request->GetDescriptor()->FindFieldByName("certificate_request")) {
        request->GetReflection()->SetString(
            request.get(), field,
            rpc::MakeCertificateRequest(rpc::PrivateKey::Generate().value()).value());
      }
      for (const auto& [what, grant] : wrong) {
        const grpc::Status status =
            RawCall(channel, method.path, *request, kPatience, {.grant = grant});
        EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED)
            << method.path << " with " << what << ": " << status.error_message();
        EXPECT_EQ(status::Reason(rpc::FromGrpcStatus(status)), "NO_PLACEMENT") << method.path;
      }
      const grpc::Status status =
          RawCall(channel, method.path, *request, kPatience, {.grant = right});
      EXPECT_NE(status::Reason(rpc::FromGrpcStatus(status)), "NO_PLACEMENT")
          << method.path << ": " << status.error_message();
    }
  }
  EXPECT_EQ(seen, requests.size());
}

// A Project that is not there, named in each method that acts in one: whoever may see it is told,
// and nobody else can tell it from one that is there.
TEST_F(AccessMatrixTest, AProjectThatIsNotThereIsNamedToThoseWhoMaySeeItAlone) {
  int asked = 0;
  for (const Part& part : parts_) {
    // Who ran `dev up` is admin.
    const auto admins = DialAlone(part.address, CredentialsOf(Person("0"), part.name));
    const auto viewers = DialAlone(part.address, CredentialsOf(Person(kViewer), part.name));
    for (const Method& method : part.methods) {
      if (!method.Admits(AccessRule::CALLER_PERSON) || method.rule.permission().empty() ||
          method.rule.resource_field().empty()) {
        continue;
      }
      SCOPED_TRACE(method.path);
      ++asked;
      const auto name_in = [&](absl::string_view project) {
        return absl::StrReplaceAll(NameFor(method, "serve"), {{"projects/default", project}});
      };
      const auto call = [&](const std::shared_ptr<grpc::Channel>& channel,
                            absl::string_view project) {
        return RawCall(channel, method.path, *RequestOf(method, name_in(project)), kPatience);
      };
      const grpc::Status told = call(admins, "projects/nowhere");
      EXPECT_EQ(told.error_code(), StatusCode::NOT_FOUND) << told.error_message();
      EXPECT_EQ(status::Reason(rpc::FromGrpcStatus(told)), "PROJECT_NOT_FOUND");
      const grpc::Status missing = call(viewers, "projects/nowhere");
      const grpc::Status forbidden = call(viewers, "projects/other");
      EXPECT_EQ(missing.error_code(), StatusCode::PERMISSION_DENIED) << missing.error_message();
      EXPECT_EQ(forbidden.error_code(), StatusCode::PERMISSION_DENIED);
      EXPECT_EQ(absl::StrReplaceAll(missing.error_message(), {{"nowhere", "other"}}),
                forbidden.error_message());
    }
  }
  EXPECT_GT(asked, 20);
}

// A person who is denied is refused at once: on open connections, on new ones, and in streams that
// are open. Let in again, they come in.
TEST_F(AccessMatrixTest, WhoIsDeniedIsOut) {
  platform_->MustCapstan({"role", "bind", "4003", "viewer", "--project=default"});
  const auto identity = Identity("/person/4003");
  const auto open = DialAlone(PartNamed("scheduler").address, CredentialsOf(identity, "scheduler"));
  const std::string list = "/capstan.scheduler.v1.JobService/ListJobs";
  const auto call = [&](const std::shared_ptr<grpc::Channel>& channel) {
    return RawCall(channel, list, *RequestOf(MethodAt(list), "projects/default"), kPatience);
  };
  ASSERT_TRUE(platform_->Await([&] { return call(open).ok(); }));
  platform_->MustCapstan({"access", "deny", "/person/4003", "--reason", "left"});
  EXPECT_TRUE(
      platform_->Await([&] { return call(open).error_code() == StatusCode::PERMISSION_DENIED; }));
  for (const Part& part : parts_) {
    const auto fresh = DialAlone(part.address, CredentialsOf(identity, part.name));
    for (const Method& method : part.methods) {
      if (!method.Admits(AccessRule::CALLER_PERSON)) continue;
      const auto denied = [&] {
        const grpc::Status status =
            RawCall(fresh, method.path, *RequestOf(method, NameFor(method, "serve")), kPatience);
        return status.error_code() == StatusCode::PERMISSION_DENIED &&
               absl::StrContains(status.error_message(), "denied by an admin");
      };
      EXPECT_TRUE(platform_->Await(denied)) << method.path;
    }
  }
  platform_->MustCapstan({"access", "allow", "/person/4003", "--reason", "back"});
  EXPECT_TRUE(platform_->Await([&] { return call(open).ok(); }));
}

// The joining port shows its own certificate and asks for none: one method, one token, one time.
TEST_F(AccessMatrixTest, TheJoiningPortServesJoiningAlone) {
  const std::string address = endpoints_->join_address();
  const auto channel = DialAlone(address, StrangersCredentials());
  for (const Method& method : AllMethods()) {
    const grpc::Status status =
        RawCall(channel, method.path, *RequestOf(method, NameFor(method, "serve")), kPatience);
    if (method.service == "capstan.credentials.v1.JoinService") {
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    } else {
      EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED) << method.path;
    }
  }
  const std::string printed =
      platform_->MustCapstan({"access", "join-token", "/node/local/n-7", "-o", "json"});
  const size_t at = printed.find("\"token\": \"");
  ASSERT_NE(at, std::string::npos) << printed;
  const size_t begin = at + std::string("\"token\": \"").size();
  credentials::v1::JoinRequest request;
  request.set_token(printed.substr(begin, printed.find('"', begin) - begin));
  request.set_certificate_request(
      rpc::MakeCertificateRequest(rpc::PrivateKey::Generate().value()).value());
  const std::string join = "/capstan.credentials.v1.JoinService/Join";
  EXPECT_TRUE(RawCall(channel, join, request, kPatience).ok());
  // Again with another key.
  request.set_certificate_request(
      rpc::MakeCertificateRequest(rpc::PrivateKey::Generate().value()).value());
  const grpc::Status again = RawCall(channel, join, request, kPatience);
  EXPECT_TRUE(IsRefusal(again)) << again.error_code() << ": " << again.error_message();
  // One that never was is told the same.
  std::string& token = *request.mutable_token();
  token.back() = token.back() == 'a' ? 'b' : 'a';
  const grpc::Status unknown = RawCall(channel, join, request, kPatience);
  EXPECT_TRUE(IsRefusal(unknown)) << unknown.error_code() << ": " << unknown.error_message();
}

// Monitoring is read without a certificate, from this machine alone: three pages that say nothing
// of anyone's, and no way to change anything.
TEST_F(AccessMatrixTest, HttpServesItsPagesAndNothingElse) {
  for (const auto& [name, endpoint] : endpoints_->parts()) {
    ASSERT_TRUE(absl::StartsWith(endpoint.metrics_address(), "127.0.0.1:")) << name;
    const std::string base = absl::StrCat("http://", endpoint.metrics_address());
    for (const char* path : {"/metrics", "/healthz", "/readyz"}) {
      EXPECT_EQ(HttpGet(base + path).status, 200) << name << path;
      for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}) {
        const long status = HttpRequest(method, base + path, "x=1").status;
        EXPECT_TRUE(status == 0 || (status >= 400 && status < 600))
            << name << " " << method << " " << path << ": " << status;
      }
    }
    for (const char* path :
         {"/", "/config", "/debug", "/metrics/", "/metrics/../healthz", "/%2e%2e/config.yaml",
          "//metrics", "/audit.chain", "/identity/svid.pem", "/v1/jobs", "/healthz%00"}) {
      EXPECT_EQ(HttpGet(base + path).status, 404) << name << path;
    }
    EXPECT_THAT(HttpGet(base + "/metrics").body,
                ::testing::AllOf(::testing::Not(HasSubstr("PRIVATE KEY")),
                                 ::testing::Not(HasSubstr("jobs/serve")),
                                 ::testing::Not(HasSubstr("/person/"))))
        << name;
  }
}

}  // namespace
}  // namespace capstan::integration
