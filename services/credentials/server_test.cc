// The whole service over real TLS on loopback and a real Unix socket, with clients as its users
// have.
#include "services/credentials/server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/jose/jwt_svid.h"
#include "libs/jose/key_set.h"
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/access_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/credentials/v1/token_service.grpc.pb.h"
#include "services/credentials/testing/server_harness.h"

namespace capstan::credentials {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    harness_.config().issuer = "https://capstan.example";
    const absl::Status started = harness_.Start();
    ASSERT_TRUE(started.ok()) << started;
    auto admin = harness_.Person();
    ASSERT_TRUE(admin.ok()) << admin.status();
    admin_ = *std::move(admin);
  }

  std::shared_ptr<rpc::Identity> JoinedAs(const std::string& path) {
    const auto token = harness_.MakeToken(admin_, path);
    EXPECT_TRUE(token.ok()) << token.status();
    auto identity = harness_.JoinAs(*token);
    EXPECT_TRUE(identity.ok()) << identity.status();
    return *std::move(identity);
  }

  absl::StatusOr<v1::Svid> Renew(std::shared_ptr<rpc::Identity> identity,
                                 const rpc::PrivateKey& key) {
    const auto stub = v1::IdentityService::NewStub(harness_.Dial(std::move(identity)));
    v1::RenewSvidRequest request;
    request.set_certificate_request(*rpc::MakeCertificateRequest(key));
    return Call<v1::Svid>(*stub, &v1::IdentityService::Stub::RenewSvid, request);
  }

  // What the scheduler gives with the order of the Task that is asked about.
  std::string GrantFor(const std::string& node, const v1::IssueTaskSvidRequest& request) {
    if (scheduler_ == nullptr) scheduler_ = JoinedAs("/svc/scheduler");
    type::v1::Placement placement;
    placement.set_trust_domain(harness_.server().trust_domain());
    placement.set_cluster("local");
    placement.set_node(node);
    placement.set_job(request.job());
    placement.set_job_uid(request.job_uid());
    placement.set_generation(request.generation());
    placement.set_group(request.group());
    placement.set_index(request.index());
    placement.set_service_account(request.service_account());
    *placement.mutable_sign_time() = ToProto(harness_.clock().Read().wall);
    return auth::TestGrant(scheduler_->Get()->svid, placement);
  }

  absl::StatusOr<v1::Svid> IssueTaskSvid(std::shared_ptr<rpc::Identity> as,
                                         const v1::IssueTaskSvidRequest& request,
                                         const std::string& grant) {
    const auto stub = v1::IdentityService::NewStub(harness_.Dial(std::move(as)));
    grpc::ClientContext context;
    rpc::SetDeadline(context, absl::Seconds(20));
    if (!grant.empty()) context.AddMetadata(rpc::kPlacementGrant, grant);
    v1::Svid svid;
    const grpc::Status status = stub->IssueTaskSvid(&context, request, &svid);
    if (!status.ok()) return rpc::FromGrpcStatus(status);
    return svid;
  }

  absl::Status Deny(const std::string& spiffe_id, const std::string& serial) {
    const auto stub = v1::PolicyService::NewStub(harness_.Dial(admin_));
    v1::DenyIdentityRequest request;
    request.set_spiffe_id(spiffe_id);
    request.set_serial(serial);
    request.set_reason("a test");
    return Call<google::protobuf::Empty>(*stub, &v1::PolicyService::Stub::DenyIdentity, request)
        .status();
  }

  absl::StatusOr<v1::Project> MakeProject(const std::string& id) {
    const auto stub = v1::ProjectService::NewStub(harness_.Dial(admin_));
    v1::CreateProjectRequest request;
    request.set_project_id(id);
    request.mutable_project()->set_display_name("Robots");
    return Call<v1::Project>(*stub, &v1::ProjectService::Stub::CreateProject, request);
  }

  absl::StatusOr<v1::RoleBinding> Bind(const std::string& parent, const std::string& id,
                                       const std::string& member, v1::RoleBinding::Role role) {
    const auto stub = v1::ProjectService::NewStub(harness_.Dial(admin_));
    v1::CreateRoleBindingRequest request;
    request.set_parent(parent);
    request.set_role_binding_id(id);
    request.mutable_role_binding()->set_member(member);
    request.mutable_role_binding()->set_role(role);
    return Call<v1::RoleBinding>(*stub, &v1::ProjectService::Stub::CreateRoleBinding, request);
  }

  std::string Id(const std::string& path) {
    return absl::StrCat("spiffe://", harness_.server().trust_domain(), path);
  }

  const TemporaryFolder folder_;
  ServerHarness harness_{folder_.path()};
  std::shared_ptr<rpc::Identity> admin_;
  std::shared_ptr<rpc::Identity> scheduler_;
};

