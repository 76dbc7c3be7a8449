// Every method of every service against every kind of caller, over real mTLS on a real platform.
// What is expected comes from the rules in the descriptors, so that a new method is in the matrix
// by itself, and a server that serves what has no rule is found.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "integration/access/access_fixture.h"
#include "integration/access/method_catalog.h"
#include "integration/access/named_things.h"
#include "integration/access/raw_call.h"
#include "integration/monitoring/http_request.h"
#include "integration/platform/command.h"
#include "libs/audit/audit_file.h"
#include "libs/auth/access_rules.h"
#include "libs/auth/roles.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/testing/test_authority.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "proto/capstan/credentials/v1/audit_service.pb.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"
#include "proto/capstan/event/v1/audit.pb.h"
#include "proto/capstan/telemetry/v1/archive.pb.h"
#include "proto/capstan/type/v1/access.pb.h"
#include "tools/capstan/cli/exit_code.h"

namespace capstan::integration {
namespace {

using credentials::v1::RoleBinding;
using grpc::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using type::v1::AccessRule;

constexpr char kRefused[] = "handshakes_refused_total{side=\"server\"}";

// A Job that is over at once, for the archive.
constexpr char kOver[] =
    "job_id: over\n"
    "spec:\n"
    "  task_groups:\n"
    "    - name: w\n"
    "      replicas: 1\n"
    "      argv: [/bin/true]\n"
    "      resources: {cpu: 10m, memory: 32Mi}\n";

// For a stream that is let in and has nothing to say.
constexpr absl::Duration kSilence = absl::Seconds(1);
// For what is to be ended by something else.
constexpr absl::Duration kOpen = absl::Minutes(2);

// No one's role; who is denied from the beginning; who is denied and let in again.
constexpr char kNobody[] = "4004";
constexpr char kDenied[] = "4005";
constexpr char kLeaver[] = "4003";

// With one thing of every kind that requests name.
class AccessMatrixTest : public AccessFixture {
 protected:
  static void SetUpTestSuite() {
    AccessFixture::SetUpTestSuite();
    if (platform_ != nullptr) MakeThings();
  }
  static void TearDownTestSuite() {
    delete things_;
    things_ = nullptr;
    AccessFixture::TearDownTestSuite();
  }

  static void MakeThings();
  // By who ran `dev up`, who is admin.
  template <typename Answer>
  static Answer AdminsAnswer(absl::string_view part, absl::string_view method,
                             const google::protobuf::Message& request) {
    Answer answer;
    const grpc::Status status =
        RawAnswer(DialAlone(PartNamed(part).address, CredentialsOf(Person("0"), part)),
                  absl::StrCat("/capstan.", method), request, kPatience, &answer);
    EXPECT_TRUE(status.ok()) << method << ": " << status.error_message();
    return answer;
  }
  // All that the part has in its audit log.
  static std::vector<event::v1::AuditRecord> RecordsOf(const Part& part);
  // The refused handshakes among them, those included that a record only counts.
  static int64_t HandshakesAudited(const Part& part) {
    int64_t count = 0;
    for (const event::v1::AuditRecord& record : RecordsOf(part)) {
      if (record.act() == "handshake") count += std::max<int64_t>(record.repeats(), 1);
    }
    return count;
  }

  static std::string TokenFor(const std::string& path) {
    return std::string(absl::StripAsciiWhitespace(
        platform_->MustCapstan({"access", "join-token", path, "-o", "jsonpath={.token}"})));
  }

