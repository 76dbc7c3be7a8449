#ifndef CAPSTAN_SERVICES_CREDENTIALS_SERVER_FIXTURE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_SERVER_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/auth/testing/test_grant.h"
#include "libs/rpc/call.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "services/credentials/testing/server_harness.h"

namespace capstan::credentials {

// The whole service over real TLS on loopback and a real Unix socket, with an admin, and with
// clients as its users have.
class ServerFixture : public testing::Test {
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

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_SERVER_FIXTURE_H_