TEST_F(ServerTest, MakesATrustDomainWithAnAdminAndADefaultProject) {
  EXPECT_THAT(harness_.server().trust_domain(), testing::MatchesRegex("capstan-[0-9a-f]+\\.local"));
  EXPECT_EQ(admin_->spiffe_id(), Id(absl::StrCat("/person/", geteuid())));
  const auto stub = v1::ProjectService::NewStub(harness_.Dial(admin_));
  const auto projects = Call<v1::ListProjectsResponse>(
      *stub, &v1::ProjectService::Stub::ListProjects, v1::ListProjectsRequest());
  ASSERT_TRUE(projects.ok()) << projects.status();
  ASSERT_EQ(projects->projects_size(), 1);
  EXPECT_EQ(projects->projects(0).name(), "projects/default");
  EXPECT_TRUE(harness_.server().Ready().ok());
}

TEST_F(ServerTest, JoinsAndRenews) {
  const auto scheduler = JoinedAs("/svc/scheduler");
  EXPECT_EQ(scheduler->spiffe_id(), Id("/svc/scheduler"));
  const auto key = rpc::PrivateKey::Generate();
  const auto renewed = Renew(scheduler, *key);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->spiffe_id(), Id("/svc/scheduler"));
  const auto certificate = rpc::ParseCertificate(renewed->certificate_chain(0));
  ASSERT_TRUE(certificate.ok());
  EXPECT_EQ(certificate->public_key, key->PublicKey());
  EXPECT_NE(certificate->serial, scheduler->Get()->serial);
  EXPECT_EQ(certificate->not_after - certificate->not_before, absl::Hours(24) + absl::Seconds(10));
}

TEST_F(ServerTest, ATokenServesOneKeyAndEveryOtherUseIsRefusedAndRecorded) {
  const auto token = harness_.MakeToken(admin_, "/executor/local");
  ASSERT_TRUE(token.ok()) << token.status();
  const auto key = rpc::PrivateKey::Generate();
  ASSERT_TRUE(harness_.Join(*token, *key).ok());
  // A lost answer: the same key asks again.
  const auto repeated = harness_.Join(*token, *key);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_EQ(repeated->spiffe_id(), Id("/executor/local"));

  const auto stolen = harness_.Join(*token, *rpc::PrivateKey::Generate());
  EXPECT_EQ(stolen.status().code(), absl::StatusCode::kUnauthenticated) << stolen.status();
  EXPECT_EQ(status::Reason(stolen.status()), "INVALID_JOIN_TOKEN");
  const std::vector<std::string> parts = absl::StrSplit(*token, '.');
  const std::string unknown = absl::StrCat(std::string(32, '0'), ".", parts[1], ".", parts[2]);
  const auto unknown_answer = harness_.Join(unknown, *key);
  EXPECT_EQ(unknown_answer.status().ToString(), stolen.status().ToString());

  const auto records = harness_.Audit(admin_);
  ASSERT_TRUE(records.ok()) << records.status();
  int refused = 0;
  int redeemed = 0;
  for (const auto& record : *records) {
    if (!absl::EndsWith(record.act(), "JoinService/Join")) continue;
    refused += record.outcome_code() == 16 ? 1 : 0;
    redeemed += record.outcome_code() == 0 ? 1 : 0;
    EXPECT_EQ(record.principal(), "anonymous");
  }
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(redeemed, 2);
}