  static NamedThings* things_;
};

NamedThings* AccessMatrixTest::things_ = nullptr;

void AccessMatrixTest::MakeThings() {
  things_ = new NamedThings();
  things_->Set("chain", "scheduler");
  things_->Set("cluster", "local");
  things_->Set("job", "serve");
  things_->Set("node", "node-0");
  things_->Set("project", "default");
  things_->Set("uid", platform_->Get("serve").uid());

  // Before there is a window that Jobs without an end would run into.
  ASSERT_EQ(platform_->SubmitText("over", kOver).exit_code, 0);
  platform_->MustSucceed("over");
  telemetry::v1::GetArchivedJobRequest archived;
  archived.set_name("projects/default/jobs/over");
  const std::string get = "/capstan.telemetry.v1.ArchiveService/GetArchivedJob";
  ASSERT_TRUE(platform_->Await(
      [&] { return CallAs(Person("0"), "telemetry", get, archived.name()).ok(); }));
  things_->Set("archived", "over");

  const std::string source = absl::StrCat(platform_->data_dir(), "/buckets/corpus");
  std::filesystem::create_directories(source);
  std::ofstream(source + "/part-0") << "once upon a time";
  platform_->MustCapstan({"dataset", "create", "corpus", "--source", source});
  platform_->MustCapstan({"load", "start", "corpus", "--watch"});
  things_->Set("dataset", "corpus");
  dataloader::v1::ListDataLoadsRequest loads;
  loads.set_parent("projects/default");
  const auto loaded = AdminsAnswer<dataloader::v1::ListDataLoadsResponse>(
      "data_loader", "dataloader.v1.DataLoadService/ListDataLoads", loads);
  ASSERT_EQ(loaded.data_loads_size(), 1);
  const auto last_of = [](absl::string_view name, absl::string_view prefix) {
    EXPECT_TRUE(absl::ConsumePrefix(&name, prefix)) << name;
    return std::string(name);
  };
  things_->Set("load", last_of(loaded.data_loads(0).name(), "projects/default/dataLoads/"));
  things_->Set("version", last_of(loaded.data_loads(0).version(), "projects/default/datasets/"));

  const std::string digest =
      platform_->MustCapstan({"bundle", "upload", source, "-o", "jsonpath={.digest}"});
  things_->Set("bundle", last_of(absl::StripAsciiWhitespace(digest), "sha256:"));

  platform_->MustCapstan({"subscription", "create", "nightly", "serve/events"});
  things_->Set("subscription", "nightly");
  platform_->MustCapstan({"queue", "create", "research"});
  things_->Set("queue", "research");
  platform_->MustCapstan(
      {"node", "order", "create", "more", "--nodes", "1", "--job", "serve", "--expires-in", "4h"});
  things_->Set("order", "more");
  platform_->MustCapstan({"node", "maintenance", "create", "disks", "--node", "node-0", "--start",
                          "100h", "--for", "1h"});
  things_->Set("window", "disks");
  platform_->MustCapstan(
      {"access", "deny", absl::StrCat("/person/", kDenied), "--reason", "to have one"});
  things_->Set("denied", kDenied);
  credentials::v1::ListRoleBindingsRequest bindings;
  bindings.set_parent("projects/default");
  const auto bound = AdminsAnswer<credentials::v1::ListRoleBindingsResponse>(
      "credentials", "credentials.v1.ProjectService/ListRoleBindings", bindings);
  ASSERT_GT(bound.role_bindings_size(), 0);
  things_->Set("binding", last_of(bound.role_bindings(0).name(), "projects/default/roleBindings/"));
}

std::vector<event::v1::AuditRecord> AccessMatrixTest::RecordsOf(const Part& part) {
  std::vector<event::v1::AuditRecord> records;
  if (part.name != "credentials") {
    const auto chain = audit::VerifyFile(
        absl::StrCat(platform_->data_dir(), "/", part.name, "/audit.chain"), part.name, {},
        [&](const event::v1::AuditRecord& record) { records.push_back(record); });
    EXPECT_TRUE(chain.ok()) << part.name << ": " << chain.status();
    return records;
  }
  credentials::v1::ListAuditRecordsRequest request;
  request.set_page_size(1000);
  do {
    const auto page = AdminsAnswer<credentials::v1::ListAuditRecordsResponse>(
        "credentials", "credentials.v1.AuditService/ListAuditRecords", request);
    for (const std::string& bytes : page.records()) {
      EXPECT_TRUE(records.emplace_back().ParseFromString(bytes));
    }
    request.set_start_sequence(page.next_sequence());
  } while (request.start_sequence() != 0);
  return records;
}

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
// anything, and the part has counted each try and put it in its audit log.
TEST_F(AccessMatrixTest, BadCertificatesEndInTheHandshake) {
  const rpc::TestAuthority elsewhere("elsewhere.example");
  const rpc::TestAuthority impostor(authority_->trust_domain());
  const auto trusting_us = [&](rpc::Svid svid) {
    svid.bundle = authority_->Issue(Uri("/svc/scheduler"), Now(), Now() + absl::Hours(1)).bundle;
    return Keep(std::move(svid));
  };
  // By part, before the first try.
  std::map<std::string, std::pair<int64_t, int64_t>> begun;
  for (const Part& part : parts()) {
    begun[part.name] = {Counter(part, kRefused), HandshakesAudited(part)};
    ASSERT_GE(begun[part.name].first, 0) << part.name;
    // What is not looked for in vain below: a call of one who gets in.
    const std::string seen(32, '5');
    const Method& first = part.methods.front();
    RawCall(DialAlone(part.address, CredentialsOf(Person(kViewer), part.name)), first.path,
            *NamedThings::Absent(first), kSilence, {.trace_id = seen});
    EXPECT_TRUE(platform_->Await([&] { return absl::StrContains(AccessLogOf(part), seen); }))
        << part.name << " logs no call by its trace";
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
      const int64_t before = Counter(part, kRefused);
      ASSERT_GE(before, 0) << part.name;
      for (const Method& method : part.methods) {
        const grpc::Status status = RawCall(DialAlone(part.address, credentials), method.path,
                                            *RequestOf(method), kPatience, {.trace_id = trace});
        EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE)
            << method.path << " with " << what << ": " << status.error_message();
      }
      // Plaintext is no handshake. The last one's refusal may still be under way.
      const int64_t expected = what == "plaintext" ? 0 : static_cast<int64_t>(part.methods.size());
      EXPECT_TRUE(platform_->Await([&] { return Counter(part, kRefused) - before >= expected; }))
          << part.name << " with " << what;
      EXPECT_THAT(AccessLogOf(part), ::testing::Not(HasSubstr(mark))) << what;
    }
    // The first of them at once.
    EXPECT_TRUE(platform_->Await([&] { return HandshakesAudited(part) > begun[part.name].second; },
                                 absl::Seconds(10)))
        << part.name;
  }
  // The repeats of a minute are one record: not only the first is told, and none is lost when a
  // part ends before the minute is over.
  std::map<std::string, int64_t> refused;
  for (const Part& part : parts()) {
    refused[part.name] = Counter(part, kRefused) - begun[part.name].first;
    EXPECT_GE(refused[part.name], static_cast<int64_t>(5 * part.methods.size())) << part.name;
  }
  platform_->Down({"--keep-tasks"});
  platform_->Up();
  for (const Part& part : parts()) {
    EXPECT_TRUE(platform_->Await([&] {
      return HandshakesAudited(part) - begun[part.name].second >= refused[part.name];
    })) << part.name
        << " has refused " << refused[part.name];
  }
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
  int compared = 0;
  int admitted = 0;
  // By part: principal and method.
  std::map<std::string, std::set<std::pair<std::string, std::string>>> expected;
  for (const Caller& caller : callers) {
    const auto identity = Identity(caller.path);
    for (const Part& part : parts()) {
      const auto channel = DialAlone(part.address, CredentialsOf(identity, part.name));
      for (const Method& method : part.methods) {
        SCOPED_TRACE(absl::StrCat(caller.path, " calls ", method.path));
        const auto there = things_->There(method);
        const auto absent = NamedThings::Absent(method);
        const std::string& field = method.rule.resource_field();
        const std::string named = auth::ResourceOf(*there, field);
        const bool entitled =
            Entitled(method, named, caller.kind, caller.service, caller.role, caller.project);
        if (entitled && !caller.enters) continue;
        if (entitled) {
          ++admitted;
          // Where a Project is named, the right is one in that Project.
          const bool in_it = NamedThings::KindIn(method) == "project";
          const grpc::Status status =
              RawCall(channel, method.path, in_it ? *there : *absent, kSilence);
          EXPECT_FALSE(IsRefusal(status)) << status.error_message();
          continue;
        }
        ++refused;
        expected[part.name].emplace(Uri(caller.path), method.path);
        const grpc::Status missing = RawCall(channel, method.path, *absent, kPatience);
        ASSERT_EQ(missing.error_code(), StatusCode::PERMISSION_DENIED) << missing.error_message();
        if (NamedThings::KindIn(method).empty()) continue;
        ++compared;
        const grpc::Status found = RawCall(channel, method.path, *there, kPatience);
        EXPECT_EQ(found.error_code(), StatusCode::PERMISSION_DENIED) << found.error_message();
        EXPECT_EQ(named.empty() ? found.error_message()
                                : absl::StrReplaceAll(found.error_message(),
                                                      {{named, auth::ResourceOf(*absent, field)}}),
                  missing.error_message());
        EXPECT_EQ(status::Reason(rpc::FromGrpcStatus(found)),
                  status::Reason(rpc::FromGrpcStatus(missing)));
      }
    }
  }
  std::printf("%d refused, %d of them for what is there and for what is not; %d let in\n", refused,
              compared, admitted);
  EXPECT_GT(refused, 600);
  EXPECT_GT(compared, 500);
  EXPECT_GT(admitted, 30);
  for (const Part& part : parts()) {
    std::set<std::pair<std::string, std::string>> recorded;
    for (const event::v1::AuditRecord& record : RecordsOf(part)) {
      if (record.outcome_code() != 0) recorded.emplace(record.principal(), record.act());
    }
    EXPECT_THAT(recorded, IsSupersetOf(expected[part.name])) << part.name;
  }
}

