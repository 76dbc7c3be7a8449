#include "services/credentials/api/identity_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/auth/placement_claim.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "services/credentials/api/certifiable_key.h"
#include "services/credentials/api/task_fields.h"
#include "services/credentials/core/act.h"

namespace capstan::credentials {
namespace {

template <typename Request>
absl::Status ValidateKey(const Request& request) {
  return ValidateCertificateRequest(request.certificate_request());
}

EventSink::Callback IntoSvid(v1::Svid* response, rpc::Finish finish) {
  return [response, finish = std::move(finish)](absl::StatusOr<Answer> answer) mutable {
    const absl::Status status = answer.status();
    if (status.ok()) *response = std::get<v1::Svid>(*std::move(answer));
    finish(status);
  };
}

absl::Status ValidateTask(const v1::IssueTaskSvidRequest& request) {
  if (absl::Status status = ValidateKey(request); !status.ok()) return status;
  status::FieldErrors errors;
  CheckTask(TaskFieldsOf(request), &errors);
  return errors.ToStatus();
}

auth::PlacementClaim ClaimOf(const v1::IssueTaskSvidRequest& request) {
  return {.job = request.job(),
          .job_uid = request.job_uid(),
          .generation = request.generation(),
          .group = request.group(),
          .index = request.index(),
          .service_account = request.service_account()};
}

}  // namespace

grpc::ServerUnaryReactor* IdentityServiceHandlers::RenewSvid(grpc::CallbackServerContext* context,
                                                             const v1::RenewSvidRequest* request,
                                                             v1::Svid* response) {
  return rpc::HandleUnary(context, access_, act::kRenewSvid, request, response,
                          ValidateKey<v1::RenewSvidRequest>,
                          [this](const rpc::Call& call, const v1::RenewSvidRequest& request,
                                 v1::Svid* response, rpc::Finish finish) {
                            absl::StatusOr<CertifiableKey> key =
                                MakeCertifiableKey(request.certificate_request(), secrets_);
                            if (!key.ok()) return finish(key.status());
                            credentials::RenewSvid event;
                            // The rule admits no anonymous caller.
                            event.identity = *call.caller.id;
                            event.serial = call.caller.serial;
                            event.key = *std::move(key);
                            sink_->Submit(std::move(event), IntoSvid(response, std::move(finish)));
                          });
}

grpc::ServerUnaryReactor* IdentityServiceHandlers::IssueTaskSvid(
    grpc::CallbackServerContext* context, const v1::IssueTaskSvidRequest* request,
    v1::Svid* response) {
  return rpc::HandleUnary(context, access_, act::kIssueTaskSvid, request, response, ValidateTask,
                          [this](const rpc::Call& call, const v1::IssueTaskSvidRequest& request,
                                 v1::Svid* response, rpc::Finish finish) {
                            const absl::Status placed =
                                access_->CheckPlacement(call.caller, ClaimOf(request));
                            if (!placed.ok()) return finish(placed);
                            absl::StatusOr<CertifiableKey> key =
                                MakeCertifiableKey(request.certificate_request(), secrets_);
                            if (!key.ok()) return finish(key.status());
                            credentials::IssueTaskSvid event;
                            event.node = *call.caller.id;
                            event.serial = call.caller.serial;
                            event.task = TaskIdOf(bundle_.trust_domain(), TaskFieldsOf(request));
                            event.key = *std::move(key);
                            sink_->Submit(std::move(event), IntoSvid(response, std::move(finish)));
                          });
}

grpc::ServerUnaryReactor* IdentityServiceHandlers::GetTrustBundle(
    grpc::CallbackServerContext* context, const v1::GetTrustBundleRequest* request,
    v1::TrustBundle* response) {
  return rpc::HandleUnary(context, access_,
                          "/capstan.credentials.v1.IdentityService/GetTrustBundle", request,
                          response, rpc::NothingToValidate(),
                          [this](const rpc::Call&, const v1::GetTrustBundleRequest&,
                                 v1::TrustBundle* response, rpc::Finish finish) {
                            *response = bundle_;
                            finish(absl::OkStatus());
                          });
}

grpc::ServerUnaryReactor* PersonServiceHandlers::IssuePersonSvid(
    grpc::CallbackServerContext* context, const v1::IssuePersonSvidRequest* request,
    v1::Svid* response) {
  return rpc::HandleUnary(context, access_, act::kIssuePersonSvid, request, response,
                          ValidateKey<v1::IssuePersonSvidRequest>,
                          [this](const rpc::Call&, const v1::IssuePersonSvidRequest& request,
                                 v1::Svid* response, rpc::Finish finish) {
                            absl::StatusOr<CertifiableKey> key =
                                MakeCertifiableKey(request.certificate_request(), secrets_);
                            if (!key.ok()) return finish(key.status());
                            credentials::IssuePersonSvid event;
                            event.unix_uid = unix_uid_;
                            event.key = *std::move(key);
                            sink_->Submit(std::move(event), IntoSvid(response, std::move(finish)));
                          });
}

}  // namespace capstan::credentials
