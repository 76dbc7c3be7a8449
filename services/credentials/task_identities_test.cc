// SVIDs and tokens of Tasks, which Nodes ask for.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jose/jwt_svid.h"
#include "libs/jose/key_set.h"
#include "libs/status/error.h"
#include "proto/capstan/credentials/v1/token_service.grpc.pb.h"
#include "services/credentials/server_fixture.h"
#include "services/credentials/testing/server_harness.h"

namespace capstan::credentials {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using TaskIdentitiesTest = ServerFixture;

TEST_F(TaskIdentitiesTest, NodesGetSvidsForTasksAndOthersDoNot) {
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

TEST_F(TaskIdentitiesTest, ATasksSvidGoesToTheNodeOnWhichItWasPlaced) {
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

TEST_F(TaskIdentitiesTest, NodesGetTokensForTheirTasksAndOthersDoNot) {
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

TEST_F(TaskIdentitiesTest, TellsEverythingThatIsWrongWithATokensRequest) {
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

}  // namespace
}  // namespace capstan::credentials