// What the test above takes to be there is, and what it takes not to be is not: whoever may see it
// is told.
TEST_F(AccessMatrixTest, WhatIsThereIsFoundByWhoMaySeeIt) {
  std::set<std::string> kinds;
  for (const Part& part : parts()) {
    const auto channel = DialAlone(part.address, CredentialsOf(Person("0"), part.name));
    for (const Method& method : part.methods) {
      if (!absl::StartsWith(method.descriptor->name(), "Get")) continue;
      if (!method.Admits(AccessRule::CALLER_PERSON)) continue;
      const std::string kind = NamedThings::KindIn(method);
      if (kind.empty()) continue;
      kinds.insert(kind);
      const grpc::Status found = RawCall(channel, method.path, *things_->There(method), kPatience);
      EXPECT_TRUE(found.ok()) << method.path << ": " << found.error_message();
      const grpc::Status missing =
          RawCall(channel, method.path, *NamedThings::Absent(method), kPatience);
      EXPECT_EQ(missing.error_code(), StatusCode::NOT_FOUND)
          << method.path << ": " << missing.error_message();
    }
  }
  EXPECT_THAT(kinds, IsSupersetOf({"archived", "bundle", "cluster", "dataset", "job", "load",
                                   "node", "order", "project", "queue", "subscription", "window"}));
}

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
        return absl::StrReplaceAll(
            auth::ResourceOf(*things_->There(method), method.rule.resource_field()),
            {{"projects/default", project}});
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

