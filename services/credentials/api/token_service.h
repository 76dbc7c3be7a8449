#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_TOKEN_SERVICE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_TOKEN_SERVICE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/auth/access.h"
#include "proto/capstan/credentials/v1/token_service.grpc.pb.h"
#include "services/credentials/api/jwt_documents.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// Issues JWT-SVIDs over mTLS, and gives the keys to verify them.
class TokenServiceHandlers final : public v1::TokenService::CallbackService {
 public:
  struct Deps {
    // All must outlive it.
    EventSink* sink = nullptr;
    SecretSource* secrets = nullptr;
    auth::Access* access = nullptr;
    const JwtDocumentHolder* documents = nullptr;
    std::string trust_domain;
    absl::Duration default_ttl;
    absl::Duration max_ttl;
  };
  explicit TokenServiceHandlers(Deps deps) : deps_(std::move(deps)) {}

  grpc::ServerUnaryReactor* IssueTaskJwt(grpc::CallbackServerContext* context,
                                         const v1::IssueTaskJwtRequest* request,
                                         v1::JwtSvid* response) override;
  grpc::ServerUnaryReactor* GetJwtBundle(grpc::CallbackServerContext* context,
                                         const v1::GetJwtBundleRequest* request,
                                         v1::JwtBundle* response) override;

 private:
  const Deps deps_;
};

// INVALID_ARGUMENT with everything that is wrong.
absl::Status ValidateTaskJwt(const v1::IssueTaskJwtRequest& request, absl::Duration max_ttl);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_TOKEN_SERVICE_H_
