#include "services/node_agent/adapters/credentials_task_tokens.h"

#include <utility>

#include "libs/rpc/call.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/token_service.grpc.pb.h"

namespace capstan::node_agent {
namespace {

namespace cr = capstan::credentials::v1;
using Async = cr::TokenService::StubInterface::async_interface;

constexpr absl::Duration kDeadline = absl::Seconds(5);

class CredentialsTaskTokens final : public TaskTokens {
 public:
  CredentialsTaskTokens(const std::shared_ptr<grpc::Channel>& channel, Strand* strand)
      : stub_(cr::TokenService::NewStub(channel)), strand_(strand) {}

  void Issue(const IssueIdentity& task, bool as_service_account,
             const std::vector<std::string>& audiences,
             absl::AnyInvocable<void(absl::StatusOr<TaskToken>)> done) override {
    cr::IssueTaskJwtRequest request;
    request.set_job(task.job);
    request.set_service_account(task.service_account);
    request.set_job_uid(task.id.job_uid);
    request.set_generation(task.id.generation);
    request.set_group(task.id.group);
    request.set_index(task.id.index);
    request.mutable_audiences()->Assign(audiences.begin(), audiences.end());
    request.set_subject(as_service_account ? cr::IssueTaskJwtRequest::SUBJECT_SERVICE_ACCOUNT
                                           : cr::IssueTaskJwtRequest::SUBJECT_TASK);
    request.set_algorithm(as_service_account ? "RS256" : "ES256");
    rpc::CallUnary(stub_.get(), &Async::IssueTaskJwt, std::move(request), {.deadline = kDeadline},
                   strand_, [done = std::move(done)](absl::StatusOr<cr::JwtSvid> svid) mutable {
                     if (!svid.ok()) return done(svid.status());
                     done(TaskToken{svid->spiffe_id(), svid->token(), ToTime(svid->expire_time())});
                   });
  }

  void GetKeys(absl::AnyInvocable<void(absl::StatusOr<TokenKeys>)> done) override {
    rpc::CallUnary(stub_.get(), &Async::GetJwtBundle, cr::GetJwtBundleRequest(),
                   {.deadline = kDeadline}, strand_,
                   [done = std::move(done)](absl::StatusOr<cr::JwtBundle> bundle) mutable {
                     if (!bundle.ok()) return done(bundle.status());
                     done(TokenKeys{bundle->trust_domain(), bundle->jwks(),
                                    ToDuration(bundle->refresh_hint())});
                   });
  }

 private:
  const std::unique_ptr<cr::TokenService::Stub> stub_;
  Strand* const strand_;
};

}  // namespace

std::unique_ptr<TaskTokens> MakeCredentialsTaskTokens(const std::shared_ptr<grpc::Channel>& channel,
                                                      Strand* strand) {
  return std::make_unique<CredentialsTaskTokens>(channel, strand);
}

}  // namespace capstan::node_agent