// Whoever is denied, of each kind that there is, by id or by the certificate's serial, is refused
// at once: on open connections, on new ones, by every method that lets the kind in, and in streams
// that are open. Let in again, they come in.
TEST_F(AccessMatrixTest, WhoIsDeniedIsOut) {
  platform_->MustCapstan({"role", "bind", kLeaver, "researcher", "--project=default"});
  struct Denied {
    std::shared_ptr<rpc::Identity> identity;
    std::vector<std::string> how;
  };
  // By kind, and a service by its name.
  std::map<std::pair<AccessRule::Caller, std::string>, Denied> denied;
  const auto add_id = [&](AccessRule::Caller kind, const std::string& path) {
    denied[{kind, ""}] = {Identity(path), {path}};
  };
  add_id(AccessRule::CALLER_PERSON, absl::StrCat("/person/", kLeaver));
  add_id(AccessRule::CALLER_EXECUTOR, "/executor/elsewhere");
  add_id(AccessRule::CALLER_NODE, "/node/local/n-9");
  add_id(AccessRule::CALLER_TASK,
         "/project/default/sa/default/job/6e0f7d3c-0000-4000-8000-000000000002/gen/1/task/w-0");
  for (const char* service :
       {"scheduler", "credentials", "data_loader", "cluster_manager", "telemetry"}) {
    // Not by id: the platform's own has the same.
    Denied& entry = denied[{AccessRule::CALLER_SERVICE, service}];
    entry.identity = Identity(absl::StrCat("/svc/", service));
    entry.how = {"--serial", entry.identity->Get()->serial};
  }
  const auto dial = [&](const Part& part, AccessRule::Caller kind, const std::string& service) {
    return DialAlone(part.address, CredentialsOf(denied.at({kind, service}).identity, part.name));
  };
  const auto is_denied = [](const grpc::Status& status) {
    return status.error_code() == StatusCode::PERMISSION_DENIED &&
           absl::StrContains(status.error_message(), "denied by an admin");
  };

  const auto open = dial(PartNamed("scheduler"), AccessRule::CALLER_PERSON, "");
  const std::string list = "/capstan.scheduler.v1.JobService/ListJobs";
  const auto call = [&](const std::shared_ptr<grpc::Channel>& channel) {
    return RawCall(channel, list, *RequestOf(MethodAt(list), "projects/default"), kPatience);
  };
  ASSERT_TRUE(platform_->Await([&] { return call(open).ok(); }));

  // A stream or more at each server that has any; what it is asked for keeps it open.
  struct Stream {
    const char* part;
    const char* method;
    AccessRule::Caller kind;
    const char* service;
    const char* request;
  };
  const Stream streams[] = {
      {"scheduler", "scheduler.v1.JobService/WatchJobs", AccessRule::CALLER_PERSON, "",
       "parent: 'projects/default'"},
      {"scheduler", "scheduler.v1.NodeService/WatchDemand", AccessRule::CALLER_SERVICE,
       "cluster_manager", "parent: 'clusters/-'"},
      {"credentials", "credentials.v1.PolicyService/WatchPolicy", AccessRule::CALLER_EXECUTOR, "",
       ""},
      {"executor", "executor.v1.AgentSession/Connect", AccessRule::CALLER_NODE, "",
       "hello { cluster: 'local' node: 'n-9' incarnation: 1 boot_id: 'b' }"},
      {"telemetry", "telemetry.v1.StreamService/ReadRecords", AccessRule::CALLER_PERSON, "",
       "stream: 'projects/default/jobs/serve/streams/events' follow: true"},
      {"data_loader", "dataloader.v1.BundleService/UploadBundle", AccessRule::CALLER_PERSON, "",
       "header { parent: 'projects/default' manifest { files { path: 'f' size_bytes: 67108864 "
       "sha256: '01234567890123456789012345678901' } } }"},
  };
  std::set<std::string> with_streams;
  for (const Part& part : parts()) {
    for (const Method& method : part.methods) {
      if (method.descriptor->client_streaming() || method.descriptor->server_streaming()) {
        with_streams.insert(part.name);
      }
    }
  }
  std::vector<std::unique_ptr<OpenCall>> calls;
  for (const Stream& stream : streams) {
    with_streams.erase(stream.part);
    const Method& method = MethodAt(absl::StrCat("/capstan.", stream.method));
    const auto request = RequestOf(method);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(stream.request, request.get()));
    calls.push_back(std::make_unique<OpenCall>(
        dial(PartNamed(stream.part), stream.kind, stream.service), method.path, kOpen));
    ASSERT_TRUE(calls.back()->Send(*request, !method.descriptor->client_streaming()));
    // It is open: the server has answered, or has taken more than a connection holds by itself.
    if (method.descriptor->server_streaming()) {
      EXPECT_TRUE(calls.back()->Receive()) << stream.method;
      continue;
    }
    dataloader::v1::UploadBundleRequest chunk;
    chunk.set_chunk(std::string(1 << 20, 'x'));
    for (int i = 0; i < 16; ++i) EXPECT_TRUE(calls.back()->Send(chunk, false)) << stream.method;
  }
  EXPECT_TRUE(with_streams.empty()) << *with_streams.begin() << " has streams; none is tried";
  // One of somebody else.
  OpenCall stays(
      DialAlone(PartNamed("scheduler").address, CredentialsOf(Person(kViewer), "scheduler")),
      "/capstan.scheduler.v1.JobService/WatchJobs", kOpen);
  ASSERT_TRUE(stays.Send(
      *RequestOf(MethodAt("/capstan.scheduler.v1.JobService/WatchJobs"), "projects/default"),
      true));
  ASSERT_TRUE(stays.Receive());

  const auto change = [&](const char* verb) {
    for (const auto& [kind, entry] : denied) {
      std::vector<std::string> words = {"access", verb};
      words.insert(words.end(), entry.how.begin(), entry.how.end());
      words.insert(words.end(), {"--reason", "left"});
      platform_->MustCapstan(words);
    }
  };
  change("deny");
  for (size_t i = 0; i < calls.size(); ++i) {
    const grpc::Status end = calls[i]->AwaitEnd();
    EXPECT_TRUE(is_denied(end)) << streams[i].method << " ended with " << end.error_code() << " "
                                << end.error_message();
  }
  stays.Cancel();
  EXPECT_EQ(stays.AwaitEnd().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(platform_->Await([&] { return is_denied(call(open)); }));

  int tried = 0;
  std::set<std::pair<AccessRule::Caller, std::string>> callers;
  for (const Part& part : parts()) {
    for (const Method& method : part.methods) {
      for (const int kind : method.rule.callers()) {
        const auto caller = static_cast<AccessRule::Caller>(kind);
        std::vector<std::string> services = {""};
        if (caller == AccessRule::CALLER_SERVICE) {
          services.assign(method.rule.services().begin(), method.rule.services().end());
        }
        for (const std::string& service : services) {
          ++tried;
          callers.insert({caller, service});
          const auto fresh = dial(part, caller, service);
          EXPECT_TRUE(platform_->Await([&] {
            return is_denied(RawCall(fresh, method.path, *NamedThings::Absent(method), kPatience));
          })) << method.path
              << " lets in who is denied: " << denied.at({caller, service}).identity->spiffe_id();
        }
      }
    }
  }
  std::printf("%d calls of who is denied\n", tried);
  EXPECT_GT(tried, 120);
  EXPECT_EQ(callers.size(), denied.size());
  change("allow");
  EXPECT_TRUE(platform_->Await([&] { return call(open).ok(); }));
  const std::string bundle = "/capstan.credentials.v1.IdentityService/GetTrustBundle";
  for (const auto& [kind, entry] : denied) {
    const std::shared_ptr<rpc::Identity> back = entry.identity;
    EXPECT_TRUE(platform_->Await([&] { return CallAs(back, "credentials", bundle, "").ok(); }))
        << back->spiffe_id();
  }
}

