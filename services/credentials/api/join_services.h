#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_JOIN_SERVICES_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_JOIN_SERVICES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/auth/access.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "services/credentials/api/join_token.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// The joining port.
class JoinServiceHandlers final : public v1::JoinService::CallbackService {
 public:
  // All must outlive it.
  JoinServiceHandlers(EventSink* sink, SecretSource* secrets, auth::Access* access)
      : sink_(sink), secrets_(secrets), access_(access) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const v1::JoinRequest* request,
                                 v1::JoinResponse* response) override;

 private:
  EventSink* const sink_;
  SecretSource* const secrets_;
  auth::Access* const access_;
};

// Makes join tokens for people with the right to.
class JoinTokenServiceHandlers final : public v1::JoinTokenService::CallbackService {
 public:
  // All must outlive it.
  JoinTokenServiceHandlers(JoinTokenMaker* maker, auth::Access* access)
      : maker_(maker), access_(access) {}

  grpc::ServerUnaryReactor* CreateJoinToken(grpc::CallbackServerContext* context,
                                            const v1::CreateJoinTokenRequest* request,
                                            v1::JoinToken* response) override;

 private:
  JoinTokenMaker* const maker_;
  auth::Access* const access_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_JOIN_SERVICES_H_