TEST_F(ServerTest, RefusesRequestsThatAreNotSignedByAP256Key) {
  const auto token = harness_.MakeToken(admin_, "/executor/local");
  const auto stub = v1::PersonService::NewStub(grpc::CreateChannel(
      absl::StrCat("unix:", harness_.config().person_socket), grpc::InsecureChannelCredentials()));
  std::string request_der = *rpc::MakeCertificateRequest(*rpc::PrivateKey::Generate());
  v1::IssuePersonSvidRequest request;
  for (int i = 0; i < 3; ++i) {
    if (i == 1) request_der.back() = static_cast<char>(request_der.back() ^ 1);
    if (i == 2) request_der.assign(9000, 'x');
    if (i == 0) request.clear_certificate_request();
    if (i > 0) request.set_certificate_request(request_der);
    const auto answer = Call<v1::Svid>(*stub, &v1::PersonService::Stub::IssuePersonSvid, request);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument) << i;
    ASSERT_EQ(status::GetFieldViolations(answer.status()).size(), 1u);
    EXPECT_EQ(status::GetFieldViolations(answer.status())[0].field, "certificate_request");
  }
}

TEST_F(ServerTest, PolicyChangesReachThoseWhoWatch) {
  const auto scheduler = JoinedAs("/svc/scheduler");
  const auto stub = v1::PolicyService::NewStub(harness_.Dial(scheduler));
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(20));
  const auto stream = stub->WatchPolicy(&context, v1::WatchPolicyRequest());
  v1::PolicySnapshot first;
  ASSERT_TRUE(stream->Read(&first));
  EXPECT_EQ(first.role_bindings_size(), 1);
  EXPECT_EQ(first.projects_size(), 1);
  EXPECT_GT(first.valid_seconds(), 0);

  ASSERT_TRUE(MakeProject("robots").ok());
  const auto bound =
      Bind("projects/robots", "ann", "person/1001", v1::RoleBinding::ROLE_RESEARCHER);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->name(), "projects/robots/roleBindings/ann");
  v1::PolicySnapshot latest;
  do {
    ASSERT_TRUE(stream->Read(&latest));
  } while (latest.role_bindings_size() < 2);
  EXPECT_GT(latest.revision(), first.revision());
  EXPECT_EQ(latest.projects_size(), 2);
  context.TryCancel();
}