// The joining port shows its own certificate and asks for none: one method, one token, one time.
TEST_F(AccessMatrixTest, TheJoiningPortServesJoiningAlone) {
  const std::string address = endpoints_->join_address();
  const auto channel = DialAlone(address, StrangersCredentials());
  for (const Method& method : AllMethods()) {
    const grpc::Status status = RawCall(channel, method.path, *things_->There(method), kPatience);
    if (method.service == "capstan.credentials.v1.JoinService") {
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    } else {
      EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED) << method.path;
    }
  }
  credentials::v1::JoinRequest request;
  request.set_token(TokenFor("/node/local/n-7"));
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
  // So is whoever was denied after the token was made.
  request.set_token(TokenFor("/node/local/n-8"));
  platform_->MustCapstan({"access", "deny", "/node/local/n-8", "--reason", "left"});
  const grpc::Status denied = RawCall(channel, join, request, kPatience);
  EXPECT_EQ(denied.error_code(), unknown.error_code());
  EXPECT_EQ(denied.error_message(), unknown.error_message());
  platform_->MustCapstan({"access", "allow", "/node/local/n-8", "--reason", "back"});
  EXPECT_TRUE(RawCall(channel, join, request, kPatience).ok());
}

// Pages that are read without a certificate: `pages` answer and can't be changed, nothing else is
// there, and none of them says anything of anyone's.
void ExpectOnly(const std::string& base, const std::vector<std::string>& pages,
                const std::string& roots = "") {
  for (const std::string& path : pages) {
    const HttpAnswer page = HttpGet(base + path, roots);
    EXPECT_EQ(page.status, 200) << base << path;
    EXPECT_NE(page.body, "") << base << path;
    EXPECT_THAT(page.body,
                AllOf(::testing::Not(HasSubstr("PRIVATE KEY")),
                      // The private part of a JSON Web Key.
                      ::testing::Not(HasSubstr("\"d\"")), ::testing::Not(HasSubstr("jobs/serve")),
                      ::testing::Not(HasSubstr("/person/"))))
        << base << path;
    for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}) {
      const long status = HttpRequest(method, base + path, "x=1", roots).status;
      EXPECT_TRUE(status == 0 || (status >= 400 && status < 600))
          << base << " " << method << " " << path << ": " << status;
    }
    EXPECT_EQ(HttpGet(base + path, roots).status, 200) << base << path;
  }
  for (const char* path : {"/",
                           "/config",
                           "/debug",
                           "/metrics/",
                           "/metrics/../healthz",
                           "/%2e%2e/config.yaml",
                           "//metrics",
                           "/audit.chain",
                           "/identity/svid.pem",
                           "/v1/jobs",
                           "/healthz%00",
                           "/targets/",
                           "/targets/..",
                           "/keys/",
                           "/.well-known",
                           "/.well-known/",
                           "/targets",
                           "/keys",
                           "/metrics",
                           "/.well-known/openid-configuration",
                           "/.well-known/jwks.json"}) {
    if (std::find(pages.begin(), pages.end(), path) != pages.end()) continue;
    EXPECT_EQ(HttpGet(base + path, roots).status, 404) << base << path;
  }
}

