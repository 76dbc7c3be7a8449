#include "services/credentials/api/join_services.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/credentials/api/certifiable_key.h"
#include "services/credentials/core/act.h"

namespace capstan::credentials {

grpc::ServerUnaryReactor* JoinServiceHandlers::Join(grpc::CallbackServerContext* context,
                                                    const v1::JoinRequest* request,
                                                    v1::JoinResponse* response) {
  return rpc::HandleUnary(
      context, access_, act::kJoin, request, response,
      [](const v1::JoinRequest& request) {
        return ValidateCertificateRequest(request.certificate_request());
      },
      [this](const rpc::Call&, const v1::JoinRequest& request, v1::JoinResponse* response,
             rpc::Finish finish) {
        absl::StatusOr<CertifiableKey> key =
            MakeCertifiableKey(request.certificate_request(), secrets_);
        if (!key.ok()) return finish(key.status());
        credentials::Join event;
        event.key = *std::move(key);
        // A text of another form goes on with an id that no token has: the core refuses it and
        // records the attempt, like any other token that is not valid.
        if (absl::StatusOr<JoinTokenParts> parts = ParseJoinToken(request.token()); parts.ok()) {
          event.token_id = parts->id;
          event.secret_sha256 = Sha256::Of(parts->secret);
        }
        sink_->Submit(std::move(event), [response, finish = std::move(finish)](
                                            absl::StatusOr<Answer> answer) mutable {
          const absl::Status status = answer.status();
          if (status.ok()) *response->mutable_svid() = std::get<v1::Svid>(*std::move(answer));
          finish(status);
        });
      });
}

grpc::ServerUnaryReactor* JoinTokenServiceHandlers::CreateJoinToken(
    grpc::CallbackServerContext* context, const v1::CreateJoinTokenRequest* request,
    v1::JoinToken* response) {
  const auto ttl_of = [](const v1::CreateJoinTokenRequest& request) {
    return request.has_ttl() ? ToDuration(request.ttl()) : JoinTokenMaker::kDefaultTtl;
  };
  return rpc::HandleUnary(
      context, access_, act::kCreateJoinToken, request, response,
      [this, ttl_of](const v1::CreateJoinTokenRequest& request) {
        if (absl::Status status = maker_->Validate(request.path()); !status.ok()) return status;
        status::FieldErrors errors;
        const absl::Duration ttl = ttl_of(request);
        if (ttl <= absl::ZeroDuration() || ttl > JoinTokenMaker::kMaxTtl) {
          errors.Add("ttl", absl::StrCat("is ", absl::FormatDuration(ttl),
                                         "; expected more than 0 and at most 24h"));
        }
        return errors.ToStatus();
      },
      [this, ttl_of](const rpc::Call& call, const v1::CreateJoinTokenRequest& request,
                     v1::JoinToken* response, rpc::Finish finish) {
        maker_->Make(
            call.caller.Name(), request.path(), ttl_of(request),
            [response, finish = std::move(finish)](absl::StatusOr<v1::JoinToken> token) mutable {
              const absl::Status status = token.status();
              if (status.ok()) *response = *std::move(token);
              finish(status);
            });
      });
}

}  // namespace capstan::credentials
