// Every method of every service against every kind of caller, over real mTLS on a real platform.
// What is expected comes from the rules in the descriptors, so that a new method is in the matrix
// by itself, and a server that serves what has no rule is found.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/access/access_fixture.h"
#include "integration/access/method_catalog.h"
#include "integration/access/raw_call.h"
#include "integration/monitoring/http_request.h"
#include "libs/audit/audit_file.h"
#include "libs/auth/access_rules.h"
#include "libs/auth/roles.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"

namespace capstan::integration {
namespace {

using credentials::v1::RoleBinding;
using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using type::v1::AccessRule;

using AccessMatrixTest = AccessFixture;

// For a stream that is let in and has nothing to say.
constexpr absl::Duration kSilence = absl::Seconds(1);

// No one's role.
constexpr char kNobody[] = "4004";

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

TEST_F(AccessMatrixTest, EveryServiceIsServedAndEveryMethodHasARule) {
  std::set<std::string> served = ServedElsewhere();
  for (const Part& part : parts()) {
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
  for (const Part& part : parts()) {
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
    for (const Part& part : parts()) {
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
  for (const Part& part : parts()) {
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
// A Project that is not there, named in each method that acts in one: whoever may see it is told,
// and nobody else can tell it from one that is there.
TEST_F(AccessMatrixTest, AProjectThatIsNotThereIsNamedToThoseWhoMaySeeItAlone) {
  int asked = 0;
  for (const Part& part : parts()) {
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
  for (const Part& part : parts()) {
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