// Monitoring is read without a certificate, from this machine alone. Telemetry has one page more,
// which says where the others are.
TEST_F(AccessMatrixTest, HttpServesItsPagesAndNothingElse) {
  for (const auto& [name, endpoint] : endpoints_->parts()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(absl::StartsWith(endpoint.metrics_address(), "127.0.0.1:"));
    std::vector<std::string> pages = {"/metrics", "/healthz", "/readyz"};
    if (name == "telemetry") pages.emplace_back("/targets");
    ExpectOnly(absl::StrCat("http://", endpoint.metrics_address()), pages);
  }
  // Those who are on the list: no Jobs and no people, but all parts, by Cluster and Node.
  const std::string targets = absl::StrCat("http://", PartNamed("telemetry").metrics, "/targets");
  for (const auto& [name, endpoint] : endpoints_->parts()) {
    EXPECT_TRUE(platform_->Await([&, address = endpoint.metrics_address()] {
      return absl::StrContains(HttpGet(targets).body, address);
    })) << name;
  }
}

// Who verifies tokens gets the keys for it, over TLS and without a certificate, and nothing else.
TEST_F(AccessMatrixTest, OpenIdServesItsDocumentsAndNothingElse) {
  ExpectOnly(absl::StrCat("https://", openid_address()),
             {"/.well-known/openid-configuration", "/keys"},
             platform_->data_dir() + "/credentials/identity/bundle.pem");
  // It is TLS alone.
  EXPECT_EQ(HttpGet(absl::StrCat("http://", openid_address(), "/keys")).status, 0);
}