TEST_F(ServerTest, TheDeniedLoseTheirStreamsAndAreNotRenewed) {
  const auto loader = JoinedAs("/svc/data_loader");
  const auto stub = v1::PolicyService::NewStub(harness_.Dial(loader));
  grpc::ClientContext context;
  rpc::SetDeadline(context, absl::Seconds(20));
  const auto stream = stub->WatchPolicy(&context, v1::WatchPolicyRequest());
  v1::PolicySnapshot snapshot;
  ASSERT_TRUE(stream->Read(&snapshot));

  ASSERT_TRUE(Deny("/svc/data_loader", "").ok());
  EXPECT_FALSE(stream->Read(&snapshot));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  const auto renewed = Renew(loader, *rpc::PrivateKey::Generate());
  EXPECT_EQ(renewed.status().code(), absl::StatusCode::kPermissionDenied) << renewed.status();
  // Nor does it come back by a new token.
  EXPECT_EQ(harness_.MakeToken(admin_, "/svc/data_loader").status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(ServerTest, ADeniedSerialIsNotRenewedButItsHolderMayJoinAgain) {
  const auto node = JoinedAs("/node/local/node-0");
  ASSERT_TRUE(Deny("", node->Get()->serial).ok());
  EXPECT_EQ(Renew(node, *rpc::PrivateKey::Generate()).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Renew(JoinedAs("/node/local/node-0"), *rpc::PrivateKey::Generate()).ok());
}

TEST_F(ServerTest, NodesGetSvidsForTasksAndOthersDoNot) {
  const auto node = JoinedAs("/node/local/node-0");
  v1::IssueTaskSvidRequest request;
  request.set_certificate_request(*rpc::MakeCertificateRequest(*rpc::PrivateKey::Generate()));
  request.set_job("projects/default/jobs/digits");
  request.set_service_account("projects/default/serviceAccounts/default");
  request.set_job_uid("8b3c5b7e-0f4a-4d7e-9c43-0123456789ab");
  request.set_generation(2);
  request.set_group("worker");
  request.set_index(3);
  const auto issue = [&](std::shared_ptr<rpc::Identity> as) {
    return IssueTaskSvid(std::move(as), request, GrantFor("node-0", request));
  };
  const auto svid = issue(node);
  ASSERT_TRUE(svid.ok()) << svid.status();
  EXPECT_EQ(svid->spiffe_id(),
            Id("/project/default/sa/default/job/8b3c5b7e-0f4a-4d7e-9c43-0123456789ab/gen/2/task/"
               "worker-3"));
  EXPECT_EQ(issue(admin_).status().code(), absl::StatusCode::kPermissionDenied);
  request.set_service_account("projects/other/serviceAccounts/default");
  EXPECT_EQ(issue(node).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServerTest, ATasksSvidGoesToTheNodeOnWhichItWasPlaced) {
  const auto node = JoinedAs("/node/local/node-0");
  const auto other = JoinedAs("/node/local/node-1");
  v1::IssueTaskSvidRequest request;
  request.set_certificate_request(*rpc::MakeCertificateRequest(*rpc::PrivateKey::Generate()));
  request.set_job("projects/default/jobs/digits");
  request.set_service_account("projects/default/serviceAccounts/default");
  request.set_job_uid("8b3c5b7e-0f4a-4d7e-9c43-0123456789ab");
  request.set_generation(2);
  request.set_group("worker");
  request.set_index(3);
  const std::string grant = GrantFor("node-0", request);
  const auto reason = [&](const std::shared_ptr<rpc::Identity>& as, const auto& asked) {
    return status::Reason(IssueTaskSvid(as, asked, grant).status());
  };
  EXPECT_EQ(status::Reason(IssueTaskSvid(node, request, "").status()), "NO_PLACEMENT");
  EXPECT_EQ(reason(other, request), "NO_PLACEMENT");
  v1::IssueTaskSvidRequest asked = request;
  asked.set_job("projects/default/jobs/letters");
  EXPECT_EQ(reason(node, asked), "NO_PLACEMENT");
  asked = request;
  asked.set_job_uid("9b3c5b7e-0f4a-4d7e-9c43-0123456789ab");
  EXPECT_EQ(reason(node, asked), "NO_PLACEMENT");
  asked = request;
  asked.set_generation(3);
  EXPECT_EQ(reason(node, asked), "NO_PLACEMENT");
  asked = request;
  asked.set_group("chief");
  EXPECT_EQ(reason(node, asked), "NO_PLACEMENT");
  asked = request;
  asked.set_index(0);
  EXPECT_EQ(reason(node, asked), "NO_PLACEMENT");
  asked = request;
  asked.set_service_account("projects/default/serviceAccounts/admin");
  EXPECT_EQ(reason(node, asked), "NO_PLACEMENT");
  EXPECT_TRUE(IssueTaskSvid(node, request, grant).ok());
  // A scheduler whose key was stolen has granted nothing, once that is known.
  ASSERT_TRUE(Deny("", scheduler_->Get()->serial).ok());
  EXPECT_EQ(reason(node, request), "NO_PLACEMENT");
}

TEST_F(ServerTest, NodesGetTokensForTheirTasksAndOthersDoNot) {
  const auto node = JoinedAs("/node/local/node-0");
  const auto other = JoinedAs("/node/local/node-1");
  v1::IssueTaskSvidRequest svid;
  svid.set_certificate_request(*rpc::MakeCertificateRequest(*rpc::PrivateKey::Generate()));
  v1::IssueTaskJwtRequest request;
  const auto name_task = [](auto* named) {
    named->set_job("projects/default/jobs/digits");
    named->set_service_account("projects/default/serviceAccounts/train");
    named->set_job_uid("8b3c5b7e-0f4a-4d7e-9c43-0123456789ab");
    named->set_generation(2);
    named->set_group("worker");
    named->set_index(3);
  };
  name_task(&svid);
  name_task(&request);
  request.add_audiences("sts.amazonaws.com");
  // The keys are made beside everything else; until then a token is asked for again.
  const auto issue = [&](const std::shared_ptr<rpc::Identity>& as) {
    const auto stub = v1::TokenService::NewStub(harness_.Dial(as));
    while (true) {
      auto token = Call<v1::JwtSvid>(*stub, &v1::TokenService::Stub::IssueTaskJwt, request);
      const std::string reason = status::Reason(token.status());
      if (reason != "NO_SIGNING_KEY" && reason != "KEY_NOT_OPEN") return token;
    }
  };
  EXPECT_EQ(status::Reason(issue(node).status()), "NOT_THE_TASKS_NODE");
  ASSERT_TRUE(IssueTaskSvid(node, svid, GrantFor("node-0", svid)).ok());
  const auto token = issue(node);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(issue(other).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(issue(admin_).status().code(), absl::StatusCode::kPermissionDenied);
  request.set_subject(v1::IssueTaskJwtRequest::SUBJECT_SERVICE_ACCOUNT);
  request.set_algorithm("RS256");
  const auto stable = issue(node);
  ASSERT_TRUE(stable.ok()) << stable.status();
  EXPECT_EQ(stable->spiffe_id(), Id("/project/default/sa/train"));
  const absl::Time now = harness_.clock().Read().wall;

  harness_.Stop();
  ASSERT_TRUE(harness_.Start().ok());
  // What was signed before is verified by the keys that are published now.
  const auto stub = v1::TokenService::NewStub(harness_.Dial(other));
  const auto bundle =
      Call<v1::JwtBundle>(*stub, &v1::TokenService::Stub::GetJwtBundle, v1::GetJwtBundleRequest());
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->trust_domain(), harness_.server().trust_domain());
  const auto keys = jose::KeySet::Parse(bundle->jwks());
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->size(), 2u);
  for (const auto* issued : {&*token, &*stable}) {
    const auto valid = jose::ValidateJwtSvid(issued->token(), *keys, bundle->trust_domain(),
                                             "sts.amazonaws.com", now);
    ASSERT_TRUE(valid.ok()) << valid.status();
    EXPECT_EQ(valid->claims.subject, issued->spiffe_id());
    EXPECT_EQ(valid->claims.issuer, "https://capstan.example");
    EXPECT_THAT(valid->payload, HasSubstr("\"generation\":\"2\""));
  }
  EXPECT_THAT(token->spiffe_id(), testing::EndsWith("/gen/2/task/worker-3"));
  const auto again = issue(node);
  ASSERT_TRUE(again.ok()) << again.status();

  const auto records = harness_.Audit(admin_);
  ASSERT_TRUE(records.ok()) << records.status();
  int issued = 0;
  int refused = 0;
  for (const auto& record : *records) {
    if (!absl::EndsWith(record.act(), "TokenService/IssueTaskJwt")) continue;
    (record.outcome_code() == 0 ? issued : refused) += 1;
    EXPECT_THAT(record.SerializeAsString(), Not(HasSubstr(token->token())));
  }
  EXPECT_EQ(issued, 3);
  EXPECT_EQ(refused, 3);
  // No private key lies in the store in the clear.
  EXPECT_THAT(harness_.Disk(), HasSubstr("\"kty\":\"EC\""));
  EXPECT_THAT(harness_.Disk(), Not(HasSubstr("\"d\":")));
}

TEST_F(ServerTest, TellsEverythingThatIsWrongWithATokensRequest) {
  const auto node = JoinedAs("/node/local/node-0");
  v1::IssueTaskJwtRequest request;
  request.set_algorithm("none");
  request.mutable_ttl()->set_seconds(7200);
  request.add_audiences("two words");
  const auto stub = v1::TokenService::NewStub(harness_.Dial(node));
  const auto answer = Call<v1::JwtSvid>(*stub, &v1::TokenService::Stub::IssueTaskJwt, request);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  std::vector<std::string> fields;
  for (const auto& violation : status::GetFieldViolations(answer.status())) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAre("job", "service_account", "generation",
                                                    "audiences[0]", "ttl", "algorithm"));
}

TEST_F(ServerTest, PeopleWithoutARoleMayDoNothing) {
  // This process is one person only; taking its role away makes it one without. The last admin
  // cannot be unbound, so there has to be another.
  ASSERT_TRUE(Bind("", "other-admin", "person/4711", v1::RoleBinding::ROLE_ADMIN).ok());
  const auto stub = v1::ProjectService::NewStub(harness_.Dial(admin_));
  v1::DeleteRoleBindingRequest request;
  request.set_name("roleBindings/first-admin");
  ASSERT_TRUE(
      Call<google::protobuf::Empty>(*stub, &v1::ProjectService::Stub::DeleteRoleBinding, request)
          .ok());
  EXPECT_EQ(MakeProject("robots").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(harness_.MakeToken(admin_, "/svc/scheduler").status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(harness_.Audit(admin_).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ServerTest, PeopleLearnWhatTheyMayDoAndNothingMore) {
  const auto stub = v1::AccessService::NewStub(harness_.Dial(admin_));
  const auto ask = [&] {
    return Call<v1::CallerAccess>(*stub, &v1::AccessService::Stub::GetCallerAccess,
                                  v1::GetCallerAccessRequest())
        .value();
  };
  const auto test = [&](const std::string& resource, const std::vector<std::string>& permissions) {
    v1::TestPermissionsRequest request;
    request.set_resource(resource);
    for (const std::string& permission : permissions) request.add_permissions(permission);
    return Call<v1::TestPermissionsResponse>(*stub, &v1::AccessService::Stub::TestPermissions,
                                             request);
  };
  EXPECT_EQ(ask().principal(), admin_->spiffe_id());
  ASSERT_EQ(ask().roles_size(), 1);
  EXPECT_EQ(ask().roles(0).project(), "");
  EXPECT_EQ(ask().roles(0).role(), v1::RoleBinding::ROLE_ADMIN);
  EXPECT_EQ(test("projects/default/jobs/j", {"jobs.create", "nodes.cordon"})->permissions_size(),
            2);
  const auto refused = test("", {"jobs.create", "jobs.frobnicate"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(test("", {}).status().code(), absl::StatusCode::kInvalidArgument);

  // As a viewer of one project: that, and what projects share.
  ASSERT_TRUE(MakeProject("robots").ok());
  ASSERT_TRUE(Bind("", "other-admin", "person/4711", v1::RoleBinding::ROLE_ADMIN).ok());
  ASSERT_TRUE(
      Bind("projects/robots", "me", absl::StrCat("person/", getuid()), v1::RoleBinding::ROLE_VIEWER)
          .ok());
  const auto projects = v1::ProjectService::NewStub(harness_.Dial(admin_));
  v1::DeleteRoleBindingRequest request;
  request.set_name("roleBindings/first-admin");
  ASSERT_TRUE(Call<google::protobuf::Empty>(*projects, &v1::ProjectService::Stub::DeleteRoleBinding,
                                            request)
                  .ok());
  ASSERT_EQ(ask().roles_size(), 1);
  EXPECT_EQ(ask().roles(0).project(), "projects/robots");
  EXPECT_EQ(test("projects/robots", {"jobs.get", "jobs.create"})->permissions_size(), 1);
  EXPECT_EQ(test("projects/default", {"jobs.get"})->permissions_size(), 0);
  EXPECT_EQ(test("", {"nodes.get", "nodes.cordon"})->permissions_size(), 1);
}

TEST_F(ServerTest, TheLastAdminStays) {
  const auto stub = v1::ProjectService::NewStub(harness_.Dial(admin_));
  v1::DeleteRoleBindingRequest request;
  request.set_name("roleBindings/first-admin");
  const auto removed =
      Call<google::protobuf::Empty>(*stub, &v1::ProjectService::Stub::DeleteRoleBinding, request);
  EXPECT_EQ(status::Reason(removed.status()), "LAST_ADMIN") << removed.status();
}

TEST_F(ServerTest, ARestartKeepsEverything) {
  ASSERT_TRUE(MakeProject("robots").ok());
  const auto scheduler = JoinedAs("/svc/scheduler");
  const auto token = harness_.MakeToken(admin_, "/executor/local");
  const std::string domain = harness_.server().trust_domain();
  const std::string bundle = harness_.server().bundle_sha256();
  const auto records = harness_.Audit(admin_);
  ASSERT_TRUE(records.ok());

  harness_.Stop();
  const absl::Status restarted = harness_.Start();
  ASSERT_TRUE(restarted.ok()) << restarted;
  EXPECT_EQ(harness_.server().trust_domain(), domain);
  EXPECT_EQ(harness_.server().bundle_sha256(), bundle);
  // Identities, tokens, Projects, roles and the chain go on.
  EXPECT_TRUE(Renew(scheduler, *rpc::PrivateKey::Generate()).ok());
  EXPECT_TRUE(harness_.JoinAs(*token).ok());
  EXPECT_EQ(MakeProject("robots").status().code(), absl::StatusCode::kAlreadyExists);
  const auto more = harness_.Audit(admin_);
  ASSERT_TRUE(more.ok()) << more.status();
  ASSERT_GT(more->size(), records->size());
  for (size_t i = 0; i < records->size(); ++i) {
    EXPECT_EQ((*more)[i].SerializeAsString(), (*records)[i].SerializeAsString());
  }
}

TEST_F(ServerTest, WithoutTheKeyKeepersFileItDoesNotStart) {
  harness_.Stop();
  const std::string file = harness_.folder() + "/key_keeper.key";
  ASSERT_EQ(rename(file.c_str(), (file + ".lost").c_str()), 0);
  const absl::Status status = harness_.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.ToString(), HasSubstr(file));
  EXPECT_NE(access(file.c_str(), F_OK), 0);
}

TEST_F(ServerTest, AnExpiredCertificateEndsInTheHandshake) {
  const auto scheduler = JoinedAs("/svc/scheduler");
  harness_.Stop();
  harness_.clock().Shift(absl::Hours(25));
  ASSERT_TRUE(harness_.Start().ok());
  const auto renewed = Renew(scheduler, *rpc::PrivateKey::Generate());
  EXPECT_EQ(renewed.status().code(), absl::StatusCode::kUnavailable) << renewed.status();
  const auto admin = harness_.Person();
  ASSERT_TRUE(admin.ok()) << admin.status();
  const auto records = harness_.Audit(*admin);
  ASSERT_TRUE(records.ok()) << records.status();
  bool recorded = false;
  for (const auto& record : *records) {
    recorded |= record.act() == "handshake" && record.resource() == scheduler->spiffe_id();
  }
  EXPECT_TRUE(recorded);
}

TEST_F(ServerTest, AnotherTrustDomainsCertificateEndsInTheHandshake) {
  const TemporaryFolder folder;
  ServerHarness other(folder.path());
  ASSERT_TRUE(other.Start().ok());
  const auto key = rpc::PrivateKey::Generate();
  auto svid = other.PersonSvid(*key);
  ASSERT_TRUE(svid.ok());
  // It knows whom it talks to; only what it shows is foreign.
  svid->mutable_bundle()->clear_roots();
  svid->mutable_bundle()->add_roots(admin_->Get()->svid.bundle[0]);
  const auto stranger = harness_.Keep(*svid, *key);
  ASSERT_TRUE(stranger.ok());
  const auto channel =
      rpc::Dial(harness_.address(), *stranger, &harness_.clock(), Id("/svc/credentials"));
  const auto stub = v1::IdentityService::NewStub(channel);
  const auto bundle = Call<v1::TrustBundle>(*stub, &v1::IdentityService::Stub::GetTrustBundle,
                                            v1::GetTrustBundleRequest());
  EXPECT_EQ(bundle.status().code(), absl::StatusCode::kUnavailable) << bundle.status();
}

TEST_F(ServerTest, TheSupervisorGetsTokensForItsPartsAlone) {
  harness_.Stop();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  harness_.config().supervisor_fd = ends[1];
  harness_.config().supervised_paths = {"/svc/scheduler", "/node/local/node-0"};
  ASSERT_TRUE(harness_.Start().ok());
  const auto receive = [&] {
    char packet[4096];
    const ssize_t size = recv(ends[0], packet, sizeof(packet), 0);
    return std::string(packet, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  };
  const auto ask = [&](const std::string& question) {
    EXPECT_EQ(send(ends[0], question.data(), question.size(), 0),
              static_cast<ssize_t>(question.size()));
    return receive();
  };
  EXPECT_EQ(receive(), absl::StrCat("ready ", harness_.server().trust_domain(), " ",
                                    harness_.server().bundle_sha256(), " ",
                                    harness_.server().port(), " ", harness_.server().join_port()));
  const std::vector<std::string> answer = absl::StrSplit(ask("token /svc/scheduler"), ' ');
  ASSERT_EQ(answer.size(), 3u);
  EXPECT_EQ(answer[0], "token");
  EXPECT_EQ(answer[1], "/svc/scheduler");
  const auto joined = harness_.JoinAs(answer[2]);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ((*joined)->spiffe_id(), Id("/svc/scheduler"));
  // A part whose file was lost asks again.
  EXPECT_THAT(ask("token /svc/scheduler"), testing::StartsWith("token /svc/scheduler "));
  EXPECT_THAT(ask("token /svc/telemetry"), testing::StartsWith("error "));
  EXPECT_THAT(ask("anything else"), testing::StartsWith("error "));
  harness_.Stop();
  EXPECT_EQ(receive(), "");
  harness_.config().supervisor_fd = -1;
  close(ends[0]);
}

TEST_F(ServerTest, NoSecretIsLoggedStoredOrTold) {
  const auto token = harness_.MakeToken(admin_, "/svc/scheduler");
  ASSERT_TRUE(token.ok());
  const std::string secret = std::vector<std::string>(absl::StrSplit(*token, '.'))[1];
  ASSERT_TRUE(harness_.JoinAs(*token).ok());
  const auto refused = harness_.Join(*token, *rpc::PrivateKey::Generate());
  const auto garbled = harness_.Join(*token + "0", *rpc::PrivateKey::Generate());
  std::ifstream file(harness_.folder() + "/key_keeper.key", std::ios::binary);
  const std::string keeper_key{std::istreambuf_iterator<char>(file),
                               std::istreambuf_iterator<char>()};
  ASSERT_EQ(keeper_key.size(), 32u);
  // What a P-256 key in PKCS#8 begins with.
  const std::string pkcs8("\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01", 14);
  const std::string disk = harness_.Disk();
  const std::string told =
      absl::StrCat(harness_.Logs(), refused.status().ToString(), garbled.status().ToString());
  ASSERT_THAT(harness_.Logs(), HasSubstr("serving"));
  ASSERT_THAT(disk, HasSubstr("join_token"));
  for (const std::string& text : {disk, told}) {
    EXPECT_THAT(text, Not(HasSubstr(secret)));
    EXPECT_THAT(text, Not(HasSubstr(keeper_key)));
    EXPECT_THAT(text, Not(HasSubstr(pkcs8)));
  }
}

}  // namespace
}  // namespace capstan::credentials
