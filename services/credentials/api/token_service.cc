#include "services/credentials/api/token_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/credentials/api/task_fields.h"
#include "services/credentials/core/act.h"
#include "services/credentials/core/jwt_keyring.h"

namespace capstan::credentials {
namespace {

constexpr absl::Duration kMinTtl = absl::Seconds(10);
constexpr int kMaxAudiences = 8;
constexpr size_t kMaxAudience = 255;
constexpr size_t kTokenIdBytes = 16;

std::string AlgorithmOf(const v1::IssueTaskJwtRequest& request) {
  return request.algorithm().empty() ? kJwtAlgorithms[0] : request.algorithm();
}

}  // namespace

absl::Status ValidateTaskJwt(const v1::IssueTaskJwtRequest& request, absl::Duration max_ttl) {
  status::FieldErrors errors;
  CheckTask(TaskFieldsOf(request), &errors);
  if (request.audiences_size() < 1 || request.audiences_size() > kMaxAudiences) {
    errors.Add("audiences", absl::StrCat("has ", request.audiences_size(), "; expected 1 to 8"));
  }
  for (int i = 0; i < std::min(request.audiences_size(), kMaxAudiences); ++i) {
    const std::string& audience = request.audiences(i);
    if (audience.empty() || audience.size() > kMaxAudience ||
        !std::all_of(audience.begin(), audience.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); })) {
      errors.Add(absl::StrCat("audiences[", i, "]"),
                 "expected 1 to 255 printable ASCII characters without spaces");
    }
  }
  if (request.has_ttl()) {
    const absl::Duration ttl = ToDuration(request.ttl());
    if (ttl < kMinTtl || ttl > max_ttl || absl::Trunc(ttl, absl::Seconds(1)) != ttl) {
      errors.Add("ttl", absl::StrCat("is ", absl::FormatDuration(ttl), "; expected 10s to ",
                                     absl::FormatDuration(max_ttl), " in whole seconds"));
    }
  }
  if (!v1::IssueTaskJwtRequest::Subject_IsValid(request.subject())) {
    errors.Add("subject", "expected SUBJECT_TASK or SUBJECT_SERVICE_ACCOUNT");
  }
  const std::string algorithm = AlgorithmOf(request);
  if (std::find(std::begin(kJwtAlgorithms), std::end(kJwtAlgorithms), algorithm) ==
      std::end(kJwtAlgorithms)) {
    errors.Add("algorithm", "expected `ES256` or `RS256`");
  }
  return errors.ToStatus();
}

grpc::ServerUnaryReactor* TokenServiceHandlers::IssueTaskJwt(grpc::CallbackServerContext* context,
                                                             const v1::IssueTaskJwtRequest* request,
                                                             v1::JwtSvid* response) {
  return rpc::HandleUnary(
      context, deps_.access, act::kIssueTaskJwt, request, response,
      [this](const v1::IssueTaskJwtRequest& request) {
        return ValidateTaskJwt(request, deps_.max_ttl);
      },
      [this](const rpc::Call& call, const v1::IssueTaskJwtRequest& request, v1::JwtSvid* response,
             rpc::Finish finish) {
        absl::StatusOr<std::string> random = deps_.secrets->Bytes(kTokenIdBytes);
        if (!random.ok()) return finish(random.status());
        credentials::IssueTaskJwt event;
        // The rule admits Nodes alone.
        event.node = *call.caller.id;
        event.serial = call.caller.serial;
        event.task = TaskIdOf(deps_.trust_domain, TaskFieldsOf(request));
        event.job = request.job();
        event.audiences.assign(request.audiences().begin(), request.audiences().end());
        event.ttl = request.has_ttl() ? ToDuration(request.ttl()) : deps_.default_ttl;
        event.as_service_account =
            request.subject() == v1::IssueTaskJwtRequest::SUBJECT_SERVICE_ACCOUNT;
        event.algorithm = AlgorithmOf(request);
        event.token_id = absl::BytesToHexString(*random);
        deps_.sink->Submit(std::move(event), [response, finish = std::move(finish)](
                                                 absl::StatusOr<Answer> answer) mutable {
          const absl::Status status = answer.status();
          if (status.ok()) *response = std::get<v1::JwtSvid>(*std::move(answer));
          finish(status);
        });
      });
}

grpc::ServerUnaryReactor* TokenServiceHandlers::GetJwtBundle(grpc::CallbackServerContext* context,
                                                             const v1::GetJwtBundleRequest* request,
                                                             v1::JwtBundle* response) {
  return rpc::HandleUnary(context, deps_.access,
                          "/capstan.credentials.v1.TokenService/GetJwtBundle", request, response,
                          rpc::NothingToValidate(),
                          [this](const rpc::Call&, const v1::GetJwtBundleRequest&,
                                 v1::JwtBundle* response, rpc::Finish finish) {
                            const auto documents = deps_.documents->Get();
                            if (documents == nullptr) {
                              return finish(status::WithRetryDelay(
                                  status::Error(absl::StatusCode::kUnavailable, "NO_SIGNING_KEY",
                                                "The key that signs tokens is being made."),
                                  absl::Seconds(1)));
                            }
                            response->set_trust_domain(deps_.trust_domain);
                            response->set_jwks(documents->spiffe_keys);
                            *response->mutable_refresh_hint() = ToProto(documents->refresh_hint);
                            finish(absl::OkStatus());
                          });
}

}  // namespace capstan::credentials