// The CLI looks at its own certificate before it shows it to any service, and says what it found
// and what to do.
TEST_F(AccessMatrixTest, TheClisOwnCertificateIsLookedAtFirst) {
  const std::string person = absl::StrCat(platform_->data_dir(), "/person");
  const std::vector<std::string> list = {"job", "list"};
  const struct {
    absl::Duration from;
    absl::Duration until;
    const char* words;
  } rows[] = {
      {-absl::Hours(2), -absl::Minutes(1), "has expired: it is good from "},
      {absl::Minutes(30), absl::Hours(2), "is not yet valid: it is good from "},
  };
  const auto written = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
  };
  for (const auto& row : rows) {
    const auto kept = rpc::Identity::Store(
        person, authority_->Issue(Uri("/person/0"), Now() + row.from, Now() + row.until));
    ASSERT_TRUE(kept.ok()) << kept.status();
    const int64_t before = Counter(PartNamed("scheduler"), kRefused);
    platform_->Signal("credentials", SIGSTOP);
    const CommandResult refused = platform_->Capstan(list);
    platform_->Signal("credentials", SIGCONT);
    EXPECT_EQ(refused.exit_code, static_cast<int>(cli::ExitCode::kUnavailable)) << refused.err;
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr(row.words), HasSubstr(person),
                      HasSubstr(written((*kept)->Get()->not_before)),
                      HasSubstr(written((*kept)->Get()->not_after)),
                      HasSubstr("this machine's clock says "), HasSubstr("`capstan dev status`")));
    EXPECT_EQ(Counter(PartNamed("scheduler"), kRefused), before) << "it was shown to the scheduler";
    // With credentials there, a new one is had and nothing needs to be said.
    EXPECT_NE(platform_->MustCapstan(list), "");
  }
}

}  // namespace
}  // namespace capstan::integration
