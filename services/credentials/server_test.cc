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
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/status/error.h"
#include "proto/capstan/credentials/v1/access_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "services/credentials/server_fixture.h"
#include "services/credentials/testing/server_harness.h"

namespace capstan::credentials {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using ServerTest = ServerFixture;

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
